"""The pods of workloads and their current usage, from which an autoscaler's live metrics are read."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.logic.replicas.hpa_metrics import HpaMetric
from agents.logic.replicas.hpa_pods import (
    MOST_MILLI,
    NOT_STARTED,
    ContainerRequest,
    HpaPodPhase,
    HpaPods,
    MetricSamples,
    Milli,
    PodRequest,
    ReadyCondition,
    milli,
    requests,
)
from schemas import times
from schemas.facts.pods import PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts

_PHASES = {
    PodPhase.PENDING: HpaPodPhase.PENDING,
    PodPhase.RUNNING: HpaPodPhase.RUNNING,
    PodPhase.SUCCEEDED: HpaPodPhase.SUCCEEDED,
    PodPhase.FAILED: HpaPodPhase.FAILED,
    PodPhase.UNKNOWN: HpaPodPhase.UNKNOWN,
}
_MILLI = 1000
_HELD = 256
"""How many scrapes to keep the looked-up rows of."""


@dataclass(frozen=True, slots=True)
class ContainerAmounts:
    """Cores and bytes of one container; None where unknown."""

    name: str
    cpu: float | None
    memory: float | None

    def of(self, resource: str) -> float | None:
        """The amount of a resource."""
        return self.cpu if resource == "cpu" else self.memory


@dataclass(frozen=True, slots=True)
class ScaledPod:
    """A pod and the requests of its containers and sidecars; `whole` are the pod's own, where it has any.

    `changed` is when its current readiness was first seen (seconds since the epoch).
    """

    workload: str
    name: str
    phase: PodPhase
    ready: bool
    changed: float
    started: float | None
    requests: tuple[ContainerAmounts, ...]
    leaving: bool = False
    whole: ContainerAmounts | None = None

    @property
    def counts(self) -> bool:
        """Whether the pod takes load: it runs, is ready, and is not being deleted."""
        return self.ready and self.phase is PodPhase.RUNNING and not self.leaving


@dataclass(frozen=True, slots=True)
class PodReading:
    """What a pod's containers used."""

    pod: str
    containers: tuple[ContainerAmounts, ...]


@dataclass(frozen=True, slots=True)
class WorkloadReading:
    """The newest scrape of a workload: its time and its window in seconds."""

    at: float
    window: float
    pods: tuple[PodReading, ...]

    def total(self, resource: str) -> float | None:
        """What all containers together used of a resource; None if the scrape has no amount of it."""
        found = [each.of(resource) for pod in self.pods for each in pod.containers]
        known = [value for value in found if value is not None]
        return math.fsum(known) if known else None


class ScaledPodUsage:
    """The pods of all workloads of a partition, and the newest usage of the workloads for which `is_wanted` is true."""

    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        self._is_wanted = is_wanted
        self.pods: ObjectTable[ScaledPod] = ObjectTable("pods", ScaledPod, 256)
        self.usage: ObjectTable[WorkloadReading] = ObjectTable("usage", WorkloadReading, 64)
        self._of: dict[str, set[str]] | None = None
        self._rows: dict[tuple[int, int, int], tuple[MetricsScraped, dict[str, list[int]]]] = {}

    def tables(self) -> tuple[StatePart, ...]:
        """The tables that a checkpoint holds."""
        return self.pods, self.usage

    def wanted_changed(self) -> None:
        """Drop looked-up rows, because the set of wanted workloads has changed."""
        self._rows.clear()

    def rewire(self, is_wanted: Callable[[str], bool]) -> None:
        """Start over after chunks were loaded, with a new judge of which workloads are wanted."""
        self._is_wanted = is_wanted
        self._of = None
        self._rows.clear()

    def pod_changed(self, event: PodChanged) -> None:
        """Take in the current state of a pod."""
        before, together = self.pods.get(event.pod.uid), event.running_together
        ready = all(each.ready for each in together) and bool(event.containers)
        changed = times.to_seconds(event.at)
        if before is not None and before.ready == ready:
            changed = before.changed
        asked = tuple(_amounts(each.name, each.requests) for each in together)
        whole = None if event.requests == Amounts() else _amounts("", event.requests)
        started = None if event.started is None else times.to_seconds(event.started)
        new = ScaledPod(event.workload.key, event.pod.name, event.phase, ready, changed, started, asked, event.leaving, whole)
        if new == before:
            return
        if before is not None and before.workload != new.workload:
            self._by_workload.get(before.workload, set()).discard(event.pod.uid)
        self.pods.upsert(event.pod.uid, new)
        self._by_workload.setdefault(new.workload, set()).add(event.pod.uid)

    def pod_deleted(self, event: PodDeleted) -> None:
        """Drop a pod that is gone."""
        gone = self.pods.remove(event.pod.uid)
        if gone is not None:
            left = self._by_workload.get(gone.workload, set())
            left.discard(event.pod.uid)
            if not left:
                self._by_workload.pop(gone.workload, None)

    def scraped(self, event: MetricsScraped) -> list[str]:
        """Take in a scrape. Returns the wanted workloads that it has usage of."""
        if event.history:
            return []
        found = self._rows_of(event)
        at, ages = times.to_seconds(event.at), event.ages
        for workload, rows in found.items():
            taken = at - (float(ages[rows[0]]) if len(ages) else 0.0)
            self._merge(workload, WorkloadReading(taken, float(event.window), tuple(_readings(event, rows))))
        return list(found)

    def forget(self, workload: str) -> None:
        """Drop the usage of a workload that nobody wants any more."""
        self.usage.remove(workload)

    def of(self, workload: str) -> list[ScaledPod]:
        """The pods of a workload, by name."""
        uids = self._by_workload.get(workload, set())
        pods = [pod for uid in uids if (pod := self.pods.get(uid)) is not None]
        return sorted(pods, key=lambda pod: pod.name)

    def _rows_of(self, event: MetricsScraped) -> dict[str, list[int]]:
        """The rows of each wanted workload. Equal name columns are the same objects, so one lookup serves many scrapes."""
        key = (id(event.workloads), id(event.pods), id(event.containers))
        held = self._rows.get(key)
        if held is None:
            found: dict[str, list[int]] = {}
            for row, workload in enumerate(event.workloads):
                if self._is_wanted(workload):
                    found.setdefault(workload, []).append(row)
            if len(self._rows) >= _HELD:
                self._rows.clear()
            held = self._rows[key] = (event, found)
        return held[1]

    def _merge(self, workload: str, new: WorkloadReading) -> None:
        """Merge a reading into the newest one: a long scrape arrives in several records of the same time."""
        old = self.usage.get(workload)
        if old is not None and old.at > new.at:
            return
        if old is not None and old.at == new.at:
            there = {pod.pod: pod for pod in (*old.pods, *new.pods)}
            new = WorkloadReading(new.at, new.window, tuple(there[name] for name in sorted(there)))
        self.usage.upsert(workload, new)

    @property
    def _by_workload(self) -> dict[str, set[str]]:
        if self._of is None:
            self._of = {}
            for uid, pod in self.pods.items():
                self._of.setdefault(pod.workload, set()).add(uid)
        return self._of


