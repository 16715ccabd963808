"""Curves of the demo's day, in slices of half an hour: what was requested and used, nodes of each group, and scaled replicas.

An instance counts from the moment at which it was first seen until it is gone, whatever it does in between, as on the bill. Slack
is the share of the requested amount that was not used: 1 - used / requested, over all samples. Usage beyond the request makes it
smaller.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from schemas import times
from schemas.decisions.replica_plans import LoadForecast
from schemas.facts.nodes import NodeInstanceGone, NodeInstanceSeen

SLICE_SECONDS = 1800


class UsageSum(NamedTuple):
    """Sums over containers, of cores or of bytes."""

    requested: float = 0.0
    used: float = 0.0
    recommended: float = 0.0

    @property
    def slack(self) -> float:
        """Share of what is requested that is not used."""
        return 1 - self.used / self.requested if self.requested else 0.0

    def plus(self, other: tuple[float, float, float]) -> "UsageSum":
        """Both together."""
        return UsageSum(self.requested + other[0], self.used + other[1], self.recommended + other[2])


class UsageTotals(NamedTuple):
    """Sums over containers: cores and bytes."""

    cpu: UsageSum = UsageSum()
    memory: UsageSum = UsageSum()

    def plus(self, cpu: tuple[float, float, float], memory: tuple[float, float, float]) -> "UsageTotals":
        """With (requested, used, recommended) of each from others."""
        return UsageTotals(self.cpu.plus(cpu), self.memory.plus(memory))


@dataclass(slots=True)
class UsageCurve:
    """Sums of samples by half hour of event time. `rounds` counts scrapes, so that sums become averages."""

    slices: dict[int, UsageTotals] = field(default_factory=dict)
    rounds: dict[int, set[datetime]] = field(default_factory=dict)

    def add(self, at: datetime, totals: UsageTotals) -> None:
        """Add one scrape of one partition."""
        number = int(at.timestamp()) // SLICE_SECONDS
        self.slices[number] = self.slices.get(number, UsageTotals()).plus(*totals)
        self.rounds.setdefault(number, set()).add(at)

    def averages(self) -> list[UsageTotals]:
        """The averages of all slices in order of time."""
        counts = {number: len(rounds) for number, rounds in self.rounds.items()}
        return [
            UsageTotals(*(UsageSum(*(amount / counts[number] for amount in sums)) for sums in self.slices[number]))
            for number in sorted(self.slices)
        ]

    @property
    def hours(self) -> float:
        """How long it is, from the first scrape to the last."""
        scrapes = [at for times in self.rounds.values() for at in times]
        return (max(scrapes) - min(scrapes)).total_seconds() / 3600 if scrapes else 0.0

    def total(self) -> UsageTotals:
        """The sum of all samples of the day."""
        day = UsageTotals()
        for totals in self.slices.values():
            day = day.plus(*totals)
        return day


_HOUR = timedelta(hours=1)


@dataclass(slots=True)
class _Life:
    group: str
    began: datetime
    ended: datetime | None = None


@dataclass(slots=True)
class NodeCurve:
    """The instances of the day, by their ids."""

    _lives: dict[str, _Life] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there were any."""
        return bool(self._lives)

    def seen(self, event: NodeInstanceSeen) -> None:
        """An instance is there."""
        self._lives.setdefault(event.instance, _Life(event.group, event.at))

    def gone(self, event: NodeInstanceGone) -> None:
        """An instance is gone."""
        if event.instance in self._lives:
            self._lives[event.instance].ended = event.at

    def hours(self, until: datetime | None) -> float:
        """Hours of all instances together."""
        return sum((end - begin) / _HOUR for begin, end in self._spans(until))

    def count(self, at: datetime | None, group: str | None = None) -> int:
        """How many there are at a moment, of all groups or of one."""
        if at is None:
            return 0
        lives = [life for life in self._lives.values() if group in (None, life.group)]
        return sum(life.began <= at and (life.ended is None or at < life.ended) for life in lives)

    def by_slice(self, until: datetime | None, slices: Sequence[int]) -> Mapping[str, list[float]]:
        """By group the average number in each half hour of these, which are given by their beginnings in seconds."""
        averages: dict[str, list[float]] = {}
        for group in sorted({life.group for life in self._lives.values()}):
            spans = list(self._spans(until, group))
            averages[group] = [_average(spans, datetime.fromtimestamp(begin, UTC), until) for begin in slices]
        return averages

    def _spans(self, until: datetime | None, group: str | None = None) -> Iterator[tuple[datetime, datetime]]:
        for life in self._lives.values():
            end = life.ended or until
            if end is not None and end > life.began and group in (None, life.group):
                yield life.began, end


