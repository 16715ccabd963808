"""The pods of one workload that should be changed now: because of a recommendation, or because their startup boost has ended.

Workloads that are quiet are not examined.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from agents.engine.tables.object_table import ObjectTable
from agents.logic.governing_policies import PolicyRecord
from agents.logic.guards.guard_records import BOUNDING_DISRUPTION
from agents.logic.guards.shared_guards import Headcount, Objection
from agents.logic.updates import api_refusals, eviction_tolerance, oom_loops, startup_boosts
from agents.logic.updates.candidate import (
    Candidate,
    PodSituation,
    asking,
    candidate,
    changes,
    disrupts,
    held_by_caps,
    raised,
    taken_back,
    without,
)
from agents.logic.updates.disruption_guards import serves_nobody
from agents.logic.updates.eviction_tolerance import ReplicaCounts, UnpatchedWorkloads, WorkloadEviction
from agents.logic.updates.missing_pods import Shortfall
from agents.logic.updates.pod_advice import AdviceCache, Bounding, PodAdvice, WorkloadAdvice
from agents.logic.updates.pod_disruption_budgets import BudgetRecord
from agents.logic.updates.update_constraints import ClusterSituation
from agents.logic.updates.update_guards import first_objection, told
from agents.logic.updates.update_priority import UpdatePriority
from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from agents.logic.updates.updater_records import NO_HISTORY, ChangedWorkloads, NewestRecommendation, PodHistory, PodRecord
from agents.logic.updates.updater_state import UpdaterState
from schemas import times
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import PodChanged
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.outcomes import Action
from schemas.policies.scaling import UtilizationMetric

NEVER = sys.maxsize


class QuietWorkloads:
    """Until which turn no pod of a workload needs a change unless the workload changes, and how many pods it has.

    In a settled cluster nearly all workloads are quiet, and the cost of an interval depends on what changed. This is no state: it
    follows from the state, and starts empty after a restart.
    """

    def __init__(self) -> None:
        self._until: dict[str, int] = {}
        self._pods: dict[str, Headcount] = {}

    def follow(self, changed: ChangedWorkloads) -> None:
        """Forget the workloads that changed since the last call."""
        if changed.all:
            self._until.clear()
        for workload in changed.keys:
            self._until.pop(workload, None)
            self._pods.pop(workload, None)
        changed.clear()

    def holds(self, workload: str, now: int) -> bool:
        """Whether no pod of a workload needs a change in turn `now`."""
        return now < self._until.get(workload, 0)

    def enter(self, workload: str, until: int) -> None:
        """No pod of a workload needs a change before this turn."""
        self._until[workload] = until

    def counted(self, workload: str) -> Headcount | None:
        """The pods of a workload, none of which counts as being changed; None if they are not counted yet."""
        # A copy, because the guards count in it whom they let go.
        count = self._pods.get(workload)
        return None if count is None else replace(count)

    def count(self, workload: str, count: Headcount) -> None:
        """Remember the pods of a workload."""
        self._pods[workload] = replace(count)


@dataclass(frozen=True, slots=True)
class _Workload:
    """A workload in turn `now`. `advice`: the recommendation, None if there is none. `history` returns a pod's history."""

    now: int
    key: str
    policy: PolicyRecord
    advice: WorkloadAdvice | None
    settings: UpdateSettings
    history: Callable[[str], PodHistory]


