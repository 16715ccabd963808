"""What the pods of each namespace request and what they should request, as gauges: the product's figures, for a dashboard.

They are sums over the updater's state, which knows every pod of its clusters and every recommendation. A sum over many pods takes
a while, so it is made at most once a minute, and seldom enough to cost no more than a thousandth of the time.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge

from agents.telemetry.readiness import StagePartition
from schemas.facts.pods import PodPhase
from schemas.names import Amounts

if TYPE_CHECKING:
    # Every process loads these metrics, and only a worker has the updater.
    from agents.logic.updates.updater_state import UpdaterState

_LEAST, _SHARE = 60.0, 1000.0
"""Seconds between two sums at least, and how many times as long as one took."""
_THERE = frozenset({PodPhase.PENDING, PodPhase.RUNNING})
_GAUGES = {
    "ullage_requested_cpu_cores": "CPU that pods request",
    "ullage_requested_memory_bytes": "Memory that pods request",
    "ullage_recommended_cpu_cores": "CPU that they should request",
    "ullage_recommended_memory_bytes": "Memory that they should request",
    "ullage_reverts": "Workloads that got back what they had before",
}
Namespace = tuple[str, str]
"""A cluster and a namespace of it."""


@dataclass(slots=True)
class _Sums:
    """In the order of the gauges."""

    values: list[float] = field(default_factory=lambda: [0.0] * len(_GAUGES))

    def add(self, first: int, amounts: Amounts) -> None:
        self.values[first] += amounts.cpu or 0.0
        self.values[first + 1] += amounts.memory or 0.0


class FleetMetrics:
    """The gauges of one worker, which has whole clusters. `clock` counts real seconds."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._gauges = [Gauge(name, text, ("cluster", "namespace"), registry=registry) for name, text in _GAUGES.items()]
        self._clock = clock
        self._due: dict[StagePartition, float] = {}
        self._shown: dict[StagePartition, set[Namespace]] = defaultdict(set)

    def look(self, task: StagePartition, clusters: "UpdaterState") -> None:
        """Show the sums of a partition of the updater, if it is time for that."""
        begun = self._clock()
        if begun < self._due.get(task, begun):
            return
        sums = _sums(clusters)
        for names, found in sums.items():
            for gauge, value in zip(self._gauges, found.values, strict=True):
                gauge.labels(*names).set(value)
        self._remove(self._shown[task] - sums.keys())
        self._shown[task] = set(sums)
        ended = self._clock()
        if sums:  # where there are no pods yet, it costs nothing to look again
            self._due[task] = ended + max(_LEAST, _SHARE * (ended - begun))

    def forget(self, task: StagePartition) -> None:
        """The worker does not own this partition any more."""
        self._remove(self._shown.pop(task, set()))
        self._due.pop(task, None)

    def _remove(self, gone: Iterable[Namespace]) -> None:
        for names in gone:
            for gauge in self._gauges:
                gauge.remove(*names)


def _sums(clusters: "UpdaterState") -> dict[Namespace, _Sums]:
    """A container without a recommendation should request what it does. Pods that have ended request nothing."""
    sums: defaultdict[Namespace, _Sums] = defaultdict(_Sums)
    for pod in clusters.pods.values():
        fact = pod.fact
        if fact.phase not in _THERE:
            continue
        found, newest = sums[fact.workload.cluster, fact.pod.namespace], clusters.recommended.get(fact.workload.key)
        targets = {} if newest is None else {each.container: each.target for each in newest.containers}
        for container in fact.containers:
            requested, target = container.requests, targets.get(container.name, container.requests)
            found.add(0, requested)
            found.add(2, Amounts(requested.cpu if target.cpu is None else target.cpu, target.memory or requested.memory))
    for revert in clusters.reverts.values():
        workload = revert.event.workload
        sums[workload.cluster, workload.namespace].values[4] += 1.0
    return dict(sums)
