"""Pods that should be changed: which, why, how urgently, and in which way. Whether they may be changed now is for the guards."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agents.engine.tables.object_table import ObjectTable
from agents.logic.governing_policies import PolicyRecord
from agents.logic.resources import resource_lists
from agents.logic.resources.limit_proportion import limit_amounts
from agents.logic.resources.resource_lists import Advice, Container
from agents.logic.resources.service_class import service_class
from agents.logic.updates import update_priority
from agents.logic.updates.disruption import GroupReplica
from agents.logic.updates.update_priority import RecentOomKill, UpdatePriority, UpdateReason, UpdateThresholds
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater_state import NewestRecommendation, PodHistory, PodRecord
from schemas import times
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import ContainerSeen, ResizeState
from schemas.names import Amounts
from schemas.outcomes import Action
from schemas.policies.vertical import UpdateMode


@dataclass(frozen=True, slots=True)
class PodSituation:
    """All that is known of one pod in turn `now`."""

    now: int
    workload: str
    pod: PodRecord
    recommended: NewestRecommendation
    policy: PolicyRecord
    history: PodHistory
    priority: UpdatePriority
    settings: UpdateSettings
    """Those for this workload."""

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


_Alike = dict[tuple[str | None, tuple[tuple[str, Amounts], ...]], UpdatePriority]
"""Priorities by what a pod requests, which is the same for most pods of a workload."""


class PriorityCache:
    """Remembers how far pods are from their recommendations while neither changes, which is nearly always."""

    def __init__(self) -> None:
        self._priorities: dict[str, tuple[PodRecord, NewestRecommendation, UpdatePriority]] = {}
        self._advice: dict[str, tuple[NewestRecommendation, tuple[Advice, ...], _Alike]] = {}

    def of(self, pod: PodRecord, recommended: NewestRecommendation) -> UpdatePriority:
        """The priority of a pod."""
        uid = pod.fact.pod.uid
        cached = self._priorities.get(uid)
        if cached is not None and cached[0] is pod and cached[1] is recommended:
            return cached[2]
        advice, alike = self._advice_of(pod.fact.workload.key, recommended)
        asked = pod.fact.observed, tuple((c.name, c.requests) for c in pod.fact.containers)
        found = alike.get(asked)
        if found is None:
            containers = [Container(c.name, resource_lists.of_amounts(c.requests)) for c in pod.fact.containers]
            found = update_priority.priority(containers, advice, update_priority.observed(pod.fact.observed))
            alike[asked] = found
        self._priorities[uid] = (pod, recommended, found)
        return found

    def prune(self, live: ObjectTable[PodRecord], workloads: Collection[str]) -> None:
        """Forget the pods and the workloads that are not among these, by uid and by key, once there are more than these."""
        if len(self._priorities) > len(live):
            self._priorities = {uid: cached for uid, cached in self._priorities.items() if uid in live}
        if len(self._advice) > len(workloads):
            self._advice = {workload: cached for workload, cached in self._advice.items() if workload in workloads}

    def _advice_of(self, workload: str, recommended: NewestRecommendation) -> tuple[tuple[Advice, ...], _Alike]:
        """The recommendation in exact amounts, which are the same for all pods of a workload, and what it means for some."""
        cached = self._advice.get(workload)
        if cached is None or cached[0] is not recommended:
            cached = recommended, tuple(map(resource_lists.of_recommendation, recommended.containers)), {}
            self._advice[workload] = cached
        return cached[1], cached[2]


def candidate(situation: PodSituation) -> Candidate | None:
    """The pod as a candidate, or None if it need not be changed."""
    why = reasons(situation)
    if not why:
        return None
    return Candidate(situation, why, Action.RESIZE if _in_place(situation) else Action.EVICT)


def without(situation: PodSituation, left: frozenset[str]) -> Candidate | None:
    """The pod as a candidate, if what is recommended of these resources is left alone."""
    containers = [Container(c.name, resource_lists.of_amounts(c.requests)) for c in situation.pod.fact.containers]
    reduced = replace(situation.recommended, containers=tuple(_reduced(each, left) for each in situation.recommended.containers))
    advice = tuple(map(resource_lists.of_recommendation, reduced.containers))
    priority = update_priority.priority(containers, advice, update_priority.observed(situation.pod.fact.observed))
    found = candidate(replace(situation, recommended=reduced, priority=priority))
    if found is not None:
        return found
    whole = candidate(situation)
    return whole and replace(whole, left=left)


def _reduced(recommended: ContainerRecommendation, left: frozenset[str]) -> ContainerRecommendation:
    def of(amounts: Amounts) -> Amounts:
        return Amounts(None if "cpu" in left else amounts.cpu, None if "memory" in left else amounts.memory)

    lower, target, upper = of(recommended.lower), of(recommended.target), of(recommended.upper)
    return replace(recommended, lower=lower, target=target, upper=upper)


def reasons(situation: PodSituation) -> tuple[UpdateReason, ...]:
    """Why a pod should be changed; empty if it should not."""
    if situation.recommended.reverted is not None:
        return (UpdateReason.REVERT,) if situation.priority.outside else ()
    started, settings = situation.pod.fact.started, situation.settings
    return update_priority.reasons(
        situation.priority,
        age=None if started is None else situation.at - started,
        quick=update_priority.quick_kill(_kills(situation), timedelta(seconds=settings.quick_oom), _admitted(situation)),
        thresholds=UpdateThresholds(settings.threshold, timedelta(seconds=settings.lifetime)),
    )


def _kills(situation: PodSituation) -> Iterator[RecentOomKill]:
    """The last OOM kill of the workload, if it was of this pod. How long its container ran is counted from the pod's start."""
    at, fact = situation.recommended.oom_at, situation.pod.fact
    if at is not None and situation.recommended.oom_uid == fact.pod.uid:
        yield RecentOomKill(situation.recommended.oom_container, at - (fact.started or fact.created), situation.at - at)


