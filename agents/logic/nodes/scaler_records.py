"""What the scaler's tables hold: frozen values whose fields stand in checkpoints, so that a new field needs a default."""

from dataclasses import dataclass

from schemas.facts.expander_priorities import ExpanderPrioritiesSeen
from schemas.facts.node_groups import InstanceInterruptionNoticed, NodeGroupSeen
from schemas.facts.nodes import NodeDetailsChanged
from schemas.names import Place

READY = "Ready"


@dataclass(frozen=True, slots=True)
class KnownNode:
    """The newest fact about a node, and its place in the log. `unready`: since when it is not ready, in seconds."""

    fact: NodeDetailsChanged
    place: Place
    unready: float | None = None

    @property
    def ready(self) -> bool:
        """Whether its kubelet says that it is ready."""
        return self.fact.conditions.get(READY) == "True"


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """The newest fact about a node group, and its place in the log."""

    fact: NodeGroupSeen
    place: Place


@dataclass(frozen=True, slots=True)
class KnownPriorities:
    """The newest fact about the priority expander's ConfigMap, and its place in the log."""

    fact: ExpanderPrioritiesSeen
    place: Place


@dataclass(frozen=True, slots=True)
class KnownNotice:
    """What the cloud announced last of an instance, and its place in the log."""

    fact: InstanceInterruptionNoticed
    place: Place


@dataclass(frozen=True, slots=True)
class OpenNodePlan:
    """A plan about a group or a node without final outcome; `since` and `expires` are seconds.

    `after` is the size of a group, and for a soft taint 1 where it is set and 0 where it goes.

    `done`: it was carried out, and the facts do not show it yet.
    """

    id: str
    group: str
    since: float
    expires: float
    after: int = 0
    draining: bool = False
    done: bool = False


@dataclass(frozen=True, slots=True)
class RefusedShape:
    """A shape that no node is to be made for, and why: its namespace has too many rules between pods."""

    reason: str


@dataclass(frozen=True, slots=True)
class SaidLast:
    """What was said last about something: said again only when it changes."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Attention:
    """What calls for a decision about a cluster. Seconds: the first and last news that is not decided on, and the last look."""

    first: float | None = None
    last: float = 0.0
    looked: float = 0.0


NO_ATTENTION = Attention()