def _average(spans: Sequence[tuple[datetime, datetime]], begin: datetime, until: datetime | None) -> float:
    end = begin + timedelta(seconds=SLICE_SECONDS)
    end = end if until is None else min(end, until)
    if end <= begin:
        return float(sum(first <= begin < last for first, last in spans))
    shared = (min(end, last) - max(begin, first) for first, last in spans)
    return sum((length for length in shared if length > timedelta(0)), timedelta(0)) / (end - begin)


_CPU = "resource.cpu"


@dataclass(frozen=True, slots=True)
class ReplicaSlice:
    """Averages of half an hour: cores used, cores that were forecast before it began (None where nothing was), and pods."""

    used: float
    forecast: float | None
    pods: float


@dataclass(slots=True)
class _Scaled:
    used: dict[int, dict[datetime, float]] = field(default_factory=dict)
    pods: dict[int, dict[datetime, int]] = field(default_factory=dict)
    forecast: dict[int, float] = field(default_factory=dict)

    def slice(self, number: int) -> ReplicaSlice:
        return ReplicaSlice(_mean(self.used.get(number, {})), self.forecast.get(number), _mean(self.pods.get(number, {})))


@dataclass(slots=True)
class ReplicaCurve:
    """The scaled workloads of the day, by key."""

    _scaled: dict[str, _Scaled] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._scaled)

    def __contains__(self, workload: str) -> bool:
        return workload in self._scaled

    def forecast(self, event: LoadForecast) -> None:
        """A forecast counts for the half hours that begin after it, until there is a newer one."""
        scaled = self._scaled.setdefault(event.workload.key, _Scaled())
        for metric in event.metrics:
            if metric.identifier != _CPU:
                continue
            by_slice: dict[int, list[float]] = {}
            for number, value in enumerate(metric.expected or metric.values):
                at = times.to_seconds(metric.start) + number * metric.step
                by_slice.setdefault(int(at) // SLICE_SECONDS, []).append(value)
            begins = times.to_seconds(event.at) / SLICE_SECONDS
            scaled.forecast.update({number: sum(v) / len(v) for number, v in by_slice.items() if number >= begins})

    def used(self, at: datetime, cores: Mapping[str, tuple[float, int]]) -> None:
        """Apply one scrape: cores and pods by workload; partitions have different workloads."""
        number = int(at.timestamp()) // SLICE_SECONDS
        for workload, scaled in self._scaled.items():
            if workload in cores:
                scaled.used.setdefault(number, {})[at], scaled.pods.setdefault(number, {})[at] = cores[workload]

    def by_slice(self, slices: Sequence[int]) -> Mapping[str, list[ReplicaSlice]]:
        """By workload, the slices of these half hours, which are given by their numbers."""
        return {name: [scaled.slice(number) for number in slices] for name, scaled in sorted(self._scaled.items())}

    def pods(self, workload: str) -> float:
        """Pods of a workload on average over all scrapes."""
        slices = self._scaled[workload].pods.values() if workload in self._scaled else ()
        return _mean({at: pods for pods_by_scrape in slices for at, pods in pods_by_scrape.items()})

    @property
    def workloads(self) -> list[str]:
        """Their keys, in order."""
        return sorted(self._scaled)


def _mean(values: Mapping[datetime, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0
