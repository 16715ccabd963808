"""`python -m tests.bench.replicas`: fits of forecasts, answers of the metrics API over TLS, and decisions by the HPA's algorithm.

Loads to fit are upstream's own: 15 days of minutes with a daily wave and noise, 21,660 samples each.

The metrics API answers from a view of 1,000 EHPAs with forecasts, to a process of its own that asks at a fixed rate over one
connection; a latency is counted from the moment at which the question was due, so that a late one makes the next ones late, too.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import psutil

from agents.logic.forecast import dsp, ensemble
from agents.logic.forecast.dsp import DspSettings
from agents.logic.forecast.ensemble import EnsembleSettings
from agents.logic.forecast.forecast_values import NoForecast
from agents.logic.forecast.load_series import Floats, Times
from agents.logic.replicas import hpa_reconcile, replica_calculator
from agents.logic.replicas.hpa_metrics import HpaMetric
from agents.logic.replicas.hpa_reconcile import HpaBounds, HpaMemory
from agents.logic.replicas.load_ring_buffers import LoadRings
from agents.logic.replicas.pod_usage import ScaledPodUsage
from agents.logic.replicas.replica_calculator import (
    HpaPodPhase,
    HpaPods,
    MetricError,
    MetricSamples,
    ReadyCondition,
    ReplicaContext,
)
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores
from tests.support.metrics_api_scene import AT, ehpa, forecast, scene_in_a_folder

Put = Callable[[str, float, str, str], None]
RATE, SECONDS, EHPAS = 200, 10, 1_000
SAMPLES, BEGIN = 21_660, 1_767_571_200
"""Samples of one load, and the Monday on which it begins."""
UPSTREAM = {100: 78.0, 1_000: 567.0}
"""Microseconds of a decision by Kubernetes' own code, by the number of pods."""


def measure(put: Put) -> None:
    """All of it."""
    _fits(put)
    _many_fits(put)
    _reading(put)
    _decisions(put)
    _from_state(put)
    _answers(put)


def _load(seed: int) -> tuple[Times, Floats]:
    """Times and values of upstream's benchmark: 5 + 2 sin, a day long, at another phase for each seed, and noise."""
    index = np.arange(SAMPLES)
    noise = np.random.default_rng(seed).normal(0.0, 0.3, SAMPLES)
    values = 5.0 + 2.0 * np.sin(2 * np.pi * ((index + 37 * seed) % 1440) / 1440) + noise
    return BEGIN + 60 * index, values


def _fits(put: Put) -> None:
    """One series, by both predictors; the median of some."""
    loads = [_load(seed) for seed in range(20)]
    for name, fit in (("DSP as upstream has it", _by_dsp), ("ours", _by_ensemble)):
        times = [_seconds(fit, *load) for load in loads]
        goal = "<= 10 ms (upstream 921 ms)"
        put(f"forecast of one 15-day minute series, {name}, median", float(np.median(times)) * 1e3, "ms", goal)


def _seconds(fit: Callable[..., object], *load: object) -> float:
    began = time.perf_counter()
    if isinstance(fit(*load), NoForecast):
        raise TypeError("a daily wave has a forecast")
    return time.perf_counter() - began


def _by_dsp(times: Times, values: Floats) -> object:
    return dsp.fit(times, values, DspSettings())


def _by_ensemble(times: Times, values: Floats) -> object:
    return ensemble.fit(times, values, EnsembleSettings())


def _many_fits(put: Put) -> None:
    """Series as the forecaster holds them: rings filled, then each fitted once; of very many, each twentieth."""
    for count, every, goal in ((1_000, 1, "<= 10 s (upstream 900 s)"), (20_000, 20, "")):
        rings, loads = LoadRings(), [_load(seed) for seed in range(20)]
        before = psutil.Process().memory_info().rss
        for number in range(count):
            rings.add(f"series-{number}")
            rings.fill(f"series-{number}", *loads[number % len(loads)])
        grown = (psutil.Process().memory_info().rss - before) / (1 << 20)
        began = time.perf_counter()
        for number in range(0, count, every):
            _by_ensemble(*rings.series(f"series-{number}"))
        spent = (time.perf_counter() - began) * every
        how = "one after another" if every == 1 else f"one after another, from each {every}th"
        put(f"forecasts of {count:,} 15-day minute series, {how}", spent, "s", goal)
        put(f"memory of {count:,} such series", grown, "MiB", "")


def _reading(put: Put) -> None:
    """An hour read out of a forecast of 15 days."""
    found = dsp.fit(*_load(0), DspSettings())
    if isinstance(found, NoForecast):
        raise TypeError(found.text)
    for day, theirs in ((0, 2.8), (7, 49.0), (14, 98.0)):
        first, rounds = found.forecast.start + day * 86_400, 10_000
        began = time.perf_counter()
        for _ in range(rounds):
            found.forecast.highest(first, first + 3600)
        spent = (time.perf_counter() - began) / rounds
        put(f"highest of an hour at day {day} of a 15-day forecast", spent * 1e6, "us", f"<= 10 (upstream {theirs:g})")


