"""What the pods of each namespace request and what they should request, as gauges: the product's figures, for a dashboard.

They are sums over the updater's state, which knows every pod of its clusters and every recommendation. What `adaptive` promised
and delivered is shown for each container that it decides for, by the decisions that a turn made; a container that nothing was
decided about for a day is gone.
"""

import time
from collections import Counter as Count
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from agents.telemetry.health_server import StagePartition
from agents.telemetry.source_metrics import Namespace, NamespaceLabels
from schemas.decisions.recommendations import delivered_risks
from schemas.facts.pods import PodChanged, PodPhase
from schemas.names import Amounts
from streams import typed_json
from streams.codec import event_codec
from streams.log.log_port import NewRecord

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
        # A sum over many pods takes a while in which the worker does nothing else, so each turn adds up a part of it.
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
        # Of a copy, because the turns between two parts change the pods.
        for pod in list(clusters.pods.values()):
            fact = pod.fact
            if fact.phase not in _THERE:
                continue
            workload = fact.workload.key
            if workload not in targets:
                targets[workload] = _targets(clusters.recommended.get(workload))
                # Counted, too: a recommendation may name more containers than the pods have.
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
    return {} if newest is None else {entry.container: entry.target for entry in newest.containers}


_DAY_MS = 86_400_000
_MARK = b'"policy_grounds"'
"""What a decision of a policy as code has; the others are not decoded."""
_LABELS = ("workload", "container", "side")
_SIDES = ("promised", "delivered")
_MOST, _MOST_OF_NAMESPACE = 5_000, 500
"""Containers that are shown; each has four series."""


class _Decided(msgspec.Struct):
    because: dict[str, object] = {}


@dataclass(slots=True)
class _Shown:
    """A container's newest decision: whose it was, and its turn."""

    task: StagePartition
    turn: int


class DeliveredRiskMetrics:
    """The gauges of one worker."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Registers both gauges."""
        self._short = Gauge(
            "ullage_adaptive_cpu_short_ratio", "Share of time with more CPU used than requested", _LABELS, registry=registry
        )
        self._kills = Gauge(
            "ullage_adaptive_oom_kills",
            "OOM kills, and as many as the built-in would have had and may be",
            _LABELS,
            registry=registry,
        )
        self._shown: dict[tuple[str, str], _Shown] = {}
        self._of: Count[str] = Count()
        """How many containers are shown, by namespace."""
        self._tidied = 0

    def decided(self, task: StagePartition, turn: int, decisions: Iterable[NewRecord]) -> None:
        """A turn of the recommender made these decisions. `turn` is its time in ms. The copy by cluster says nothing more."""
        for record in decisions:
            workload = (record.key or b"").decode()
            ident = event_codec.header(record, "ce_id") or ""
            # Few decisions are by `adaptive`, so the others are passed over before they are decoded.
            if _MARK not in (record.value or b"") or not ident.endswith(f"/requests/{workload}"):
                continue
            for risk in delivered_risks(typed_json.decode(record.value or b"{}", _Decided).because):
                if not self._is_shown(workload, risk.container):
                    continue
                self._shown[workload, risk.container] = _Shown(task, turn)
                sides = ((risk.cpu_promised, risk.kills_allowed), (risk.cpu_delivered, risk.kills))
                for side, (short, kills) in zip(_SIDES, sides, strict=True):
                    self._short.labels(workload, risk.container, side).set(short)
                    self._kills.labels(workload, risk.container, side).set(kills)
        if turn - self._tidied >= _DAY_MS // 24:
            self._tidied = turn
            self._remove(name for name, shown in self._shown.items() if shown.task == task and turn - shown.turn > _DAY_MS)

    def forget(self, task: StagePartition) -> None:
        """The worker does not own this partition any more."""
        self._remove(name for name, shown in self._shown.items() if shown.task == task)

    def _is_shown(self, workload: str, container: str) -> bool:
        """A container for which there is no room may be shown later, when others have gone."""
        if (workload, container) in self._shown:
            return True
        namespace = _namespace(workload)
        # A tenant may ask for `adaptive` on as many containers as it likes, and each has four series.
        room = len(self._shown) < _MOST and self._of[namespace] < _MOST_OF_NAMESPACE
        self._of[namespace] += room
        return room

    def _remove(self, names: Iterable[tuple[str, str]]) -> None:
        for name in list(names):
            del self._shown[name]
            self._of[_namespace(name[0])] -= 1
            for side in _SIDES:
                self._short.remove(*name, side)
                self._kills.remove(*name, side)


def _namespace(workload: str) -> str:
    """Of a workload's key, with its cluster."""
    return workload.rsplit("/", 2)[0]
