"""How many pods of a replica group may be disturbed at a time, by eviction or in place: arithmetic of upstream and Kubernetes.

A group is the pods of one VPA that have one direct controller. Upstream's pkg/updater/restriction; PodDisruptionBudgets as the
disruption controller and the eviction subresource of Kubernetes compute them. Time is an argument.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from schemas.facts.pods import ResizeState
from schemas.policies.vertical import UpdateMode

_SIZED = frozenset({"ReplicationController", "ReplicaSet", "StatefulSet", "DaemonSet"})
_IN_PLACE_MODES = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)


class InPlace(StrEnum):
    """What may be done to a pod in place, in upstream's words."""

    APPROVED = "InPlaceApproved"
    DEFERRED = "InPlaceDeferred"
    EVICT = "InPlaceEvict"
    INFEASIBLE = "InPlaceInfeasible"
    INFEASIBLE_CACHED = "InPlaceInfeasibleCached"


@dataclass(frozen=True, slots=True)
class GroupReplica:
    """A live pod of a group. `resizing_for`: since when it was first seen resizing. `restarts`: a resize restarts a container."""

    pending: bool = False
    resize: ResizeState = ResizeState.NONE
    resizing_for: timedelta = timedelta()
    restarts: bool = False


@dataclass(frozen=True, slots=True)
class DisruptionRules:
    """Upstream's flags and constants. `min_replicas` is the VPA's where it names one.

    A resize that the kubelet defers for longer than `deferred_for`, or that is under way for longer than `resizing_for`, may be
    given up for an eviction.
    """

    min_replicas: int = 2
    tolerance: float = 0.5
    skip_budget: bool = False
    deferred_for: timedelta = timedelta(minutes=5)
    resizing_for: timedelta = timedelta(hours=1)

    def overdue(self, replica: GroupReplica) -> bool:
        """Whether a resize that was asked for has failed or takes too long."""
        match replica.resize:
            case ResizeState.NONE:
                return False
            case ResizeState.DEFERRED:
                return replica.resizing_for > self.deferred_for
            case ResizeState.IN_PROGRESS:
                return replica.resizing_for > self.resizing_for
            case _:
                return True


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """The pods of a group: how many there should be, are alive and run, and of how many a change was begun.

    `configured` is as `configured_replicas` gives it; `boosted`: one of them has a startup boost.
    """

    configured: int
    live: int
    running: int
    begun: int = 0
    boosted: bool = False


@dataclass(slots=True)
class ReplicaGroup:
    """One group within one loop; `begun` counts the changes. A group `below_minimum` is only there to be changed in place."""

    configured: int
    running: int
    rules: DisruptionRules
    below_minimum: bool = False
    begun: int = 0

    @property
    def disruptable(self) -> bool:
        """Enough are alive for one more to go; or all are there, nothing was begun, and less than one pod is tolerated."""
        tolerated = int(self.configured * self.rules.tolerance)
        whole = self.configured == self.running and tolerated == 0 and self.begun == 0
        return self.running - self.begun > self.configured - tolerated or whole

    def may_evict(self, replica: GroupReplica) -> bool:
        """Whether a pod of the group may be evicted now. One that is pending always may: nobody is served by it."""
        if replica.pending:
            return True
        if self.below_minimum:
            return False
        return self.disruptable and (replica.resize is ResizeState.NONE or self.rules.overdue(replica))

    def evict(self, replica: GroupReplica) -> bool:
        """Begin an eviction if it may be; one of a pending pod costs nothing."""
        allowed = self.may_evict(replica)
        self.begun += allowed and not replica.pending
        return allowed


def configured_replicas(kind: str, replicas: int | None, live: int) -> int | None:
    """How many pods a controller should have; None if its pods are to be left alone.

    `replicas` is what its object says: of a DaemonSet the desired number. A Job is as large as it is, `live`. Of any other kind
    nobody knows how large it should be: 0, as in upstream, so that only a PodDisruptionBudget holds evictions back.
    """
    if kind in _SIZED:
        return replicas or None
    return live if kind == "Job" else 0


def group(counts: ReplicaCounts, mode: UpdateMode, rules: DisruptionRules) -> ReplicaGroup | None:
    """The group of these pods; None if there are too few of them to disturb any."""
    in_place = mode in _IN_PLACE_MODES and rules.skip_budget
    too_few = counts.live < rules.min_replicas
    if too_few and not in_place and not counts.boosted:
        return None
    return ReplicaGroup(counts.configured, counts.running, rules, too_few and in_place, counts.begun)


def in_place(group: ReplicaGroup | None, replica: GroupReplica, mode: UpdateMode, *, tried_in_vain: bool = False) -> InPlace:
    """What may be done to a pod in place, that has a recommendation. `tried_in_vain`: no less is asked than what did not fit."""
    if group is None or replica.pending:
        return InPlace.DEFERRED
    if mode is UpdateMode.IN_PLACE and tried_in_vain:
        return InPlace.INFEASIBLE_CACHED
    if replica.resize is not ResizeState.NONE:
        if mode is UpdateMode.IN_PLACE:
            return InPlace.INFEASIBLE if replica.resize is ResizeState.INFEASIBLE else InPlace.DEFERRED
        return InPlace.EVICT if group.disruptable and group.rules.overdue(replica) else InPlace.DEFERRED
    if (group.rules.skip_budget and not replica.restarts) or group.disruptable:
        return InPlace.APPROVED
    return InPlace.DEFERRED


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget:
    """A PodDisruptionBudget and the pods that it is for: how many there should be, and how many are healthy.

    One of the bounds is given, as a count or as a percentage of the expected pods.
    """

    expected: int
    healthy: int
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    always_evict_unhealthy: bool = False

    @property
    def desired(self) -> int:
        """How many healthy pods are to stay. Percentages are rounded up, in either bound."""
        if self.max_unavailable is not None:
            return max(0, self.expected - _count(self.max_unavailable, self.expected))
        return 0 if self.min_available is None else _count(self.min_available, self.expected)

    @property
    def allowed(self) -> int:
        """How many healthy pods may be disturbed now."""
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0

    def may_evict(self, *, healthy: bool) -> bool:
        """Whether the eviction subresource lets a pod go; one that is unhealthy takes nothing from the budget."""
        if not healthy and (self.always_evict_unhealthy or self.healthy >= self.desired > 0):
            return True
        return self.allowed > 0


def _count(bound: int | str, expected: int) -> int:
    """Raises ValueError for a text that is no percentage."""
    if isinstance(bound, int):
        return bound
    if not bound.endswith("%"):
        raise ValueError(f"a bound is a number or a percentage, not '{bound}'")
    return -(-int(bound[:-1]) * expected // 100)
