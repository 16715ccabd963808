"""Pods that should be changed: which, why, how urgently, and in which way. The guards decide whether they may be changed now."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agents.logic.governing_policies import PolicyRecord, bounds
from agents.logic.updates import update_priority
from agents.logic.updates.pod_advice import PodAdvice
from agents.logic.updates.update_priority import RecentOomKill, UpdatePriority, UpdateReason
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater_state import NewestRecommendation, PodHistory, PodRecord
from schemas import times
from schemas.facts.pods import ResizeState
from schemas.names import Amounts
from schemas.outcomes import Action
from schemas.policies.scaling import UtilizationMetric
from schemas.policies.vertical import ContainerMode, UpdateMode


@dataclass(frozen=True, slots=True)
class PodSituation:
    """Everything known about one pod in turn `now`."""

    now: int
    workload: str
    pod: PodRecord
    advice: PodAdvice
    policy: PolicyRecord
    history: PodHistory
    settings: UpdateSettings
    """Those for this workload."""
    unboosts: tuple[str, ...] = ()
    """The containers whose startup boost has ended; then `advice` is only about these."""
    scaled: frozenset[UtilizationMetric] = frozenset()
    """The shares of requests by which HPAs scale the workload."""

    @property
    def recommended(self) -> NewestRecommendation:
        """What is recommended for the pod."""
        return self.advice.recommended

    @property
    def priority(self) -> UpdatePriority:
        """How far the pod is from it."""
        return self.advice.priority

    @property
    def at(self) -> datetime:
        """The time of the turn."""
        return times.from_ms(self.now)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that should be changed, why, and how."""

    situation: PodSituation
    why: tuple[UpdateReason, ...]
    action: Action
    left: frozenset[str] = frozenset()
    """Resources that HPAs scale by, if nothing else of the pod is to be changed."""

    @property
    def order(self) -> tuple[bool, float, str, str, str]:
        """Sorts the most urgent first, as upstream does; then by name, so that the order is one."""
        situation = self.situation
        pod = situation.pod.fact.pod
        return (*situation.priority.rank, situation.workload, pod.name, pod.uid)

    def alike(self, other: "Candidate") -> bool:
        """Whether no guard can distinguish the two pods, which belong to one workload, at one moment."""
        one, two = self.situation, other.situation
        mine, its = one.pod.fact, two.pod.fact
        return (
            one.advice is two.advice
            and self.why == other.why
            and self.action is other.action
            and one.history == two.history
            and mine.phase is its.phase
            and mine.resize is its.resize
            and mine.opted_out == its.opted_out
            and mine.controller == its.controller
            and (mine.node is None) == (its.node is None)
            and (mine.started == its.started or not one.settings.pod_warm_up)
            and self.left == other.left
            and one.unboosts == two.unboosts
        )


def candidate(situation: PodSituation) -> Candidate | None:
    """The pod as a candidate, or None if it need not be changed."""
    why = reasons(situation)
    if not why:
        return None
    return Candidate(situation, why, Action.RESIZE if _in_place(situation) else Action.EVICT)


def without(situation: PodSituation, reduced: PodAdvice, left: frozenset[str]) -> Candidate | None:
    """The pod as a candidate, if what is recommended of these resources is left alone, as in the `reduced` advice."""
    found = candidate(replace(situation, advice=reduced))
    if found is not None:
        return found
    whole = candidate(situation)
    return whole and replace(whole, left=left)


def reasons(situation: PodSituation) -> tuple[UpdateReason, ...]:
    """Why a pod should be changed; empty if it should not."""
    if situation.unboosts:
        return (UpdateReason.BOOST_OVER,)
    if situation.recommended.reverted is not None:
        return (UpdateReason.REVERT,) if situation.priority.outside else ()
    started, settings = situation.pod.fact.started, situation.settings
    quick = False
    if situation.recommended.oom_uid == situation.pod.fact.pod.uid:
        quick = update_priority.quick_kill(_kills(situation), timedelta(seconds=settings.quick_oom), _counts(situation))
    age = None if started is None else situation.at - started
    return update_priority.reasons(situation.priority, age=age, quick=quick, thresholds=settings.thresholds)


def _kills(situation: PodSituation) -> Iterator[RecentOomKill]:
    """The last OOM kill of the workload, if it was of this pod. How long its container ran is counted from the pod's start."""
    at, fact = situation.recommended.oom_at, situation.pod.fact
    if at is not None and situation.recommended.oom_uid == fact.pod.uid:
        yield RecentOomKill(situation.recommended.oom_container, at - (fact.started or fact.created), situation.at - at)


def _counts(situation: PodSituation) -> Callable[[str], bool]:
    """Whether admission saw a container, and its policy is not Off. A container of unknown name counts."""
    seen, policy = update_priority.observed(situation.pod.fact.observed), situation.policy

    def counts(container: str) -> bool:
        if not container:
            return True
        return (seen is None or container in seen) and bounds(policy, container).mode is not ContainerMode.OFF

    return counts


def changes(situation: PodSituation) -> tuple[Mapping[str, Amounts], Mapping[str, Amounts]]:
    """New requests and limits of the pod's containers, where they are recommended."""
    return situation.advice.requests, situation.advice.limits


def restarts(situation: PodSituation) -> bool:
    """Whether a resize in place restarts a container: one of its resources changes for which the pod's resizePolicy says so."""
    requests, limits = changes(situation)
    for seen in situation.pod.fact.containers:
        for resource in seen.restarts_on:
            pairs = ((requests.get(seen.name), seen.requests), (limits.get(seen.name), seen.limits))
            for after, before in pairs:
                wanted = getattr(after, resource, None)
                if wanted is not None and wanted != getattr(before, resource, None):
                    return True
    return False


def disrupts(candidate: Candidate) -> bool:
    """Whether the change stops a container: an eviction does, and a resize of what a container must be restarted for."""
    return candidate.action is Action.EVICT or restarts(candidate.situation)


def stuck(situation: PodSituation) -> bool:
    """Whether a resize that was begun will not succeed."""
    since, resize = situation.history.resizing, situation.pod.fact.resize
    if resize is ResizeState.NONE:
        return situation.history.resize_failed
    waited = timedelta(milliseconds=0 if since is None else situation.now - since)
    return situation.settings.disruption.overdue(resize, waited)


def infeasible(situation: PodSituation) -> bool:
    """Whether the pod's node could not hold the last request, and the new one is not lower in any resource."""
    tried = situation.history.infeasible
    wanted = {c.container: c.target for c in situation.recommended.containers}
    return bool(tried) and not any(_asks_less(wanted[name], amounts) for name, amounts in tried.items() if name in wanted)


def _asks_less(after: Amounts, before: Amounts) -> bool:
    pairs = ((after.cpu, before.cpu), (after.memory, before.memory))
    return any(new is not None and old is not None and new < old for new, old in pairs)


def _in_place(situation: PodSituation) -> bool:
    """In place first; not if the policy says otherwise, a resize is stuck, or the pod's class of service would change.

    A revert is always in place, because a restart alone puts nothing back, and so is the end of a boost.
    """
    if situation.recommended.reverted is not None or situation.unboosts:
        return True
    match situation.policy.policy.update_mode:
        case UpdateMode.IN_PLACE:
            return True
        case UpdateMode.IN_PLACE_OR_RECREATE:
            return not stuck(situation) and situation.advice.keeps_class
        case _:
            return False