def _readings(event: MetricsScraped, rows: Sequence[int]) -> Iterable[PodReading]:
    by_pod: dict[str, list[ContainerAmounts]] = {}
    for row in rows:
        used = ContainerAmounts(event.containers[row], _known(event.cores[row]), _known(event.memory[row]))
        by_pod.setdefault(event.pods[row], []).append(used)
    return [PodReading(pod, tuple(sorted(by_pod[pod], key=lambda used: used.name))) for pod in sorted(by_pod)]


def _amounts(name: str, requests: Amounts) -> ContainerAmounts:
    return ContainerAmounts(name, _float(requests.cpu), _float(requests.memory))


def _float(amount: float | None) -> float | None:
    """A float, as a checkpoint restores it: whole bytes would be written differently before and after a recovery."""
    return None if amount is None else float(amount)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def columns(pods: Sequence[ScaledPod]) -> HpaPods:
    """The pods in the form that the HPA's algorithm takes."""
    return HpaPods(
        phase=np.array([_PHASES[pod.phase] for pod in pods], np.int8),
        deleting=np.array([pod.leaving for pod in pods], np.bool_),
        ready=np.array([ReadyCondition.YES if pod.ready else ReadyCondition.NO for pod in pods], np.int8),
        changed=np.array([pod.changed for pod in pods], np.float64),
        started=np.array([NOT_STARTED if pod.started is None else pod.started for pod in pods], np.float64),
    )


def samples(pods: Sequence[ScaledPod], reading: WorkloadReading | None, metric: HpaMetric, *, since: float) -> MetricSamples:
    """What each pod uses of a resource, in all or one of its containers; unknown if the reading is older than `since`."""
    fresh = reading if reading is not None and reading.at >= since else None
    used = {} if fresh is None else {pod.pod: _used(pod, metric) for pod in fresh.pods}
    values = [used.get(pod.name) for pod in pods]
    at, window = (0.0, 0.0) if fresh is None else (fresh.at, fresh.window)
    return MetricSamples(
        known=np.array([value is not None for value in values], np.bool_),
        values=np.array([value or 0 for value in values], np.int64),
        at=np.full(len(pods), at),
        window=np.full(len(pods), window),
        cpu=metric.name == "cpu",
    )


def _used(pod: PodReading, metric: HpaMetric) -> int | None:
    """A pod's usage in milli-units, each container rounded up before the sum; None unless every relevant container was seen."""
    found = [each.of(metric.name) for each in pod.containers if not metric.container or each.name == metric.container]
    known = [value for value in found if value is not None]
    return min(sum(map(milli, known)), MOST_MILLI) if known and len(known) == len(found) else None


def requested(pods: Sequence[ScaledPod], metric: HpaMetric) -> Milli | str:
    """What each pod requests of a resource in milli-units, or a sentence on which request is missing."""
    return requests([_request(pod, metric.name) for pod in pods], resource=metric.name, container=metric.container)


def _request(pod: ScaledPod, resource: str) -> PodRequest:
    containers = tuple(ContainerRequest(each.name, _request_milli(each.of(resource))) for each in pod.requests)
    whole = None if pod.whole is None else _request_milli(pod.whole.of(resource))
    return PodRequest(pod.name, containers, whole, whole_pod=pod.whole is not None)


def _request_milli(amount: float | None) -> int | None:
    return None if amount is None else round(amount * _MILLI)


def share(pods: Sequence[ScaledPod], metric: HpaMetric) -> int | str:
    """What one pod may use of a resource at the target utilisation, in milli-units; or why that is unknown.

    floor(sum of requests * utilisation / number of pods) of the pods that take load.
    Source: `pkg/controller/ehpa/hpa.go` of Crane.
    """
    taking = [pod for pod in pods if pod.counts]
    if not taking:
        return f"none of {len(pods)} pods takes load"
    asked = requested(taking, metric)
    if isinstance(asked, str):
        return asked
    total: int = sum(asked.tolist())
    return total * (metric.utilization or 0) // (100 * len(taking))
