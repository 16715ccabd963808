"""Real loads, and an autoscaler that follows them: plain, with DSP's forecast as a second metric, and with ours.

The decisions are those of the HPA's algorithm with its defaults, a pass a minute, on a metric that is to have a tenth of the mean
load for each replica, which is 70 % of what a replica bears. The metric is a minute old, a new replica is ready after three. DSP
is fitted each 12 hours and ours each ten minutes, as upstream and the forecaster do it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from agents.logic.forecast import dsp, ensemble
from agents.logic.forecast.dsp import DspSettings
from agents.logic.forecast.ensemble import EnsembleSettings
from agents.logic.forecast.forecast_values import Forecast, NoForecast
from agents.logic.replicas import hpa_reconcile, replica_calculator
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.replicas.hpa_reconcile import HpaBounds, HpaMemory
from agents.logic.replicas.replica_calculator import MetricError, ReplicaContext
from tests.bench.load_traces import Floats, LoadTrace

MINUTE, HOUR, DAY = 60, 3600, 86_400
READY_AFTER = 3
"""Minutes until a new replica takes load."""
UTILIZATION = 0.7
KNOWN = 15 * DAY + HOUR
REPLICAS = 10
"""Replicas that the mean load asks for."""

Forecaster = Callable[[LoadTrace, int], Forecast | None]
"""What is forecast from what is known at a place of a series; None for no forecast."""


def known(series: LoadTrace, place: int) -> tuple["np.ndarray[tuple[int], np.dtype[np.int64]]", Floats]:
    """The samples of 15 days before a place."""
    first = max(0, place - KNOWN // series.step)
    values = series.values[first:place]
    good = np.isfinite(values)
    return (series.start + series.step * np.arange(first, place))[good], values[good]


def by_dsp(series: LoadTrace, place: int) -> Forecast | None:
    """Upstream's, with its margins."""
    found = dsp.fit(*known(series, place), DspSettings(step=float(series.step)))
    return None if isinstance(found, NoForecast) else found.forecast


def by_ensemble(series: LoadTrace, place: int) -> Forecast | None:
    """Ours, with the margin of the settings."""
    found = ensemble.fit(
        *known(series, place),
        EnsembleSettings(step=series.step, horizon=2 * HOUR + series.step, coverage=ForecasterSettings().coverage),
    )
    return None if isinstance(found, NoForecast) else found.upper


@dataclass(frozen=True)
class ScalingWay:
    """A forecaster, seconds between two fits, and the window in seconds of which the highest value counts; None: no forecast."""

    name: str
    forecaster: Forecaster | None = None
    refit: int = int(ForecasterSettings().refit)
    window: int = HOUR


WAYS = (
    ScalingWay("plain HPA"),
    ScalingWay("DSP", by_dsp, 12 * HOUR),
    ScalingWay("ours", by_ensemble),
    ScalingWay("ours, window of 10 minutes", by_ensemble, window=600),
)


@dataclass
class ScaledHours:
    """What came of it: minutes, those in which the load was more than the ready replicas bear, and the hours of replicas."""

    minutes: int = 0
    under: int = 0
    replica_hours: float = 0.0
    needed_hours: float = 0.0


@dataclass
class _World:
    """The replicas at work, and those that start, by the minute in which they are ready."""

    asked: int
    ready: int
    starting: list[tuple[int, int]] = field(default_factory=list)

    def scale(self, replicas: int, minute: int) -> None:
        if replicas > self.asked:
            self.starting.append((minute + READY_AFTER, replicas - self.asked))
        else:
            gone = self.asked - replicas
            while gone and self.starting:
                at, count = self.starting.pop()
                kept = max(0, count - gone)
                gone -= count - kept
                if kept:
                    self.starting.append((at, kept))
            self.ready -= gone
        self.asked = replicas

    def wait(self, minute: int) -> None:
        self.ready += sum(count for at, count in self.starting if at <= minute)
        self.starting = [each for each in self.starting if each[0] > minute]


def follow(series: LoadTrace, way: ScalingWay, *, first: int, last: int) -> ScaledHours:
    """Scale by a series from one place to another."""
    loads = _minutes(series, first, last)
    per_replica = float(np.nanmean(series.values[:first])) / REPLICAS
    world = _World(REPLICAS, REPLICAS)
    memory, told, forecast = HpaMemory(), ScaledHours(), None
    begin = series.start + first * series.step
    for minute, load in enumerate(loads):
        now = begin + minute * MINUTE
        if way.forecaster is not None and minute * MINUTE % way.refit == 0:
            forecast = way.forecaster(series, (now - series.start) // series.step)
        world.wait(minute)
        told.minutes += 1
        told.under += load > world.ready * per_replica / UTILIZATION
        told.replica_hours += world.asked / 60
        told.needed_hours += max(1, math.ceil(load / (per_replica / UTILIZATION))) / 60
        values = [loads[max(0, minute - 1)]]
        ahead = None if forecast is None else forecast.highest(now, now + way.window)
        values += [] if ahead is None else [max(0.0, ahead)]
        world_asks, memory = _decision(world.asked, values, per_replica, memory, now)
        if world_asks != world.asked:
            world.scale(world_asks, minute)
    return told


def _decision(asked: int, values: Sequence[float], per_replica: float, memory: HpaMemory, now: int) -> tuple[int, HpaMemory]:
    scene = ReplicaContext(asked, asked, now=now)
    target = max(1, round(per_replica * 1e6))
    found = [replica_calculator.by_value_per_pod(round(value * 1e6), target=target, scene=scene) for value in values]
    if any(isinstance(each, MetricError) for each in found):
        raise TypeError("a value is no metric")
    decision, memory = hpa_reconcile.decide(HpaBounds(1, 1000), asked, found, memory, now=now)
    return decision.replicas, memory


def _minutes(series: LoadTrace, first: int, last: int) -> list[float]:
    """The load a minute, by straight lines between bins; gaps, too."""
    values = series.values[first:last]
    places = np.arange(len(values))
    good = np.isfinite(values)
    count = (len(values) - 1) * series.step // MINUTE
    return [float(v) for v in np.interp(np.arange(count) * MINUTE / series.step, places[good], values[good])]


def compare(series: Sequence[LoadTrace], days: int) -> Iterator[tuple[str, ScaledHours]]:
    """Each way over the last days of each series that has a week before them, added up."""
    for way in WAYS:
        total = ScaledHours()
        for one in series:
            last = len(one.values)
            first = last - days * DAY // one.step
            if first * one.step < 7 * DAY or np.isfinite(one.values[first:last]).mean() < 0.9 or not one.values[:first].any():
                continue
            told = follow(one, way, first=first, last=last)
            total.minutes += told.minutes
            total.under += told.under
            total.replica_hours += told.replica_hours
            total.needed_hours += told.needed_hours
        yield way.name, total
