"""What the guards of the updater may know of a cluster, besides the pod that they judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.guards import budget_schedules, shared_guards
from agents.logic.guards.budget_schedules import ScheduledBudget
from agents.logic.guards.shared_guards import ControlRecord, Headcount
from agents.logic.updates.eviction_tolerance import ReplicaCounts
from agents.logic.updates.node_rooms import FreeRooms, SuccessorRoom
from agents.logic.updates.pod_disruption_budgets import BudgetRecord
from agents.logic.updates.update_constraints import UpdateConstraints
from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from agents.logic.updates.updater_records import LastPodFact, PlansMade
from agents.logic.updates.workload_evictions import WorkloadEviction
from schemas.admission_pauses import AdmissionPause
from schemas.decisions.recommendations import CitedRules
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.policies.control import Mode
from schemas.units import Fraction


@dataclass(frozen=True, slots=True)
class ClusterSituation:
    """What the guards may know besides the pod. Times are turn numbers.

    `facts`: when the cluster's pods were seen last; `workload` and `namespace`: the candidate's own;
    `constraints`: all that is known of the cluster's objects besides pods, from which a guard may take what it needs;
    `planned`: the plans that were made for the cluster in this interval; `rules`: those of the log that the settings come from;
    `evicted`: the last eviction of the workload, and `short` since when successors of evicted pods are missing, None while none
    are; `unpatched`: until when the webhook leaves new pods of the workload as they are; `groups`: its pods by direct controller;
    `disruption_budgets`: those that select the workload's pods, and `stopping`: how many open plans stop a container of a pod
    that each of them selects, by its key;
    `quotas`: the ResourceQuotas of its namespace, with what was planned before; `rooms`: what nodes have for pods, and `free`
    what they have left now; None where that does not matter.
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

    @property
    def mode(self) -> Mode:
        """The cluster's mode."""
        return shared_guards.mode(self.control)

    @property
    def budget(self) -> Fraction:
        """The share of pods that may be away or being changed at one time."""
        return self._at_most(shared_guards.budget(self.control, self.settings.budget))

    def workload_budget(self, said: Fraction | None) -> Fraction:
        """The same for one workload, whose policy may have `said` another share."""
        return self.budget if said is None else self._at_most(said)

    @property
    def scheduled(self) -> ScheduledBudget | None:
        """The smallest of the budgets that hold at this time."""
        return budget_schedules.in_force(self.settings.budget_schedules, self.now)

    def _at_most(self, share: Fraction) -> Fraction:
        if self.settings.profile == UpdaterProfile.UPSTREAM:
            # Upstream has no budget.
            return Fraction(1.0)
        return budget_schedules.at_most(share, self.settings.budget_schedules, self.now)
