"""The product's gauges: what the pods of each namespace request, should request and used; what was done and killed there."""

from dataclasses import replace

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest

from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from agents.telemetry import ConsumerMetrics, SourceMetrics, UsageMetrics
from agents.telemetry.fleet_metrics import FleetMetrics
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import PodDeleted, PodPhase
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts, PodName
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import RevertRequested
from schemas.units import Bytes, Cores, Seconds
from streams.codec.event_codec import Codec
from streams.sources.usage.readings import Readings, used_by_namespace
from streams.topics import Topics
from tests.support.cluster_events import API, GIB, START, pod, turn, when
from tests.support.examples import EVENTS

WEB = {"cluster": "demo", "namespace": "web"}
TASK = ("updater", 0)


def test_requests_and_recommendations_are_summed_by_namespace_at_most_once_a_minute_and_go_with_the_pods() -> None:
    registry, seconds = CollectorRegistry(), iter([0.0, 30.0, 60.0])
    metrics, updater = FleetMetrics(registry, lambda: next(seconds)), Updater(UpdateSettings(), 0)
    target = Amounts(Cores(0.2), Bytes(3 * GIB))
    advice = RequestsRecommended("r", when(START), API, (ContainerRecommendation("app", target, target, target, target),), {})
    pods = [pod("a", START), pod("b", START, phase=PodPhase.PENDING), pod("done", START, phase=PodPhase.SUCCEEDED)]
    updater.step(turn(START, pod_changes_by_cluster=pods, recommendations_by_cluster=[advice]))
    updater.clusters.enter_recommendations()

    def shown() -> list[float | None]:
        amounts = [f"{side}_{what}" for side in ("requested", "recommended") for what in ("cpu_cores", "memory_bytes")]
        return [registry.get_sample_value(f"ullage_{name}", WEB) for name in (*amounts, "reverts")]

    metrics.look(TASK, updater.clusters)
    assert shown() == [2.0, 2.0 * GIB, 0.4, 6.0 * GIB, 0.0]
    back = RevertRequested(when(START), API, when(START), {"app": target})
    gone = [PodDeleted(when(START), API, PodName("web", name, f"uid-{name}")) for name in ("a", "b")]
    updater.step(turn(START + 1000, pod_changes_by_cluster=gone[:1], policies=[back]))
    metrics.look(TASK, updater.clusters)  # 30 s: too early
    assert shown()[0] == 2.0
    metrics.look(TASK, updater.clusters)
    assert shown() == [1.0, 1.0 * GIB, 0.2, 3.0 * GIB, 1.0]
    metrics.forget(TASK)
    assert shown() == [None] * 5


def test_the_sums_of_many_pods_are_made_in_parts_of_the_pods_that_were_there_at_the_beginning() -> None:
    registry, updater = CollectorRegistry(), Updater(UpdateSettings(), 0)
    metrics = FleetMetrics(registry, lambda: 0.0)
    pods = [pod(f"p{number}", START) for number in range(6_000)]
    updater.step(turn(START, pod_changes_by_cluster=pods))
    shown = []
    for minute in range(3):
        metrics.look(TASK, updater.clusters)
        shown.append(registry.get_sample_value("ullage_requested_cpu_cores", WEB))
        updater.step(turn(START + minute + 1, pod_changes_by_cluster=[pod(f"later-{minute}", START)]))
    assert shown == [None, None, 6_000.0]


def test_a_pod_with_many_containers_counts_for_so_many() -> None:
    registry, updater = CollectorRegistry(), Updater(UpdateSettings(), 0)
    metrics = FleetMetrics(registry, lambda: 0.0)
    one = pod("a", START)
    giant = replace(one, containers=one.containers * 1_000)
    updater.step(turn(START, pod_changes_by_cluster=[replace(giant, pod=PodName("web", f"p{n}", f"u{n}")) for n in range(6)]))
    metrics.look(TASK, updater.clusters)
    assert registry.get_sample_value("ullage_requested_cpu_cores", WEB) is None
    metrics.look(TASK, updater.clusters)
    assert registry.get_sample_value("ullage_requested_cpu_cores", WEB) == 6_000.0


def test_a_scrape_has_a_thousand_namespaces_and_the_sum_of_the_others_whatever_the_log_names() -> None:
    registry, updater = CollectorRegistry(), Updater(UpdateSettings(), 0)
    passed = [0.0]
    metrics = FleetMetrics(registry, lambda: passed[0])
    names = [f"ns-{number}" for number in range(998)] + ["a\nb", 'c"\\{}', *(f"forged-{number}" for number in range(500))]
    pods = [replace(pod(f"p{n}", START), workload=replace(API, namespace=name)) for n, name in enumerate(names)]
    pods = [replace(each, pod=PodName(each.workload.namespace, each.pod.name, each.pod.uid)) for each in pods]
    for number, told in enumerate((pods[:1000], pods[1000:])):  # those that have a row keep it
        updater.step(turn(START + number, pod_changes_by_cluster=told))
        passed[0] = 1e6 * number
        metrics.look(TASK, updater.clusters)
    others = {"cluster": "demo", "namespace": "(others)"}
    assert registry.get_sample_value("ullage_requested_cpu_cores", others) == 500.0
    assert registry.get_sample_value("ullage_requested_cpu_cores", {"cluster": "demo", "namespace": "a\nb"}) == 1.0
    lines = [line for line in generate_latest(registry).decode().splitlines() if line.startswith("ullage_requested_cpu_cores{")]
    assert len(lines) == 1_001
    metrics.forget(TASK)
    assert b"{" not in generate_latest(registry)


def test_use_kills_and_acts_are_those_of_their_namespaces() -> None:
    registry, topics = CollectorRegistry(), Topics()
    usage, source, consumer = UsageMetrics(registry), SourceMetrics(registry, topics, "kube"), ConsumerMetrics(registry, topics)
    nothing = np.array([0.25, np.nan, 1.0])
    readings = Readings(("web", "web", "db"), ("a", "b", "c"), ("app",) * 3, nothing, nothing * GIB, nothing, Seconds(60.0))
    usage.used("demo", used_by_namespace(readings))
    assert registry.get_sample_value("ullage_used_cpu_cores", WEB) == 0.25
    assert registry.get_sample_value("ullage_used_memory_bytes", {**WEB, "namespace": "db"}) == GIB
    usage.used("demo", {"web": (0.5, 1.0)})
    assert registry.get_sample_value("ullage_used_cpu_cores", {**WEB, "namespace": "db"}) is None

    (kill,) = (each for each in EVENTS if isinstance(each, ContainerOOMKilled))
    record = Codec(topics).encode(kill, topic="oom-events", key=kill.workload.key, partition=0, source="/test")
    source.appended([record, record])
    where = {"cluster": kill.workload.cluster, "namespace": kill.workload.namespace}
    assert registry.get_sample_value("ullage_oom_kills_total", where) == 2.0

    for act in (each for each in EVENTS if isinstance(each, ActionFinished)):
        consumer.appended([Codec(topics).encode(act, topic="outcomes", key="demo", partition=0, source="/test")])
        counted = {"cluster": act.subject.cluster, "namespace": act.subject.namespace, "action": act.action.value}
        done = act.result is Result.DONE and bool(act.subject.namespace)
        assert (registry.get_sample_value("ullage_acts_total", counted) is not None) >= done
    assert registry.get_sample_value("ullage_acts_total", {**where, "action": Action.RESIZE.value}) is None  # it was refused
