"""Further constraints on updates: replicas, HPAs, disruption budgets, LimitRanges, quotas, and the webhook's Lease."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.logic.guards import budget_schedules, shared_guards
from agents.logic.guards.budget_schedules import ScheduledBudget
from agents.logic.guards.shared_guards import ControlRecord, Headcount
from agents.logic.resources import limit_ranges
from agents.logic.resources.limit_ranges import NONE, Ranges
from agents.logic.updates.eviction_tolerance import ConfiguredReplicas, ReplicaCounts, WorkloadEviction
from agents.logic.updates.pod_disruption_budgets import BudgetRecord, PodDisruptionBudgets
from agents.logic.updates.successor_nodes import FreeRooms, NodeRooms, SuccessorRoom
from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from agents.logic.updates.updater_records import LastPodFact, PlansMade
from schemas.admission_pauses import AdmissionPause
from schemas.catalogue import Event
from schemas.decisions.recommendations import CitedRules
from schemas.facts.update_facts import (
    HpaTargetChanged,
    HpaTargetRemoved,
    ObjectMetadataChanged,
    ObjectMetadataRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
    ResourceQuotaChanged,
    ResourceQuotaRemoved,
    WebhookLeaseSeen,
)
from schemas.names import cluster_of
from schemas.policies.control import Mode
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.policies.scaling import UtilizationMetric
from schemas.units import Fraction


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
        self.quotas: ObjectTable[ResourceQuotaChanged] = ObjectTable("quotas", ResourceQuotaChanged, 16)
        self.metadata: ObjectTable[ObjectMetadataChanged] = ObjectTable("object-metadata", ObjectMetadataChanged, 16)
        """Namespaces and ServiceAccounts with labels or annotations, by `cluster/kind/namespace/name`."""
        self.budgets, self.rooms = PodDisruptionBudgets(), NodeRooms()
        self._ranges: dict[str, Ranges] | None = None
        self._quotas: dict[str, list[ResourceQuotaChanged]] | None = None
        self._scalers: dict[str, list[HpaRecord]] | None = None
        self._controllers_of: dict[str, set[str]] | None = None

    def tables(self) -> tuple[StatePart, ...]:
        """All tables."""
        return (
            self.controllers,
            self.hpas,
            self.webhooks,
            self.limit_ranges,
            self.quotas,
            self.metadata,
            *self.budgets.tables(),
            *self.rooms.tables(),
        )

    def loaded(self) -> None:
        """A chunk was loaded."""
        self._scalers = self._ranges = self._quotas = self._controllers_of = None
        self.budgets.loaded()

    def ingest(self, event: Event) -> None:
        """Take in a fact; others are ignored."""
        # None of them can make a change necessary, so that no quiet workload is woken: an HPA only takes a resource out.
        match event:
            case ReplicaControllerChanged():
                self._unlist(_controller(event))
                self.controllers.upsert(_controller(event), wanted := _wanted(event))
                self._listed.setdefault(wanted.workload, set()).add(f"{event.kind}/{event.name}")
            case ReplicaControllerRemoved():
                self._unlist(_controller(event))
                self.controllers.remove(_controller(event))
            case HpaTargetChanged():
                self.hpas.upsert(_hpa(event), HpaRecord(event.workload, event.resources, event.utilizations))
                self._scalers = None
            case HpaTargetRemoved():
                self.hpas.remove(_hpa(event))
                self._scalers = None
            case WebhookLeaseSeen():
                self.webhooks.upsert(event.cluster, WebhookState(event.alive, event.reason))
            case ResourceQuotaChanged():
                self.quotas.upsert(event.key, event)
                self._quotas = None
            case ResourceQuotaRemoved():
                self.quotas.remove(event.key)
                self._quotas = None
            case ObjectMetadataChanged():
                self.metadata.upsert(event.key, event)
            case ObjectMetadataRemoved():
                self.metadata.remove(event.key)
            case _:
                self.budgets.ingest(event)

    def ingest_policy(self, event: Event) -> bool:
        """Take a policy in; whether it changes what may be recommended to the pods of a namespace."""
        match event:
            case LimitRangeChanged():
                before = self.limit_ranges.get(event.key)
                # Sources publish each object again from time to time, and a change would wake all workloads of the namespace.
                if before is not None and replace(before, at=event.at) == event:
                    return False
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
            events: dict[str, list[LimitRangeChanged]] = {}
            for event in self.limit_ranges.values():
                events.setdefault(f"{event.cluster}/{event.namespace}", []).append(event)
            self._ranges = {name: limit_ranges.of_events(entries) for name, entries in events.items()}
        if not self._ranges:
            return NONE
        cluster, namespace, *_ = workload.split("/")
        return self._ranges.get(f"{cluster}/{namespace}", NONE)

    def quotas_of(self, workload: str) -> Sequence[ResourceQuotaChanged]:
        """The quotas of a workload's namespace, by name."""
        if self._quotas is None:
            self._quotas = {}
            for _, quota in sorted(self.quotas.items()):
                self._quotas.setdefault(f"{quota.cluster}/{quota.namespace}", []).append(quota)
        if not self._quotas:
            return ()
        cluster, namespace, *_ = workload.split("/")
        return self._quotas.get(f"{cluster}/{namespace}", ())

    def scaled_by(self, workload: str) -> frozenset[str]:
        """The resources by which HPAs scale a workload."""
        return frozenset(resource for hpa in self._of(workload) for resource in hpa.resources)

    def utilizations(self, workload: str) -> frozenset[UtilizationMetric]:
        """The shares of requests by which HPAs scale a workload."""
        return frozenset(utilization for hpa in self._of(workload) for utilization in hpa.utilizations)

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

    @property
    def _listed(self) -> dict[str, set[str]]:
        """The controllers of each workload, as `kind/name`."""
        if self._controllers_of is None:
            self._controllers_of = {}
            for key, wanted in self.controllers.items():
                self._controllers_of.setdefault(wanted.workload, set()).add(key.split("/", 2)[2])
        return self._controllers_of

    def _unlist(self, controller: str) -> None:
        """A controller is gone, or may have another owner now."""
        replicas = self.controllers.get(controller)
        if replicas is not None:
            names = self._listed[replicas.workload]
            names.discard(controller.split("/", 2)[2])
            if not names:
                del self._listed[replicas.workload]

    def controllers_of(self, workload: str) -> Sequence[str]:
        """The controllers (kind/name) that should have pods of a workload, as far as their owners show."""
        return sorted(self._listed.get(workload, ()))

    def workloads(self, cluster: str) -> Iterator[str]:
        """The workloads of a cluster that should have pods, as far as the owners of controllers show."""
        return (workload for workload in self._listed if cluster_of(workload) == cluster)

    def workload_of(self, controller: str) -> str:
        """The workload whose pods a controller should have, as far as its owner shows; itself if it is unknown."""
        replicas = self.controllers.get(controller)
        return controller if replicas is None else replicas.workload or controller

    def webhook_away(self, cluster: str) -> str | None:
        """Why no webhook is running; None if one is, or if nothing watches for it."""
        webhook = self.webhooks.get(cluster)
        return None if webhook is None or webhook.alive else webhook.reason


