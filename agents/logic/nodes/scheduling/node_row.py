"""A node of a decision, with the pods on it: the one form in which growth, removal and the state of groups look at a node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.nodes.scheduling.node_columns import Row
from agents.logic.nodes.scheduling.pod_scheduling_needs import SchedulablePod
from agents.logic.nodes.scheduling.pod_shapes import SchedulingNode
from schemas.well_known_labels import NODE_OPT_OUTS, opted_out


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node; times in seconds since the epoch."""

    row: Row  # Its place among the decision's nodes.
    node: SchedulingNode
    group: str  # Empty for one that is not ours.
    pods: Sequence[SchedulablePod]
    created: float
    ready: bool = True
    suspended: bool = False
    gone: bool = False  # Its instance is.
    deleting: float | None = None  # Since when it is being deleted, by our plan or by its taint.
    draining: bool = False  # It is being deleted, and it is not empty.
    soft_tainted: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    gpu: str = ""
    # It is new and lacks a device that nodes of its group have, so that one of them is still on its way.
    incomplete: bool = False

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def disabled(self) -> bool:
        """Whether its annotations forbid to remove it."""
        return bool(opted_out(self.annotations, NODE_OPT_OUTS))
