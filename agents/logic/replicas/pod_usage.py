"""The pods of workloads and their current usage, from which an autoscaler's live metrics are read."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.logic.replicas.hpa_metrics import HpaMetric
from agents.logic.replicas.replica_calculator import (
    MOST_MILLI,
    NOT_STARTED,
    ContainerRequest,
    HpaPodPhase,
    HpaPods,
    MetricSamples,
    Milli,
    PodRequest,
    ReadyCondition,
    requests,
)
from schemas import times
from schemas.facts.pods import ENDED_PHASES, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts
from schemas.units import counted

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
class WorkloadReading:
    """The newest scrape of a workload: its time, its window in seconds, and a row for each container, by pod and name.

    `cpu` is in cores, `memory` in bytes; None where unknown. Readings of the same containers share one tuple of names.
    """

    at: float
    window: float
    pods: tuple[str, ...]
    containers: tuple[str, ...]
    cpu: tuple[float | None, ...]
    memory: tuple[float | None, ...]

    def of(self, resource: str) -> tuple[float | None, ...]:
        """The amounts of a resource."""
        return self.cpu if resource == "cpu" else self.memory

    def total(self, resource: str) -> float | None:
        """What all containers together used of a resource; None if the scrape has no amount of it."""
        known = [amount for amount in self.of(resource) if amount is not None]
        return math.fsum(known) if known else None

    def joined(self, newer: "WorkloadReading") -> "WorkloadReading":
        """This one with the pods of a newer record of the same scrape, which has whole pods."""
        rows = [row for row in zip(*self._columns(), strict=True) if row[0] not in set(newer.pods)]
        rows += zip(*newer._columns(), strict=True)  # noqa: SLF001  # its own class
        rows.sort(key=lambda row: row[:2])
        return WorkloadReading(newer.at, newer.window, *zip(*rows, strict=True))

    def _columns(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[float | None, ...], tuple[float | None, ...]]:
        return self.pods, self.containers, self.cpu, self.memory


class ScaledPodUsage:
    """The pods of all workloads of a partition, and the newest usage of the workloads for which `is_wanted` is true."""

    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        self._is_wanted = is_wanted
        self.pods: ObjectTable[ScaledPod] = ObjectTable("pods", ScaledPod, 256, shares=(ContainerAmounts,))
        self.usage: ObjectTable[WorkloadReading] = ObjectTable("usage", WorkloadReading, 64)
        self._of: dict[str, set[str]] | None = None
        self._columns: dict[str, WorkloadPods] = {}
        self._rows: dict[tuple[int, int, int], tuple[MetricsScraped, dict[str, _ScrapeRows]]] = {}

    def tables(self) -> tuple[StatePart, ...]:
        """The tables that a checkpoint holds."""
        return self.pods, self.usage

    def wanted_changed(self) -> None:
        """The set of wanted workloads has changed."""
        # Rows were looked up for the wanted workloads alone.
        self._rows.clear()

    def rewire(self, is_wanted: Callable[[str], bool]) -> None:
        """Start over after chunks were loaded, with a new judge of which workloads are wanted."""
        self._is_wanted = is_wanted
        self._of = None
        self._columns.clear()
        self._rows.clear()

    def pod_changed(self, event: PodChanged) -> None:
        """Take in the current state of a pod."""
        before, together = self.pods.get(event.pod.uid), event.running_together
        ready = all(container.ready for container in together) and bool(event.containers)
        changed = times.to_seconds(event.at)
        if before is not None and before.ready == ready:
            # A fact comes whenever anything of the pod changes, and readiness has the time of its own change.
            changed = before.changed
        asked = tuple(_amounts(container.name, container.requests) for container in together)
        whole = None if event.requests == Amounts() else _amounts("", event.requests)
        started = None if event.started is None else times.to_seconds(event.started)
        new = ScaledPod(event.workload.key, event.pod.name, event.phase, ready, changed, started, asked, event.leaving, whole)
        if new == before:
            return
        if before is not None and before.workload != new.workload:
            self._by_workload.get(before.workload, set()).discard(event.pod.uid)
            self._columns.pop(before.workload, None)
        self.pods.upsert(event.pod.uid, new)
        self._by_workload.setdefault(new.workload, set()).add(event.pod.uid)
        self._columns.pop(new.workload, None)

    def pod_deleted(self, event: PodDeleted) -> None:
        """Drop a pod that is gone."""
        gone = self.pods.remove(event.pod.uid)
        if gone is not None:
            self._columns.pop(gone.workload, None)
            uids = self._by_workload.get(gone.workload, set())
            uids.discard(event.pod.uid)
            if not uids:
                self._by_workload.pop(gone.workload, None)

    def scraped(self, event: MetricsScraped) -> list[str]:
        """Take in a scrape. Returns the wanted workloads that it has usage of."""
        # What was read from a store of metrics is of the past.
        if event.history:
            return []
        rows_of = self._rows_of(event)
        at, ages = times.to_seconds(event.at), event.ages
        for workload, names in rows_of.items():
            taken = at - (float(ages[names.rows[0]]) if len(ages) else 0.0)
            cpu, memory = (_known(amounts, names.rows) for amounts in (event.cores, event.memory))
            self._merge(workload, WorkloadReading(taken, float(event.window), names.pods, names.containers, cpu, memory))
        return list(rows_of)

    def forget(self, workload: str) -> None:
        """Drop the usage of a workload that nobody wants any more."""
        self.usage.remove(workload)

    def of(self, workload: str) -> "WorkloadPods":
        """The pods of a workload."""
        workload_pods = self._columns.get(workload)
        if workload_pods is None:
            uids = self._by_workload.get(workload, set())
            workload_pods = WorkloadPods([pod for uid in uids if (pod := self.pods.get(uid)) is not None])
            # Nothing is kept for a workload without pods, because no fact of a pod would ever remove it.
            if workload_pods.pods:
                self._columns[workload] = workload_pods
        return workload_pods

    def _rows_of(self, event: MetricsScraped) -> "dict[str, _ScrapeRows]":
        """The rows of each wanted workload."""
        # Equal name columns are the same objects, so that one lookup serves many scrapes. The event is kept with its rows:
        # else its columns could go, and others take their identities.
        key = (id(event.workloads), id(event.pods), id(event.containers))
        looked_up = self._rows.get(key)
        if looked_up is None:
            rows_of: dict[str, list[int]] = {}
            for row, workload in enumerate(event.workloads):
                if self._is_wanted(workload):
                    rows_of.setdefault(workload, []).append(row)
            if len(self._rows) >= _HELD:
                self._rows.clear()
            looked_up = self._rows[key] = (event, {name: _ScrapeRows.of(event, rows) for name, rows in rows_of.items()})
        return looked_up[1]

    def _merge(self, workload: str, new: WorkloadReading) -> None:
        """Merge a reading into the newest one."""
        # A long scrape arrives in several records of the same time.
        old = self.usage.get(workload)
        if old is not None and old.at > new.at:
            return
        self.usage.upsert(workload, old.joined(new) if old is not None and old.at == new.at else new)

    @property
    def _by_workload(self) -> dict[str, set[str]]:
        if self._of is None:
            self._of = {}
            for uid, pod in self.pods.items():
                self._of.setdefault(pod.workload, set()).add(uid)
        return self._of


def _amounts(name: str, requests: Amounts) -> ContainerAmounts:
    return ContainerAmounts(name, _float(requests.cpu), _float(requests.memory))


def _float(amount: float | None) -> float | None:
    # As a checkpoint restores it: whole bytes would be written differently before and after a recovery.
    return None if amount is None else float(amount)


@dataclass(frozen=True, slots=True)
class _ScrapeRows:
    """Rows of a scrape that speak of one workload, by pod and container."""

    rows: tuple[int, ...]
    pods: tuple[str, ...]
    containers: tuple[str, ...]

    @classmethod
    def of(cls, event: MetricsScraped, rows: Sequence[int]) -> "_ScrapeRows":
        ordered = tuple(sorted(rows, key=lambda row: (event.pods[row], event.containers[row])))
        return cls(ordered, tuple(event.pods[row] for row in ordered), tuple(event.containers[row] for row in ordered))


def _known(amounts: Sequence[float], rows: tuple[int, ...]) -> tuple[float | None, ...]:
    """A scrape's amounts in some rows; None where it has none."""
    return tuple(None if math.isnan(amount) else float(amount) for amount in map(amounts.__getitem__, rows))


