"""A node group of a decision: the one form in which growth, removal and the state of groups look at a group."""

from dataclasses import dataclass, field

from agents.logic.nodes.aws.group_options import GroupOptions
from agents.logic.nodes.growth.node_estimator import GroupTemplate


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group as its provider has it, and below `kept` what a decision has found out about it.

    `template` is None if it is unknown how its next node would look. `sources` are what its nodes can come from: backed off all
    of them, so is the group. `stopped`: why its cloud starts no node of it, whatever it is asked for. `kept`: why it ends none.
    """

    name: str
    least: int
    most: int
    target: int
    """The nodes that it wants; once a decision has judged it, without those that its cloud failed to deliver."""
    template: GroupTemplate | None = None
    options: GroupOptions = field(default_factory=GroupOptions)
    gpu: bool = False
    sources: tuple[str, ...] = ()
    stopped: str = ""
    kept: str = ""
    healthy: bool = True
    backed_off: bool = False
    out: bool = False
    """Whether it is left alone, because too many of its nodes are not ready."""
    stumbled: bool = False
    """Whether a node of it could not be removed a short while ago."""
    grew: bool = False
    """Whether it grew so short a while ago that no node of it goes yet."""
    deleting: int = 0
    """How many of its nodes are being deleted."""
