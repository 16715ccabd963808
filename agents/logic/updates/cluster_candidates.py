"""The pods of a cluster that should be changed, judged by the guards one after the other: who goes counts for those after it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.engine.tables.object_table import ObjectTable
from agents.logic.guards.shared_guards import Headcount, Objection
from agents.logic.updates import api_refusals, eviction_tolerance
from agents.logic.updates.candidate import Candidate, changes, disrupts, raised
from agents.logic.updates.disruption_guards import serves_nobody
from agents.logic.updates.eviction_tolerance import ReplicaCounts, UnpatchedWorkloads, WorkloadEviction
from agents.logic.updates.guard_records import BOUNDING_DISRUPTION
from agents.logic.updates.missing_pods import Shortfall
from agents.logic.updates.pod_disruption_budgets import BudgetRecord
from agents.logic.updates.update_constraints import ClusterSituation
from agents.logic.updates.update_guards import first_objection, told
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.outcomes import Action


@dataclass(frozen=True, slots=True)
class ClusterCandidates:
    """The pods of a cluster that should be changed, the most urgent first, with what the guards know of it.

    `counts` has the pods of each workload, `namespaces` those of each namespace, `evictions` the last eviction of each workload,
    `shortfalls` since when successors are missing, `unpatched` until when the webhook leaves new pods as they are.
    Of the workloads that have candidates: `groups` are the pods of each by direct controller, `disruption_budgets` those that
    select its pods, `quotas` the ResourceQuotas of its namespace. `stopping`: how many
    open plans stop a container of a pod that each disruption budget selects.
    """

    cluster: str
    situation: ClusterSituation
    pods: Sequence[Candidate]
    counts: Mapping[str, Headcount]
    namespaces: Mapping[str, Headcount]
    evictions: ObjectTable[WorkloadEviction]
    shortfalls: ObjectTable[Shortfall]
    unpatched: UnpatchedWorkloads
    groups: Mapping[str, Mapping[str, ReplicaCounts]]
    disruption_budgets: Mapping[str, Sequence[BudgetRecord]]
    quotas: dict[str, Sequence[ResourceQuotaChanged]]
    stopping: Counter[str]

    def judged(self) -> Iterator[tuple[Candidate, ClusterSituation, Objection | None]]:
        """Each pod, what the guards knew of its cluster, and the first objection. A pod without one counts for those after it."""
        situation, before = self.situation, ""
        refused: Candidate | None = None
        objection: Objection | None = None
        for subject in self.pods:
            pod, workload = subject, subject.situation.workload
            # Pods of one workload mostly come one after the other.
            if workload != before:
                situation, before, refused = self._situation_of(pod, situation), workload, None
            # Pods that are alike are refused alike, but free room on different nodes.
            by_node = objection is not None and objection.guard == "node"
            if refused is None or by_node or not pod.alike(refused):
                refused, (pod, objection) = subject, _judged(subject, situation)
            yield pod, situation, None if objection is None else told(objection, pod)
            if objection is None:
                # The plan changes what the guards see, so that the next pod has to be judged, however alike it is.
                refused = None
                if not pod.harmless and not pod.raises and not serves_nobody(pod, situation):
                    _begin(pod, situation)
                if situation.quotas:
                    namespace = pod.situation.workload.split("/")[1]
                    self.quotas[namespace] = api_refusals.quotas_after(pod, situation.quotas)
                    situation = replace(situation, quotas=self.quotas[namespace])
                situation = replace(situation, planned=situation.planned.one_more(pod.action))
                if pod.action is Action.EVICT and situation.free is not None:
                    situation.free.evicted(pod.situation.pod.fact, changes(pod.situation)[0])
                if disrupts(pod):
                    self.stopping.update(budget.key for budget in situation.disruption_budgets)

    def _situation_of(self, pod: Candidate, situation: ClusterSituation) -> ClusterSituation:
        """The same situation for the pods of another workload."""
        workload = pod.situation.workload
        return replace(
            situation,
            workload=self.counts[workload],
            namespace=self.namespaces[workload.split("/")[1]],
            evicted=self.evictions.get(workload),
            short=None if (short := self.shortfalls.get(workload)) is None else short.since,
            unpatched=self.unpatched.pause(workload, situation.now),
            settings=pod.situation.settings,
            groups=self.groups[workload],
            disruption_budgets=self.disruption_budgets[workload],
            quotas=self.quotas[workload.split("/")[1]],
            stopping=self.stopping,
        )


def _judged(subject: Candidate, situation: ClusterSituation) -> tuple[Candidate, Objection | None]:
    """The pod, as far as it may be changed, and the first objection."""
    objection = first_objection(subject, situation)
    if objection is not None and objection.guard in BOUNDING_DISRUPTION:
        # What a pod needs at once does not wait for what it can spare: then that alone is planned.
        more = raised(subject)
        if more is not None and first_objection(more, situation) is None:
            return more, None
    return subject, objection


def _begin(planned: Candidate, situation: ClusterSituation) -> None:
    """Count a pod whose change begins."""
    fact = planned.situation.pod.fact
    group, serving = situation.groups[fact.controller], eviction_tolerance.serves(fact)
    group.begun += 1
    group.begun_down += not serving
    for count in (situation.workload, situation.namespace, situation.cluster):
        if serving:
            count.acting += 1
        else:
            # It is away already, and now because of us.
            count.down -= 1