class WorkloadPods:
    """The pods of one workload by name, in the columns that the HPA's algorithm takes; each is made once, when asked for."""

    def __init__(self, pods: Iterable[ScaledPod]) -> None:
        """`pods` come in any order."""
        self.pods: Sequence[ScaledPod] = sorted(pods, key=lambda pod: pod.name)
        self._requested: dict[tuple[str, str], Milli | str] = {}
        self._shares: dict[HpaMetric, int | str] = {}
        self._ordinals: _Ordinals | None = None

    def __len__(self) -> int:
        return len(self.pods)

    @cached_property
    def living(self) -> "WorkloadPods":
        """Those that have not ended."""
        return WorkloadPods(pod for pod in self.pods if pod.phase not in ENDED_PHASES)

    @cached_property
    def columns(self) -> HpaPods:
        """What is known of each pod."""
        pods = self.pods
        return HpaPods(
            phase=np.array([_PHASES[pod.phase] for pod in pods], np.int8),
            deleting=np.array([pod.leaving for pod in pods], np.bool_),
            ready=np.array([ReadyCondition.YES if pod.ready else ReadyCondition.NO for pod in pods], np.int8),
            changed=np.array([pod.changed for pod in pods], np.float64),
            started=np.array([NOT_STARTED if pod.started is None else pod.started for pod in pods], np.float64),
        )

    def samples(self, reading: WorkloadReading | None, metric: HpaMetric, *, since: float) -> MetricSamples:
        """What each pod uses of a resource, in all or one of its containers; unknown if the reading is older than `since`.

        Sums are exact below 2^53 milli-units: 9 TB of memory.
        """
        if reading is None or reading.at < since:
            none = np.zeros(len(self.pods), np.int64)
            return MetricSamples(
                none.astype(np.bool_), none, none.astype(np.float64), none.astype(np.float64), metric.name == "cpu"
            )
        ordinals = self._ordinals
        if ordinals is None or ordinals.names != reading.pods:
            ordinals = self._ordinals = _Ordinals.of(reading.pods, self.pods)
        amounts, rows = np.array(reading.of(metric.name), np.float64), ordinals.of_rows
        if metric.container:
            named = np.array([container == metric.container for container in reading.containers], np.bool_)
            amounts, rows = amounts[named], rows[named]
        seen = ~np.isnan(amounts)
        asked, known = (np.bincount(chosen, minlength=ordinals.unknown + 1) for chosen in (rows, rows[seen]))
        # A pod of which one container was not seen would look idle, so that it is unknown.
        whole = (asked > 0) & (asked == known)
        # Each container is rounded up before the sum, as Kubernetes rounds each quantity.
        totals = np.bincount(rows, np.where(seen, np.ceil(np.round(amounts * _MILLI, 6)), 0.0), ordinals.unknown + 1)
        values = np.where(whole & (totals < MOST_MILLI), totals, 0.0).astype(np.int64)
        values[whole & (totals >= MOST_MILLI)] = MOST_MILLI
        return MetricSamples(
            known=whole[ordinals.of_pods],
            values=values[ordinals.of_pods],
            at=np.full(len(self.pods), reading.at),
            window=np.full(len(self.pods), reading.window),
            cpu=metric.name == "cpu",
        )

    def requested(self, metric: HpaMetric) -> Milli | str:
        """What each pod requests of a resource in milli-units, or a sentence on which request is missing."""
        key = (metric.name, metric.container)
        if key not in self._requested:
            self._requested[key] = _requested(self.pods, metric)
        return self._requested[key]

    def share(self, metric: HpaMetric) -> int | str:
        """What one pod may use of a resource at the target utilisation, in milli-units; or why that is unknown.

        Source: `pkg/controller/ehpa/hpa.go` of Crane.
        """
        if metric not in self._shares:
            self._shares[metric] = self._share(metric)
        return self._shares[metric]

    def _share(self, metric: HpaMetric) -> int | str:
        taking = [pod for pod in self.pods if pod.counts]
        if not taking:
            return f"none of {counted(len(self.pods), 'pod')} takes load"
        asked = _requested(taking, metric)
        if isinstance(asked, str):
            return asked
        total: int = sum(asked.tolist())
        # floor(sum of requests * utilisation / number of pods) of the pods that take load.
        return total * (metric.utilization or 0) // (100 * len(taking))


