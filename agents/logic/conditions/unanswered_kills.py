"""OOM kills of containers whose memory nobody raises, and what is in the way.

A loop of kills is answered with more memory within minutes. Where a container is killed under the same amounts for longer than
that, somebody has to change a bound, and the status of its VPA says which, or an event where there is no VPA.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from agents.logic.governing_policies import container_policy
from agents.logic.resources.target_caps import OF_INIT_CONTAINERS, MemoryBound, memory_bound
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.facts.pods import ContainerSeen, PodChanged, ResizeState
from schemas.policies.vertical import ContainerMode, ContainerPolicy, ControlledValues, UpdateMode
from schemas.units import Bytes

ANSWERED_WITHIN = timedelta(minutes=15)
"""Kills under the same amounts over so long a time have no answer. The kubelet waits 5 minutes at most between two starts."""
FORGOTTEN = timedelta(hours=1)
"""After so long a time without a kill, a loop is over. A container may need a while until it is killed again."""


class GoverningPolicy(Protocol):
    """What governs a workload, be it a VPA object or a policy of our own."""

    @property
    def update_mode(self) -> UpdateMode | None:
        """How pods are changed; None as a VPA without a mode has it."""

    @property
    def containers(self) -> tuple[ContainerPolicy, ...]:
        """The rules of single containers."""


@dataclass(frozen=True, slots=True)
class UnansweredKills:
    """OOM kills of one container of a pod under the memory that it has now.

    `last` is the end of its last run. `first` is None as long as that was killed under other amounts. `init`: it is an init
    container. `resize` is that of the pod.
    """

    container: str
    request: Bytes | None
    limit: Bytes | None
    first: datetime | None
    last: datetime
    init: bool = False
    resize: ResizeState = ResizeState.NONE

    def goes_on(self, at: datetime) -> bool:
        """Whether it is a loop, still at the time `at`."""
        return self.first is not None and self.last - self.first >= ANSWERED_WITHIN and at - self.last < FORGOTTEN


def seen_in(pod: PodChanged, before: Iterable[UnansweredKills]) -> tuple[UnansweredKills, ...]:
    """The kills of a pod's containers. `before`: those that were known of it."""
    former = {kills.container: kills for kills in before}
    return tuple(
        replace(_kills(pod, seen, seen.last_run.ended, former.get(seen.name)), init=seen in pod.init_containers)
        for seen in (*pod.containers, *pod.init_containers)
        if seen.last_run is not None and seen.last_run.killed_for_memory
    )


def _kills(pod: PodChanged, seen: ContainerSeen, ended: datetime, before: UnansweredKills | None) -> UnansweredKills:
    first: datetime | None = ended
    if before is not None and (before.request, before.limit) != (seen.requests.memory, seen.limits.memory):
        first = None  # which amounts the last run had, nobody says
    elif before is not None:
        # The same run is reported with every change of the pod; only another end is another kill.
        first = before.first or (ended if ended != before.last else None)
    return UnansweredKills(seen.name, seen.requests.memory, seen.limits.memory, first, ended, resize=pod.resize)


def condition_of(
    policy: GoverningPolicy, kills: Iterable[UnansweredKills], recommended: Sequence[ContainerRecommendation], at: datetime
) -> MemoryBound | None:
    """What a status says of the first container, by name, that is killed in a loop; None where none is."""
    loop = min((kill for kill in kills if kill.goes_on(at)), key=lambda kill: kill.container, default=None)
    if loop is None:
        return None
    bound = _bound(policy, loop, next((entry for entry in recommended if entry.container == loop.container), None))
    return MemoryBound(
        bound.reason, f"Container '{loop.container}' is OOM-killed again and again and gets no more memory: {bound.clause}"
    )


def _bound(governing: GoverningPolicy, loop: UnansweredKills, advised: ContainerRecommendation | None) -> MemoryBound:
    policy = container_policy(governing.containers, loop.container)
    # No recommendation is made for init containers, by upstream as by us, so none of the rest can be the cause.
    if loop.init:
        return OF_INIT_CONTAINERS
    if governing.update_mode in (UpdateMode.OFF, UpdateMode.INITIAL):
        return MemoryBound("UpdateMode", f"the update mode '{governing.update_mode}' leaves running pods alone")
    if loop.resize is not ResizeState.NONE:
        return MemoryBound("ResizePending", f"a resize of its pod is not done; the kubelet calls it '{loop.resize}'")
    if _short(loop, advised, policy):
        return MemoryBound("NotApplied", "more is recommended, and something keeps it from its pods, which `ullage why-not` says")
    return memory_bound(advised, policy, loop.limit)


def _short(loop: UnansweredKills, advised: ContainerRecommendation | None, policy: ContainerPolicy) -> bool:
    """Whether its request could be raised to what is recommended."""
    wanted = None if advised is None else advised.target.memory
    if wanted is None or policy.mode is ContainerMode.OFF:
        return False
    if policy.controlled_values is ControlledValues.REQUESTS_ONLY and loop.limit is not None:
        # A limit that stays bounds requests, too.
        wanted = min(wanted, loop.limit)
    return loop.request is None or wanted > loop.request
