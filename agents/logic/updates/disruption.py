"""How many pods of a replica group may be disturbed at a time, by eviction or in place: arithmetic of upstream and Kubernetes.

A group is the pods of one VPA that have one direct controller. Upstream's pkg/updater/restriction; PodDisruptionBudgets as the
disruption controller and the eviction subresource of Kubernetes compute them. Time is an argument.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, StrEnum

from schemas.policies.vertical import UpdateMode

DEFERRED_FOR = timedelta(minutes=5)
"""A resize that the kubelet puts off for longer may be given up for an eviction."""
RESIZING_FOR = timedelta(hours=1)
"""... and one that is under way for longer."""
_SIZED = frozenset({"ReplicationController", "ReplicaSet", "StatefulSet", "DaemonSet"})


class Resize(Enum):
    """What the kubelet says of a resize of a pod."""

    NONE = "none"
    DEFERRED = "deferred"
    INFEASIBLE = "infeasible"
    IN_PROGRESS = "in progress"
    ERROR = "error"
    UNKNOWN = "unknown"


class InPlace(StrEnum):
    """What may be done to a pod in place, in upstream's words."""

    APPROVED = "InPlaceApproved"
    DEFERRED = "InPlaceDeferred"
    EVICT = "InPlaceEvict"
    INFEASIBLE = "InPlaceInfeasible"
    INFEASIBLE_CACHED = "InPlaceInfeasibleCached"


@dataclass(frozen=True, slots=True)
class Replica:
    """A live pod of a group. `resizing_for`: since when it was first seen resizing. `restarts`: a resize restarts a container."""

    pending: bool = False
    resize: Resize = Resize.NONE
    resizing_for: timedelta = timedelta()
    restarts: bool = False
    boosted: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """Upstream's flags. `min_replicas` is the VPA's where it names one."""

    min_replicas: int = 2
    tolerance: float = 0.5
    skip_budget: bool = False


@dataclass(slots=True)
class Group:
    """One group within one loop; `evicted` and `resized` count what was begun in it.

    `configured` is how many pods there should be. A group `below_minimum` is only there to be changed in place.
    """

    configured: int
    running: int
    tolerated: int
    below_minimum: bool = False
    evicted: int = 0
    resized: int = 0

    @property
    def disruptable(self) -> bool:
        """Enough are alive for one more to go; or all are there, nothing was begun, and less than one pod is tolerated."""
        begun = self.evicted + self.resized
        whole = self.configured == self.running and self.tolerated == 0 and begun == 0
        return self.running - begun > self.configured - self.tolerated or whole

    def may_evict(self, replica: Replica) -> bool:
        """Whether a pod of the group may be evicted now. One that is pending always may: nobody is served by it."""
        if replica.pending:
            return True
        if self.below_minimum:
            return False
        if replica.resize is not Resize.NONE:
            return self.gives_up(replica)
        return self.disruptable

    def gives_up(self, replica: Replica) -> bool:
        """Whether a resize that is not done may be given up for an eviction."""
        match replica.resize:
            case Resize.NONE:
                return False
            case Resize.DEFERRED:
                overdue = replica.resizing_for > DEFERRED_FOR
            case Resize.IN_PROGRESS:
                overdue = replica.resizing_for > RESIZING_FOR
            case _:
                overdue = True
        return self.disruptable and overdue

    def evict(self, replica: Replica) -> bool:
        """Begin an eviction if it may be; one of a pending pod costs nothing."""
        allowed = self.may_evict(replica)
        self.evicted += allowed and not replica.pending
        return allowed


def group(kind: str, replicas: int | None, pods: Sequence[Replica], mode: UpdateMode, rules: Rules) -> Group | None:
    """The group of a controller with so many configured replicas (a DaemonSet's desired number); None if it is to be left alone.

    A Job is as large as it is. Of any other kind nobody knows how large it should be: 0, as in upstream, so that
    only a PodDisruptionBudget holds evictions back.
    """
    in_place = mode in (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE) and rules.skip_budget
    too_few = len(pods) < rules.min_replicas
    if too_few and not in_place and not any(pod.boosted for pod in pods):
        return None
    if kind in _SIZED and not replicas:
        return None
    configured = len(pods) if kind == "Job" else (replicas or 0) if kind in _SIZED else 0
    running = sum(not pod.pending for pod in pods)
    return Group(configured, running, int(configured * rules.tolerance), below_minimum=too_few and in_place)


def in_place(group: Group | None, replica: Replica, mode: UpdateMode, rules: Rules, *, tried_in_vain: bool = False) -> InPlace:
    """What may be done to a pod in place, that has a recommendation. `tried_in_vain`: no less is asked than what did not fit."""
    if group is None or replica.pending:
        return InPlace.DEFERRED
    if mode is UpdateMode.IN_PLACE and tried_in_vain:
        return InPlace.INFEASIBLE_CACHED
    if replica.resize is not Resize.NONE:
        if mode is UpdateMode.IN_PLACE:
            return InPlace.INFEASIBLE if replica.resize is Resize.INFEASIBLE else InPlace.DEFERRED
        return InPlace.EVICT if group.gives_up(replica) else InPlace.DEFERRED
    if (rules.skip_budget and not replica.restarts) or group.disruptable:
        return InPlace.APPROVED
    return InPlace.DEFERRED


@dataclass(frozen=True, slots=True)
class Budget:
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