def _wanted(event: ReplicaControllerChanged) -> ConfiguredReplicas:
    # Deployments and CronJobs have their pods by way of others; any other owner may be no workload.
    owner, workload = event.owner, f"{event.kind}/{event.name}"
    if owner is not None and owner.kind in ("Deployment", "CronJob"):
        workload = f"{owner.kind}/{owner.name}"
    return ConfiguredReplicas(event.replicas, event.refusal, f"{event.cluster}/{event.namespace}/{workload}", event.last_failure)


def _controller(event: ReplicaControllerChanged | ReplicaControllerRemoved) -> str:
    return f"{event.cluster}/{event.namespace}/{event.kind}/{event.name}"


def _hpa(event: HpaTargetChanged | HpaTargetRemoved) -> str:
    return f"{event.cluster}/{event.namespace}/{event.name}"


# What the guards of the updater may know of a cluster, besides the pod that they judge.


@dataclass(frozen=True, slots=True)
class ClusterSituation:
    """What the guards may know besides the pod. Times are turn numbers.

    `facts`: when the cluster's pods were seen last; `workload` and `namespace`: the candidate's own;
    `constraints`: all that is known of the cluster's objects besides pods, from which a guard may take what it needs;
    `settings`: those of the candidate's workload, and `settings_of_all` those without its policy, which widens none of them;
    `planned`: the plans that were made for the cluster in this interval; `rules`: those of the log that the settings come from;
    `evicted`: the last eviction of the workload, and `short` since when successors of evicted pods are missing, None while none
    are; `unpatched`: until when the webhook leaves new pods of the workload as they are; `groups`: its pods by direct controller;
    `disruption_budgets`: those that select the workload's pods, and `stopping`: how many open plans stop a container of a pod
    that each of them selects, by its key;
    `quotas`: the ResourceQuotas of its namespace, with what was planned before; `rooms`: what nodes have for pods, and `free`
    what they have left now; None where that does not matter; `beyond_shares`: how many pods are missing or do not serve beyond
    the budgets of their own namespaces, by the share.
    """

    now: int
    first_turn: int
    facts: LastPodFact
    control: ControlRecord | None
    cluster: Headcount
    workload: Headcount
    namespace: Headcount
    planned: PlansMade
    settings: UpdateSettings
    settings_of_all: UpdateSettings
    constraints: UpdateConstraints
    rules: CitedRules | None = None
    evicted: WorkloadEviction | None = None
    short: int | None = None
    unpatched: AdmissionPause | None = None
    groups: Mapping[str, ReplicaCounts] = field(default_factory=dict)
    disruption_budgets: Sequence[BudgetRecord] = ()
    stopping: Mapping[str, int] = field(default_factory=dict)
    quotas: Sequence[ResourceQuotaChanged] = ()
    rooms: Sequence[SuccessorRoom] = ()
    free: FreeRooms | None = None
    beyond_shares: Callable[[Fraction], int] = lambda _share: 0

    @property
    def mode(self) -> Mode:
        """The cluster's mode."""
        return shared_guards.mode(self.control)

    @property
    def budget(self) -> Fraction:
        """The share of a cluster's or a namespace's pods that may be away or being changed at one time."""
        return min(self._share(settings, None) for settings in (self.settings, self.settings_of_all))

    def workload_budget(self, said: Fraction | None) -> Fraction:
        """The same for one workload, whose policy may have `said` another share."""
        share = self._share(self.settings, said)
        return share if self.scheduled is None else min(share, self.scheduled.share)

    @property
    def scheduled(self) -> ScheduledBudget | None:
        """The smallest of the budgets that hold at this time."""
        texts = self.settings_of_all.budget_schedules, self.settings.budget_schedules
        entries = [entry for text in texts if (entry := budget_schedules.in_force(text, self.now)) is not None]
        return min(entries, key=lambda entry: entry.share, default=None)

    @property
    def upstream_for_all(self) -> bool:
        """Whether no guard of ours holds the pods back, those of the whole cluster included."""
        return UpdaterProfile.UPSTREAM == self.settings.profile == self.settings_of_all.profile

    def _share(self, settings: UpdateSettings, said: Fraction | None) -> Fraction:
        if settings.profile == UpdaterProfile.UPSTREAM:
            # Upstream has no budget.
            return Fraction(1.0)
        share = shared_guards.budget(self.control, settings.budget) if said is None else said
        return budget_schedules.at_most(share, settings.budget_schedules, self.now)
