"""Pods that should be changed: which, why, how urgently, and in which way. Whether they may be is for the guards to say."""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.logic.policies import Held
from agents.logic.updates.difference import Difference, difference
from agents.logic.updates.limits import proportional
from agents.logic.updates.memory import Note, Pod, Recommended
from agents.logic.updates.settings import UpdateSettings
from schemas.facts import ContainerSeen, ResizeState
from schemas.names import Amounts
from schemas.outcomes import Action
from schemas.policies import UpdateMode


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that should be changed at `now` (a turn number)."""

    now: int
    workload: str
    pod: Pod
    recommended: Recommended
    held: Held
    note: Note
    difference: Difference
    why: tuple[str, ...]
    action: Action

    @property
    def order(self) -> tuple[bool, bool, float, str, str, str]:
        """Most urgent first: killed soon after its start, then wanting more, then the larger difference."""
        fact = self.pod.fact
        urgent = "quick OOM" in self.why
        return (not urgent, not self.difference.scale_up, -self.difference.share, self.workload, fact.pod.name, fact.pod.uid)


def reasons(pod: Pod, recommended: Recommended, found: Difference, now: int, settings: UpdateSettings) -> tuple[str, ...]:
    """Why a pod should be changed; empty if it should not. A pod that requests the very target never should."""
    if found.share == 0.0 and not found.outside:
        return ()
    fact = pod.fact
    started = (fact.started or fact.created).timestamp()
    why = []
    if found.outside:
        why.append("outside its bounds")
    if recommended.oom_at is not None and recommended.oom_uid == fact.pod.uid:
        killed = recommended.oom_at.timestamp()
        if killed - started < settings.quick_oom and now / 1000 - killed < settings.quick_oom:
            why.append("quick OOM")
    old = fact.started is not None and now / 1000 - started >= settings.lifetime
    if old and found.share >= settings.threshold:
        why.append("old enough and far from its target")
    return tuple(why)


def candidate(  # noqa: PLR0913  # all that is known of one pod, by keyword
    *, now: int, workload: str, pod: Pod, recommended: Recommended, held: Held, note: Note, settings: UpdateSettings
) -> Candidate | None:
    """The pod as a candidate, or None if it need not be changed."""
    wanted = {c.container: c for c in recommended.containers}
    found = difference(pod.fact.containers, wanted)
    why = reasons(pod, recommended, found, now, settings) if found.share > 0 or found.outside else ()
    if not why or ("quick OOM" in why and found.share == 0.0):
        return None
    action = Action.RESIZE if _in_place(pod, recommended, held, note, now=now, settings=settings) else Action.EVICT
    return Candidate(now, workload, pod, recommended, held, note, found, why, action)


def changes(pod: Pod, recommended: Recommended) -> tuple[Mapping[str, Amounts], Mapping[str, Amounts]]:
    """New requests and limits of the pod's containers, where they are recommended."""
    wanted = {c.container: c.target for c in recommended.containers}
    seen = [c for c in pod.fact.containers if c.name in wanted]
    return (
        {c.name: wanted[c.name] for c in seen},
        {c.name: proportional(c.requests, c.limits, wanted[c.name]) for c in seen},
    )


def stuck(pod: Pod, note: Note, now: int, settings: UpdateSettings) -> bool:
    """Whether a resize that was asked for will not come about."""
    waited = 0.0 if note.resizing is None else (now - note.resizing) / 1000
    match pod.fact.resize:
        case ResizeState.INFEASIBLE:
            return True
        case ResizeState.DEFERRED:
            return waited > settings.resize_deferred
        case ResizeState.IN_PROGRESS:
            return waited > settings.resize_in_progress
        case _:
            return note.resize_failed


def _in_place(  # noqa: PLR0913  # as above
    pod: Pod, recommended: Recommended, held: Held, note: Note, *, now: int, settings: UpdateSettings
) -> bool:
    """In place first; not if the policy says otherwise, a resize is stuck, or the pod's class of service would change."""
    if held.policy.update_mode is not UpdateMode.IN_PLACE_OR_RECREATE or stuck(pod, note, now, settings):
        return False
    requests, limits = changes(pod, recommended)
    after = [
        ContainerSeen(c.name, _over(c.requests, requests.get(c.name)), _over(c.limits, limits.get(c.name)))
        for c in pod.fact.containers
    ]
    return service_class(pod.fact.containers) == service_class(after)


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
