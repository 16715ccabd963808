"""Pods that should be changed: which, why, how urgently, and in which way. Whether they may be is for the guards to say."""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.engine.tables.object_table import ObjectTable
from agents.logic.policies import Held
from agents.logic.resources.proportional_limits import proportional
from agents.logic.updates.cluster_records import Note, Pod, Recommended
from agents.logic.updates.difference import Difference, difference
from agents.logic.updates.update_settings import UpdateSettings
from schemas.facts.pods import ContainerSeen, ResizeState
from schemas.names import Amounts
from schemas.outcomes import Action
from schemas.policies.vertical import UpdateMode

QUICK_OOM = "quick OOM"


@dataclass(frozen=True, slots=True)
class Known:
    """All that is known of one pod at `now` (a turn number)."""

    now: int
    workload: str
    pod: Pod
    recommended: Recommended
    held: Held
    note: Note
    difference: Difference


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that should be changed, why, and how."""

    known: Known
    why: tuple[str, ...]
    action: Action

    @property
    def order(self) -> tuple[bool, bool, float, str, str, str]:
        """Most urgent first: killed soon after its start, then wanting more, then the larger difference."""
        pod, difference = self.known.pod.fact.pod, self.known.difference
        return (QUICK_OOM not in self.why, not difference.scale_up, -difference.share, self.known.workload, pod.name, pod.uid)


class Compared:
    """Remembers how far pods are from their recommendations while neither changes, which is nearly always."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Pod, Recommended, Difference]] = {}

    def of(self, pod: Pod, recommended: Recommended) -> Difference:
        """The difference of a pod."""
        uid = pod.fact.pod.uid
        held = self._held.get(uid)
        if held is not None and held[0] is pod and held[1] is recommended:
            return held[2]
        found = difference(pod.fact.containers, {c.container: c for c in recommended.containers})
        self._held[uid] = (pod, recommended, found)
        return found

    def forget(self, live: ObjectTable[Pod]) -> None:
        """Keep only these pods, by uid."""
        self._held = {uid: held for uid, held in self._held.items() if uid in live}


def candidate(known: Known, settings: UpdateSettings) -> Candidate | None:
    """The pod as a candidate, or None if it need not be changed."""
    why = reasons(known, settings)
    if not why:
        return None
    return Candidate(known, why, Action.RESIZE if _in_place(known, settings) else Action.EVICT)


def reasons(known: Known, settings: UpdateSettings) -> tuple[str, ...]:
    """Why a pod should be changed; empty if it should not. A pod that requests the very target never should."""
    fact, found = known.pod.fact, known.difference
    if found.share == 0.0 and not found.outside:
        return ()
    started = (fact.started or fact.created).timestamp()
    why = []
    if found.outside:
        why.append("outside its bounds")
    if _quick_oom(known, started, settings.quick_oom):
        if found.share == 0.0:
            return ()
        why.append(QUICK_OOM)
    if fact.started is not None and known.now / 1000 - started >= settings.lifetime and found.share >= settings.threshold:
        why.append("old enough and far from its target")
    return tuple(why)


def _quick_oom(known: Known, started: float, threshold: float) -> bool:
    """Whether an OOM kill came soon after the pod's start, and not long ago."""
    at, uid = known.recommended.oom_at, known.recommended.oom_uid
    if at is None or uid != known.pod.fact.pod.uid:
        return False
    return at.timestamp() - started < threshold and known.now / 1000 - at.timestamp() < threshold


def changes(known: Known) -> tuple[Mapping[str, Amounts], Mapping[str, Amounts]]:
    """New requests and limits of the pod's containers, where they are recommended."""
    wanted = {c.container: c.target for c in known.recommended.containers}
    seen = [c for c in known.pod.fact.containers if c.name in wanted]
    return (
        {c.name: wanted[c.name] for c in seen},
        {c.name: proportional(c.requests, c.limits, wanted[c.name]) for c in seen},
    )


def stuck(known: Known, settings: UpdateSettings) -> bool:
    """Whether a resize that was asked for will not come about."""
    since = known.note.resizing
    waited = 0.0 if since is None else (known.now - since) / 1000
    match known.pod.fact.resize:
        case ResizeState.INFEASIBLE:
            return True
        case ResizeState.DEFERRED:
            return waited > settings.resize_deferred
        case ResizeState.IN_PROGRESS:
            return waited > settings.resize_in_progress
        case _:
            return known.note.resize_failed


def _in_place(known: Known, settings: UpdateSettings) -> bool:
    """In place first; not if the policy says otherwise, a resize is stuck, or the pod's class of service would change."""
    if known.held.policy.update_mode is not UpdateMode.IN_PLACE_OR_RECREATE or stuck(known, settings):
        return False
    before = known.pod.fact.containers
    requests, limits = changes(known)
    after = [ContainerSeen(c.name, _over(c.requests, requests.get(c.name)), _over(c.limits, limits.get(c.name))) for c in before]
    return service_class(before) == service_class(after)


def service_class(containers: tuple[ContainerSeen, ...] | list[ContainerSeen]) -> str:
    """Kubernetes' class: Guaranteed if every request is set and equals its limit, BestEffort if nothing is set."""
    pairs = [(getattr(c.requests, r), getattr(c.limits, r)) for c in containers for r in ("cpu", "memory")]
    if all(request is None and limit is None for request, limit in pairs):
        return "BestEffort"
    return "Guaranteed" if all(limit is not None and limit == request for request, limit in pairs) else "Burstable"


def _over(old: Amounts, new: Amounts | None) -> Amounts:
    if new is None:
        return old
    return Amounts(old.cpu if new.cpu is None else new.cpu, old.memory if new.memory is None else new.memory)