def _decisions(put: Put) -> None:
    """One pass over a workload whose pods' CPU is known, as the HPA controller makes it: a metric, its proposal, the decision."""
    for count, goal in UPSTREAM.items():
        pods, samples, requests = _pods(count)
        scene, bounds = ReplicaContext(count, count, now=1e6), HpaBounds(1, 10 * count)
        first = replica_calculator.by_utilization(pods, samples, requests, target=50, scene=scene)
        if isinstance(first, MetricError):
            raise TypeError(first.text)
        _, memory = hpa_reconcile.decide(bounds, count, [first], HpaMemory(), now=1e6 - 15)
        times = []
        for _ in range(2_000):
            began = time.perf_counter()
            answer = replica_calculator.by_utilization(pods, samples, requests, target=50, scene=scene)
            if isinstance(answer, MetricError):
                raise TypeError(answer.text)
            decision, _ = hpa_reconcile.decide(bounds, count, [answer], memory, now=1e6)
            times.append(time.perf_counter() - began)
        if decision.replicas <= count:
            raise ValueError(f"{count} pods at 80 % of a target of 50 % stay {decision.replicas}")
        put(f"HPA decision for {count:,} pods, median", float(np.median(times)) * 1e6, "us", f"<= {goal:g} (Kubernetes' code)")


def _from_state(put: Put) -> None:
    """The same decision from what the forecaster holds: a scrape comes in, pods and requests are looked up, a metric proposes."""
    web, cpu, count, began = (
        Workload("demo", "shop", "Deployment", "web"),
        HpaMetric("Resource", "cpu", utilization=50),
        1_000,
        AT,
    )
    usage = ScaledPodUsage(lambda _: True)
    app = ContainerSeen("app", Amounts(Cores(0.1), Bytes(10**8)), ready=True)
    for number in range(count):
        name = PodName("shop", f"web-{number}", f"uid-{number}")
        usage.pod_changed(PodChanged(began, web, name, PodPhase.RUNNING, began, (app,), started=began))
    names = (web.key,) * count, tuple(f"web-{number}" for number in range(count)), ("app",) * count
    taken, decided = [], []
    for scrape in range(200):
        at = began + timedelta(hours=1, seconds=15 * scrape)
        amounts = np.full(count, 0.08 + scrape * 1e-5), np.full(count, 1e8)
        event = MetricsScraped(at, "demo", *names, *amounts)
        start = time.perf_counter()
        usage.scraped(event)
        middle = time.perf_counter()
        pods, context = usage.of(web.key), ReplicaContext(count, count, now=at.timestamp())
        samples = pods.samples(usage.usage.get(web.key), cpu, since=at.timestamp() - 60)
        answer = replica_calculator.by_utilization(pods.columns, samples, pods.requested(cpu), target=50, scene=context)
        taken.append(middle - start)
        decided.append(time.perf_counter() - middle)
        if isinstance(answer, MetricError):
            raise TypeError(answer.text)
    put(f"HPA decision for {count:,} pods from its own state, median", float(np.median(decided)) * 1e6, "us", "<= 300")
    put(f"HPA usage of {count:,} pods taken in, a scrape, median", float(np.median(taken)) * 1e6, "us", "")


def _pods(count: int) -> tuple[HpaPods, MetricSamples, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Ready for long, each at 80 % of a request of 100m."""
    long_ago = np.zeros(count)
    phase, ready = np.full(count, HpaPodPhase.RUNNING, np.int8), np.full(count, ReadyCondition.YES, np.int8)
    pods = HpaPods(phase, np.zeros(count, bool), ready, long_ago, long_ago)
    taken = np.full(count, 1e6 - 10)
    samples = MetricSamples(np.ones(count, bool), np.full(count, 80, np.int64), taken, np.full(count, 30.0), cpu=True)
    return pods, samples, np.full(count, 100, np.int64)


def _answers(put: Put) -> None:
    with scene_in_a_folder() as scene:
        scene.tick(AT)
        for number in range(EHPAS):
            scene.say(ehpa(f"web-{number}"), forecast(f"web-{number}", *([1.5] * 120)))
        scene.view.catch_up()
        certificate = scene.authority.sign("aggregator", ["127.0.0.1"])
        with scene.serving() as server:
            command = [sys.executable, "-m", "tests.support.metrics_api_asker", str(server.port), str(certificate)]
            done = subprocess.run([*command, str(RATE), str(SECONDS)], capture_output=True, text=True, check=True, timeout=120)
        told = json.loads(done.stdout)
    late = np.array(told["milliseconds"])
    if told["bad"] or len(late) < RATE * SECONDS:
        raise ValueError(f"{told['bad']} of {len(late)} answers were none")
    put(f"metrics API over TLS at {RATE} a second, p50", float(np.percentile(late, 50)), "ms", "")
    put(f"metrics API over TLS at {RATE} a second, p99", float(np.percentile(late, 99)), "ms", "")


def _print(name: str, value: float, unit: str, goal: str) -> None:
    sys.stdout.write(f"{name:<60} {value:>10.2f} {unit} {goal}\n")


if __name__ == "__main__":
    measure(_print)
