"""The pods of one workload that should be changed now: because of a recommendation, or because their startup boost has ended.

Workloads that are quiet are not examined.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from agents.logic.governing_policies import PolicyRecord
from agents.logic.guards.shared_guards import Headcount
from agents.logic.updates import api_refusals, eviction_tolerance, oom_loops, startup_boosts
from agents.logic.updates.candidate import Candidate, PodSituation, candidate, held_by_caps, without
from agents.logic.updates.pod_advice import AdviceCache, Bounding, PodAdvice, WorkloadAdvice
from agents.logic.updates.update_priority import UpdatePriority
from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from agents.logic.updates.updater_records import NO_HISTORY, ChangedWorkloads, NewestRecommendation, PodHistory, PodRecord
from agents.logic.updates.updater_state import UpdaterState
from schemas import times
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import PodChanged
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