def _admitted(situation: PodSituation) -> Callable[[str], bool]:
    """Whether admission saw a container. One of which nobody knows the name counts."""
    seen = update_priority.observed(situation.pod.fact.observed)
    return lambda container: seen is None or not container or container in seen


def changes(situation: PodSituation) -> tuple[Mapping[str, Amounts], Mapping[str, Amounts]]:
    """New requests and limits of the pod's containers, where they are recommended."""
    wanted = {c.container: c.target for c in situation.recommended.containers}
    seen = [c for c in situation.pod.fact.containers if c.name in wanted]
    requests, reverted = {c.name: wanted[c.name] for c in seen}, situation.recommended.reverted
    if reverted is not None:
        return requests, {c.name: reverted.limits.get(c.name, Amounts()) for c in seen}
    return requests, {c.name: limit_amounts(c.requests, c.limits, wanted[c.name]) for c in seen}


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
    """Whether a resize that was begun will not come about."""
    since, resize = situation.history.resizing, situation.pod.fact.resize
    waited = timedelta(milliseconds=0 if since is None else situation.now - since)
    overdue = situation.settings.disruption.overdue(GroupReplica(resize=resize, resizing_for=waited))
    return overdue or (resize is ResizeState.NONE and situation.history.resize_failed)


def infeasible(situation: PodSituation) -> bool:
    """Whether the pod's node could not hold what was asked for, and now no less of anything is asked for."""
    tried = situation.history.infeasible
    wanted = {c.container: c.target for c in situation.recommended.containers}
    return bool(tried) and not any(_asks_less(wanted[name], amounts) for name, amounts in tried.items() if name in wanted)


def _asks_less(after: Amounts, before: Amounts) -> bool:
    pairs = ((after.cpu, before.cpu), (after.memory, before.memory))
    return any(new is not None and old is not None and new < old for new, old in pairs)


def keeps_service_class(situation: PodSituation) -> bool:
    """Whether the pod stays in its class of service, without which the API refuses to resize it in place."""
    before = situation.pod.fact.containers
    requests, limits = changes(situation)
    after = [ContainerSeen(c.name, _over(c.requests, requests.get(c.name)), _over(c.limits, limits.get(c.name))) for c in before]
    return service_class(before) == service_class(after)


def _in_place(situation: PodSituation) -> bool:
    """In place first; not if the policy says otherwise, a resize is stuck, or the pod's class of service would change.

    A revert is always in place: a restart alone puts nothing back.
    """
    if situation.recommended.reverted is not None:
        return True
    match situation.policy.policy.update_mode:
        case UpdateMode.IN_PLACE:
            return True
        case UpdateMode.IN_PLACE_OR_RECREATE:
            return not stuck(situation) and keeps_service_class(situation)
        case _:
            return False


def _over(old: Amounts, new: Amounts | None) -> Amounts:
    if new is None:
        return old
    return Amounts(old.cpu if new.cpu is None else new.cpu, old.memory if new.memory is None else new.memory)