@dataclass(slots=True)
class CandidateSearch:
    """Searches workloads, and caches which of them are quiet."""

    clusters: UpdaterState
    advice: AdviceCache = field(default_factory=AdviceCache)
    quiet: QuietWorkloads = field(default_factory=QuietWorkloads)

    def of(
        self,
        key: str,
        now: int,
        recommended: NewestRecommendation | None,
        settings: UpdateSettings,
        history: Callable[[str], PodHistory],
    ) -> list[Candidate]:
        """The pods of a workload that should be changed and have no plan."""
        policy = self.clusters.policies.of(key)
        if policy is None or policy.policy.foreign:
            self.quiet.enter(key, NEVER)
            return []
        workload = _Workload(now, key, policy, self._advice(key, recommended, policy, settings), settings, history)
        candidates, until = list[Candidate](), NEVER
        for uid, pod in sorted(self.clusters.pods_of[key].items()):
            if not eviction_tolerance.is_there(pod.fact):
                continue
            urgent, calm = self._boosted(workload, uid, pod) if pod.fact.boosted else self._plain(workload, uid, pod)
            until = min(until, calm)
            if urgent is not None:
                candidates.append(urgent)
        self.quiet.enter(key, until)
        return candidates

    def advised(self, pod: PodRecord, settings: UpdateSettings) -> Mapping[str, ContainerRecommendation] | None:
        """What is recommended for a pod, by container, as admission gives it; None where nothing is."""
        key = pod.fact.workload.key
        policy = self.clusters.policies.of(key)
        advice = None if policy is None else self._advice(key, self.clusters.recommendation(key), policy, settings)
        reduced = None if advice is None else advice.reduced(self.advice.shape(pod))
        if reduced is None or reduced.fault:
            return None
        return {container.container: container for container in reduced.recommended.containers}

    def _advice(
        self, key: str, recommended: NewestRecommendation | None, policy: PolicyRecord, settings: UpdateSettings
    ) -> WorkloadAdvice | None:
        if recommended is None:
            return None
        constraints = self.clusters.constraints
        left = constraints.scaled_by(key) if settings.honor_hpas and recommended.reverted is None else frozenset()
        bounding = Bounding(constraints.ranges_of(key), left, settings.profile == UpdaterProfile.UPSTREAM)
        return self.advice.of(key, recommended, policy, bounding)

    def _plain(self, workload: _Workload, uid: str, pod: PodRecord) -> tuple[Candidate | None, int]:
        """A pod as a candidate, and the first turn in which it may be one."""
        advice = workload.advice
        if advice is None:
            return None, NEVER
        shape = self.advice.shape(pod)
        whole = advice.of(shape)
        views, now = (whole, advice.uncapped(shape)) if whole.caps else (whole,), workload.now
        waiting = advice.of(self.advice.shape_of(asking(pod.fact))) if pod.fact.asked else None
        views = views if waiting is None else (*views, waiting)
        calms = (calm_until(pod, view.recommended, view.priority, workload.settings, now) for view in views)
        # An HPA may go at any time, and no fact of that wakes a workload.
        calm = 0 if advice.left else min(calms)
        history = workload.history(uid) if calm <= workload.now else NO_HISTORY
        if calm > workload.now or history.has_plan(workload.now):
            return None, calm
        situation = PodSituation(
            workload.now,
            workload.key,
            pod,
            whole,
            workload.policy,
            history,
            workload.settings,
            scaled=self._scaled(workload),
            successor=partial(self._successor, advice, pod.fact),
        )
        chosen = without(situation, advice.reduced(shape), advice.left) if advice.left else candidate(situation)
        if chosen is None and whole.caps:
            chosen = held_by_caps(situation, advice.uncapped(shape), whole.caps)
        if chosen is None and waiting is not None and waiting.priority.outside:
            chosen = taken_back(replace(situation, advice=advice.reduced(shape)))
        return chosen, calm

    def _boosted(self, workload: _Workload, uid: str, pod: PodRecord) -> tuple[Candidate | None, int]:
        """The same of a pod that was given a startup boost: while it lasts, the pod is left alone."""
        history = workload.history(uid)
        boost = startup_boosts.boosted(pod.fact, history, workload.policy, workload.now)
        if boost is None:
            return self._plain(workload, uid, pod)
        if history.has_plan(workload.now):
            return None, 0
        lowered = startup_boosts.without_boosts(boost.over, pod, workload.policy, self._unreverted(workload, pod), workload.now)
        if lowered is not None:
            names = tuple(container.name for container in boost.over)
            settings, now = workload.settings, workload.now
            scaled = self._scaled(workload)
            return candidate(PodSituation(now, workload.key, pod, lowered, workload.policy, history, settings, names, scaled)), 0
        if boost.over and boost.next is None:
            return self._plain(workload, uid, pod)
        return None, NEVER if boost.next is None else boost.next

    def _successor(self, advice: WorkloadAdvice, fact: PodChanged) -> PodAdvice:
        return advice.reduced(self.advice.shape_of(api_refusals.unpatched(fact)))

    def _scaled(self, workload: _Workload) -> frozenset[UtilizationMetric]:
        return self.clusters.constraints.utilizations(workload.key)

    def _unreverted(self, workload: _Workload, pod: PodRecord) -> PodAdvice | None:
        """The recommendation for a pod, without what HPAs scale by; None during a revert."""
        advice = workload.advice
        if advice is None or advice.recommended.reverted is not None:
            return None
        shape = self.advice.shape(pod)
        pod_advice = advice.reduced(shape) if advice.left else advice.of(shape)
        return None if pod_advice.fault else pod_advice


def calm_until(
    pod: PodRecord, recommended: NewestRecommendation, priority: UpdatePriority, settings: UpdateSettings, now: int
) -> int:
    """The first turn in which a pod may need a change, if nothing of it changes; 0 if it may need one now."""
    # Init containers, too: nothing is recommended for them, but somebody has to be told.
    killed = oom_loops.last_kill(pod.fact, init=True)
    if priority.outside or (killed is not None and now - times.to_ms(killed) < settings.quick_oom * 1000):
        return 0
    if recommended.reverted is not None or priority.difference < settings.threshold or pod.fact.started is None:
        return NEVER
    return times.to_ms(pod.fact.started) + int(settings.lifetime * 1000)


# The pods of a cluster that should be changed, judged by the guards one after the other: who goes counts for those after it.


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
