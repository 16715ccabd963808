"""Workloads whose replicas follow a forecast: what they used, what had been forecast for that time, and their pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agents.demo.usage_curve import SLICE_SECONDS
from schemas import times
from schemas.decisions.replica_plans import LoadForecast

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
        return {name: [_slice(scaled, number) for number in slices] for name, scaled in sorted(self._scaled.items())}

    def pods(self, workload: str) -> float:
        """Pods of a workload on average over all scrapes."""
        slices = self._scaled[workload].pods.values() if workload in self._scaled else ()
        return _mean({at: pods for pods_by_scrape in slices for at, pods in pods_by_scrape.items()})

    @property
    def workloads(self) -> list[str]:
        """Their keys, in order."""
        return sorted(self._scaled)


def _slice(scaled: _Scaled, number: int) -> ReplicaSlice:
    return ReplicaSlice(_mean(scaled.used.get(number, {})), scaled.forecast.get(number), _mean(scaled.pods.get(number, {})))


def _mean(values: Mapping[datetime, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0
