"""What the pods of each namespace request and what they should request, as gauges: the product's figures, for a dashboard.

They are sums over the updater's state, which knows every pod of its clusters and every recommendation. A sum over many pods takes
a while in which the worker does nothing else, so it is made at most once a minute, and a part of it in each turn.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge

from agents.telemetry.namespace_labels import Namespace, NamespaceLabels
from agents.telemetry.readiness import StagePartition
from schemas.facts.pods import PodChanged, PodPhase
from schemas.names import Amounts

if TYPE_CHECKING:
    # Every process loads these metrics, and only a worker has the updater.
    from agents.logic.updates.updater_records import NewestRecommendation
    from agents.logic.updates.updater_state import UpdaterState

_EVERY = 60.0
"""Seconds between the end of a sum and the begin of the next, at least."""
_PART = 5_000
"""Pods and containers that one turn adds up, which takes some milliseconds; a tenant may give one pod a thousand containers."""
_THERE = frozenset({PodPhase.PENDING, PodPhase.RUNNING})
_GAUGES = {
    "ullage_requested_cpu_cores": "CPU that pods request",
    "ullage_requested_memory_bytes": "Memory that pods request",
    "ullage_recommended_cpu_cores": "CPU that they should request",
    "ullage_recommended_memory_bytes": "Memory that they should request",
    "ullage_reverts": "Workloads that got back what they had before",
}


@dataclass(slots=True)
class _Sums:
    """In the order of the gauges."""

    values: list[float] = field(default_factory=lambda: [0.0] * len(_GAUGES))

    def add(self, fact: PodChanged, targets: dict[str, Amounts]) -> None:
        """A container without a recommendation should request what it does."""
        values = self.values
        for container in fact.containers:
            cpu, memory = container.requests.cpu or 0.0, container.requests.memory or 0.0
            target = targets.get(container.name, container.requests)
            values[0] += cpu
            values[1] += memory
            values[2] += cpu if target.cpu is None else target.cpu
            values[3] += target.memory or memory


class FleetMetrics:
    """The gauges of one worker, which has whole clusters. `clock` counts real seconds."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._gauges = [Gauge(name, text, ("cluster", "namespace"), registry=registry) for name, text in _GAUGES.items()]
        self._clock = clock
        self._labels = NamespaceLabels()
        self._due: dict[StagePartition, float] = {}
        self._begun: dict[StagePartition, Iterator[dict[Namespace, _Sums] | None]] = {}
        self._shown: dict[StagePartition, set[Namespace]] = defaultdict(set)

    def look(self, task: StagePartition, clusters: "UpdaterState") -> None:
        """Go on with the sums of a partition of the updater, if it is time for that, and show them when they are complete."""
        now = self._clock()
        if now < self._due.get(task, now):
            return
        sums = next(self._begun.setdefault(task, self._summed(clusters)))
        if sums is None:
            return
        del self._begun[task]
        for names, total in sums.items():
            for gauge, value in zip(self._gauges, total.values, strict=True):
                gauge.labels(*names).set(value)
        self._remove(self._shown[task] - sums.keys())
        self._shown[task] = set(sums)
        if sums:  # where there are no pods yet, it costs nothing to look again
            self._due[task] = now + _EVERY

    def forget(self, task: StagePartition) -> None:
        """The worker does not own this partition any more."""
        self._remove(self._shown.pop(task, set()))
        self._begun.pop(task, None)
        self._due.pop(task, None)

    def _remove(self, gone: Iterable[Namespace]) -> None:
        for names in gone:
            self._labels.forget(names)
            for gauge in self._gauges:
                gauge.remove(*names)

    def _summed(self, clusters: "UpdaterState") -> Iterator[dict[Namespace, _Sums] | None]:
        """None after each part, then the sums of the pods that were there at the beginning. Ended pods request nothing."""
        sums: defaultdict[Namespace, _Sums] = defaultdict(_Sums)
        targets: dict[str, dict[str, Amounts]] = {}
        added = 0
        for pod in list(clusters.pods.values()):
            fact = pod.fact
            if fact.phase not in _THERE:
                continue
            workload = fact.workload.key
            if workload not in targets:
                targets[workload] = _targets(clusters.recommended.get(workload))
                added += len(targets[workload])
            sums[self._labels.of(fact.workload.cluster, fact.pod.namespace)].add(fact, targets[workload])
            added += 1 + len(fact.containers)
            if added >= _PART:
                added = 0
                yield None
        for revert in clusters.reverts.values():
            reverted = revert.event.workload
            sums[self._labels.of(reverted.cluster, reverted.namespace)].values[4] += 1.0
        yield dict(sums)


def _targets(newest: "NewestRecommendation | None") -> dict[str, Amounts]:
    """By container."""
    return {} if newest is None else {each.container: each.target for each in newest.containers}
