"""Pods that should be changed: which, why, how urgently, and in which way. Whether they may be changed now is for the guards."""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.engine.tables.object_table import ObjectTable
from agents.logic.policies import Held
from agents.logic.resources.proportional_limits import proportional
from agents.logic.resources.service_class import service_class
from agents.logic.updates.request_difference import RequestDifference, difference
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater_state import NewestRecommendation, PodHistory, PodRecord
from schemas import times
from schemas.facts.pods import ContainerSeen, ResizeState
from schemas.names import Amounts
from schemas.outcomes import Action
from schemas.policies.vertical import UpdateMode

OUTSIDE = "outside its bounds"
QUICK_OOM = "quick OOM"
OLD = "old enough and far from its target"


@dataclass(frozen=True, slots=True)
class PodSituation:
    """All that is known of one pod in turn `now`."""

    now: int
    workload: str
    pod: PodRecord
    recommended: NewestRecommendation
    policy: Held
    history: PodHistory
    difference: RequestDifference


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that should be changed, why, and how."""

    situation: PodSituation
    why: tuple[str, ...]
    action: Action

    @property
    def order(self) -> tuple[bool, bool, float, str, str, str]:
        """Sorts the most urgent first: killed soon after its start, then wanting more, then the larger difference."""
        situation = self.situation
        pod, difference = situation.pod.fact.pod, situation.difference
        return (QUICK_OOM not in self.why, not difference.scale_up, -difference.share, situation.workload, pod.name, pod.uid)


class DifferenceCache:
    """Remembers how far pods are from their recommendations while neither changes, which is nearly always."""

    def __init__(self) -> None:
        self._differences: dict[str, tuple[PodRecord, NewestRecommendation, RequestDifference]] = {}

    def of(self, pod: PodRecord, recommended: NewestRecommendation) -> RequestDifference:
        """The difference of a pod."""
        uid = pod.fact.pod.uid
        cached = self._differences.get(uid)
        if cached is not None and cached[0] is pod and cached[1] is recommended:
            return cached[2]
        found = difference(pod.fact.containers, {c.container: c for c in recommended.containers})
        self._differences[uid] = (pod, recommended, found)
        return found

    def prune(self, live: ObjectTable[PodRecord]) -> None:
        """Forget the pods that are not among these, by uid."""
        self._differences = {uid: cached for uid, cached in self._differences.items() if uid in live}


def candidate(situation: PodSituation, settings: UpdateSettings) -> Candidate | None:
    """The pod as a candidate, or None if it need not be changed."""
    why = reasons(situation, settings)
    if not why:
        return None
    return Candidate(situation, why, Action.RESIZE if _in_place(situation, settings) else Action.EVICT)


def reasons(situation: PodSituation, settings: UpdateSettings) -> tuple[str, ...]:
    """Why a pod should be changed; empty if it should not. A pod that requests the very target never should."""
    fact, found = situation.pod.fact, situation.difference
    if found.share == 0.0 and not found.outside:
        return ()
    started = times.to_seconds(fact.started or fact.created)
    why = []
    if found.outside:
        why.append(OUTSIDE)
    if _quick_oom(situation, started, settings.quick_oom):
        if found.share == 0.0:
            return ()
        why.append(QUICK_OOM)
    if fact.started is not None and situation.now / 1000 - started >= settings.lifetime and found.share >= settings.threshold:
        why.append(OLD)
    return tuple(why)


def _quick_oom(situation: PodSituation, started: float, threshold: float) -> bool:
    """Whether an OOM kill came soon after the pod's start, and not long ago."""
    at, uid = situation.recommended.oom_at, situation.recommended.oom_uid
    if at is None or uid != situation.pod.fact.pod.uid:
        return False
    killed = times.to_seconds(at)
    return killed - started < threshold and situation.now / 1000 - killed < threshold


def changes(situation: PodSituation) -> tuple[Mapping[str, Amounts], Mapping[str, Amounts]]:
    """New requests and limits of the pod's containers, where they are recommended."""
    wanted = {c.container: c.target for c in situation.recommended.containers}
    seen = [c for c in situation.pod.fact.containers if c.name in wanted]
    return (
        {c.name: wanted[c.name] for c in seen},
        {c.name: proportional(c.requests, c.limits, wanted[c.name]) for c in seen},
    )


def stuck(situation: PodSituation, settings: UpdateSettings) -> bool:
    """Whether a resize that was begun will not come about."""
    since = situation.history.resizing
    waited = 0.0 if since is None else (situation.now - since) / 1000
    match situation.pod.fact.resize:
        case ResizeState.INFEASIBLE:
            return True
        case ResizeState.DEFERRED:
            return waited > settings.resize_deferred
        case ResizeState.IN_PROGRESS:
            return waited > settings.resize_in_progress
        case _:
            return situation.history.resize_failed


def _in_place(situation: PodSituation, settings: UpdateSettings) -> bool:
    """In place first; not if the policy says otherwise, a resize is stuck, or the pod's class of service would change."""
    if situation.policy.policy.update_mode is not UpdateMode.IN_PLACE_OR_RECREATE or stuck(situation, settings):
        return False
    before = situation.pod.fact.containers
    requests, limits = changes(situation)
    after = [ContainerSeen(c.name, _over(c.requests, requests.get(c.name)), _over(c.limits, limits.get(c.name))) for c in before]
    return service_class(before) == service_class(after)


def _over(old: Amounts, new: Amounts | None) -> Amounts:
    if new is None:
        return old
    return Amounts(old.cpu if new.cpu is None else new.cpu, old.memory if new.memory is None else new.memory)