@dataclass(frozen=True, slots=True)
class _Ordinals:
    """Numbers the pods of a reading: of each of its rows, and of each of our pods; `unknown` for those that it does not have."""

    names: tuple[str, ...]
    of_rows: NDArray[np.int64]
    of_pods: NDArray[np.int64]
    unknown: int

    @classmethod
    def of(cls, names: tuple[str, ...], pods: Sequence[ScaledPod]) -> "_Ordinals":
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        unknown = len(numbers)
        of_pods = [numbers.get(pod.name, unknown) for pod in pods]
        return cls(names, np.array([numbers[name] for name in names], np.int64), np.array(of_pods, np.int64), unknown)


def _requested(pods: Sequence[ScaledPod], metric: HpaMetric) -> Milli | str:
    return requests([_request(pod, metric.name) for pod in pods], resource=metric.name, container=metric.container)


def _request(pod: ScaledPod, resource: str) -> PodRequest:
    containers = tuple(ContainerRequest(request.name, _request_milli(request.of(resource))) for request in pod.requests)
    whole = None if pod.whole is None else _request_milli(pod.whole.of(resource))
    return PodRequest(pod.name, containers, whole, whole_pod=pod.whole is not None)


def _request_milli(amount: float | None) -> int | None:
    return None if amount is None else round(amount * _MILLI)
