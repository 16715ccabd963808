"""The values in the scaler's tables: frozen, with fields that are in checkpoints, so that a new field needs a default."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.facts.nodes import (
    CapacityBufferSeen,
    ExpanderPrioritiesSeen,
    InstanceInterruptionNoticed,
    NodeDetailsChanged,
    NodeGroupSeen,
    NodeTemplateSeen,
)
from schemas.facts.scheduled_pods import PodShapeSeen
from schemas.names import Place

READY = "Ready"


@dataclass(frozen=True, slots=True)
class KnownNode:
    """The newest fact about a node, and its place in the log."""

    fact: NodeDetailsChanged
    place: Place
    unready: float | None = None  # Since when, in seconds, it is not ready.
    first: float = 0.0  # Since when it is known.

    @property
    def ready(self) -> bool:
        """Whether its kubelet reports that it is ready."""
        return self.fact.conditions.get(READY) == "True"


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """The newest fact about a node group, and its place in the log."""

    fact: NodeGroupSeen
    place: Place


@dataclass(frozen=True, slots=True)
class LearnedPattern:
    """The newest node of a group that was in good order, which may be gone, and what its group was then."""

    node: NodeDetailsChanged
    instance_type: str = ""
    launch_version: str = ""
    template: NodeTemplateSeen | None = None
    pods: tuple[PodShapeSeen, ...] = ()  # Those that belong to the node itself.
    expected: NodeTemplateSeen | None = None  # How the node was expected to look before it came.
    # It was started from another version than the group's next one.
    drifted: bool = False
    trusted: bool = False  # Its cloud is believed once more, though the node came otherwise than it says.
    vain: int = 0  # How often in a row that was in vain.


@dataclass(frozen=True, slots=True)
class KnownPriorities:
    """The newest fact about the priority expander's ConfigMap, and its place in the log."""

    fact: ExpanderPrioritiesSeen
    place: Place


@dataclass(frozen=True, slots=True)
class KnownBuffer:
    """The newest fact about a CapacityBuffer, its place in the log, and since when, in seconds, it wants what it wants."""

    fact: CapacityBufferSeen
    place: Place
    since: float


@dataclass(frozen=True, slots=True)
class KnownNotice:
    """The cloud's last notice about an instance, and its place in the log."""

    fact: InstanceInterruptionNoticed
    place: Place


GROWTH = "growth"
"""The part of a key that says that it is about growth for a node that is replaced."""
SOFT = "soft"
"""The part of a plan's key that says that it is about a node's soft taint."""
SIZE = "size"
"""The part of a plan's key that says that a group is to want fewer nodes."""


def lowers(key: str) -> bool:
    """Whether the plan of this key lowers the size of its group: for a node or an instance that goes, or by itself."""
    return key.split("/", 2)[1] in ("node", SIZE)


@dataclass(frozen=True, slots=True)
class OpenNodePlan:
    """A plan about a group or a node without final outcome; `since` and `expires` are seconds."""

    id: str
    group: str
    since: float
    expires: float
    # The size of a group, and for a soft taint 1 where it is set and 0 where it goes.
    after: int = 0
    draining: bool = False
    done: bool = False  # It was carried out, but the facts do not show it yet.


@dataclass(frozen=True, slots=True)
class AskedExpander:
    """The last question to an external expander: its id, the groups that it is about, and how long it counts."""

    id: str
    groups: tuple[str, ...]
    since: float  # Seconds.
    until: float
    kept: tuple[str, ...] = ()  # The groups that the answer names, once there is one.
    failed: str = ""  # Why there is no answer that could be used.
    place: Place | None = None  # Where the answer stands.

    @property
    def open(self) -> bool:
        """Whether the answer is still awaited."""
        return not self.kept and not self.failed


@dataclass(frozen=True, slots=True)
class PlannedReplicas:
    """How many replicas a workload should have, from when until when that counts, in seconds, and its place in the log."""

    replicas: int
    since: float
    expires: float
    place: Place


@dataclass(frozen=True, slots=True)
class RefusedShape:
    """A shape that gets no new node, and why: its namespace has too many rules between pods."""

    reason: str


@dataclass(frozen=True, slots=True)
class SaidLast:
    """The last refusal about something, which is only repeated when it changes."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class HaltSaid:
    """The trouble of a group, or of a cluster, that was said last, and when, in seconds."""

    code: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Attention:
    """What calls for a decision about a cluster. Seconds: the first and last undecided news, and the last look."""

    first: float | None = None
    last: float = 0.0
    looked: float = 0.0


NO_ATTENTION = Attention()


@dataclass(frozen=True, slots=True)
class StartedReplacement:
    """A group that grew by one so that nodes can go: its plan, the nodes, why they go, and when it was planned, in seconds."""

    plan: str
    group: str
    names: tuple[str, ...]
    reason: str
    since: float
    node: str = ""  # The one that came.
    # When that was ready first, or one of `names` was last seen going.
    ready: float | None = None
    # Prices of an hour, of those nodes and of the new one, where it is cheaper.
    before: float = 0.0
    after: float = 0.0
    failed: str = ""  # Why no node comes.


@dataclass(frozen=True, slots=True)
class ConsolidationTimers:
    """Seconds: since when a cheaper node could replace one, until when one rests, and until when one is not tried again."""

    since: Mapping[str, float] = field(default_factory=dict)
    resting: Mapping[str, float] = field(default_factory=dict)
    tried: Mapping[str, float] = field(default_factory=dict)


NO_TIMERS = ConsolidationTimers()
