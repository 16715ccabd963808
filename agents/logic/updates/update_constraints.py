"""Further constraints on updates: replicas, HPAs, disruption budgets, LimitRanges, and the webhook's Lease."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.logic.resources import container_limit_range
from agents.logic.resources.container_limit_range import NONE, Ranges
from agents.logic.updates.eviction_tolerance import ConfiguredReplicas
from agents.logic.updates.pod_disruption_budgets import PodDisruptionBudgets
from schemas.catalogue import Event
from schemas.facts.hpa_targets import HpaTargetChanged, HpaTargetRemoved
from schemas.facts.replica_controllers import ReplicaControllerChanged, ReplicaControllerRemoved
from schemas.facts.webhook_leases import WebhookLeaseSeen
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.policies.scaling import UtilizationMetric


@dataclass(frozen=True, slots=True)
class HpaRecord:
    """The workload that an HPA or an EHPA scales, by which of its resources, and which shares of requests are among them."""

    workload: str
    resources: tuple[str, ...]
    utilizations: tuple[UtilizationMetric, ...] = ()


@dataclass(frozen=True, slots=True)
class WebhookState:
    """Whether a webhook is running; `reason` says why not."""

    alive: bool
    reason: str


class UpdateConstraints:
    """The newest of each, by cluster and name."""

    def __init__(self) -> None:
        self.controllers: ObjectTable[ConfiguredReplicas] = ObjectTable("replica-counts", ConfiguredReplicas, 64)
        self.hpas: ObjectTable[HpaRecord] = ObjectTable("hpas", HpaRecord, 64)
        self.webhooks: ObjectTable[WebhookState] = ObjectTable("webhooks", WebhookState, 1)
        self.limit_ranges: ObjectTable[LimitRangeChanged] = ObjectTable("limit-ranges", LimitRangeChanged, 16)
        self.budgets = PodDisruptionBudgets()
        self._ranges: dict[str, Ranges] | None = None
        self._scalers: dict[str, list[HpaRecord]] | None = None

    def tables(self) -> tuple[StatePart, ...]:
        """All tables."""
        return (self.controllers, self.hpas, self.webhooks, self.limit_ranges, *self.budgets.tables())

    def loaded(self) -> None:
        """A chunk was loaded."""
        self._scalers = self._ranges = None
        self.budgets.loaded()

    def ingest(self, event: Event) -> None:
        """Take in a fact; others are ignored.

        None of them can make a change necessary: an HPA only removes a resource from the comparison.
        """
        match event:
            case ReplicaControllerChanged():
                self.controllers.upsert(_controller(event), ConfiguredReplicas(event.replicas))
            case ReplicaControllerRemoved():
                self.controllers.remove(_controller(event))
            case HpaTargetChanged():
                self.hpas.upsert(_hpa(event), HpaRecord(event.workload, event.resources, event.utilizations))
                self._scalers = None
            case HpaTargetRemoved():
                self.hpas.remove(_hpa(event))
                self._scalers = None
            case WebhookLeaseSeen():
                self.webhooks.upsert(event.cluster, WebhookState(event.alive, event.reason))
            case _:
                self.budgets.ingest(event)

    def ingest_policy(self, event: Event) -> bool:
        """Take a policy in; whether it changes what may be recommended to the pods of a namespace."""
        match event:
            case LimitRangeChanged():
                known = self.limit_ranges.get(event.key)
                if known is not None and replace(known, at=event.at) == event:
                    return False  # published again
                self.limit_ranges.upsert(event.key, event)
            case LimitRangeRemoved():
                self.limit_ranges.remove(event.key)
            case EhpaChanged():
                self.hpas.upsert(event.key, HpaRecord(event.target, event.scaled_by, event.utilizations))
                self._scalers = None
                return False
            case EhpaRemoved():
                self.hpas.remove(event.key)
                self._scalers = None
                return False
            case _:
                return False
        self._ranges = None
        return True

    def ranges_of(self, workload: str) -> Ranges:
        """The LimitRanges of a workload's namespace; the same object while they stay as they are."""
        if self._ranges is None:
            found: dict[str, list[LimitRangeChanged]] = {}
            for each in self.limit_ranges.values():
                found.setdefault(f"{each.cluster}/{each.namespace}", []).append(each)
            self._ranges = {name: container_limit_range.of_events(entries) for name, entries in found.items()}
        if not self._ranges:
            return NONE
        cluster, namespace, *_ = workload.split("/")
        return self._ranges.get(f"{cluster}/{namespace}", NONE)

    def scaled_by(self, workload: str) -> frozenset[str]:
        """The resources by which HPAs scale a workload."""
        return frozenset(each for hpa in self._of(workload) for each in hpa.resources)

    def utilizations(self, workload: str) -> frozenset[UtilizationMetric]:
        """The shares of requests by which HPAs scale a workload."""
        return frozenset(each for hpa in self._of(workload) for each in hpa.utilizations)

    def _of(self, workload: str) -> Sequence[HpaRecord]:
        if self._scalers is None:
            self._scalers = {}
            for hpa in self.hpas.values():
                if hpa.resources:
                    self._scalers.setdefault(hpa.workload, []).append(hpa)
        return self._scalers.get(workload, ())

    def configured(self, workload: str, controller: str) -> ConfiguredReplicas | None:
        """How many pods a direct controller (kind/name) of a workload's pods wants; None if unknown."""
        cluster, namespace, *_ = workload.split("/")
        return self.controllers.get(f"{cluster}/{namespace}/{controller}")

    def webhook_away(self, cluster: str) -> str | None:
        """Why no webhook is running; None if one is, or if nothing watches for it."""
        found = self.webhooks.get(cluster)
        return None if found is None or found.alive else found.reason


def _controller(event: ReplicaControllerChanged | ReplicaControllerRemoved) -> str:
    return f"{event.cluster}/{event.namespace}/{event.kind}/{event.name}"


def _hpa(event: HpaTargetChanged | HpaTargetRemoved) -> str:
    return f"{event.cluster}/{event.namespace}/{event.name}"
