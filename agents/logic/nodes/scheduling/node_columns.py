"""Nodes in columns, and which of them suit a shape of pods by themselves: by name, cordon, taints, labels.

Nothing here depends on the pods that a node carries, so an answer about a node holds for as long as the node is there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from agents.logic.nodes.scheduling.pod_shapes import (
    HARD,
    UNSCHEDULABLE_TAINT,
    NodeTerm,
    Pairs,
    PodShape,
    SchedulablePod,
    SchedulingNode,
    Taint,
    Toleration,
)
from agents.logic.nodes.scheduling.scheduling_selectors import equals
from agents.logic.nodes.scheduling.topology_counts import Counts, EligibleNodes, LabelTable, Mask, grown
from schemas.well_known_labels import NODE_OPT_OUTS, opted_out

Row = int
ShapeId = int
DemandId = int
Demand = tuple[Pairs, tuple[NodeTerm, ...] | None, tuple[Toleration, ...], str]
"""What a pod demands of a node that no other pod has a say in, but for amounts, ports and volumes."""


class NodeColumns:
    """The nodes, in rows, and what each of them has to say to a pod by itself."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.nodes: list[SchedulingNode] = []
        self.labels = LabelTable()
        self._demands: dict[Demand, DemandId] = {}
        self._suited: list[Mask] = []
        """By demand: which rows meet it, as far as they were looked at."""
        self._cordoned: Mask = np.zeros(64, np.bool_)
        self._tainted: dict[tuple[Taint, ...], int] = {}
        self._taints: Counts = np.zeros(64, np.int64)

    def add(self, nodes: Sequence[SchedulingNode]) -> None:
        """Nodes in the rows that follow the last one."""
        start, stop = self.size, self.size + len(nodes)
        self._cordoned = grown(self._cordoned, stop)  # type: ignore[assignment]  # grown keeps the dtype
        self._taints = grown(self._taints, stop)  # type: ignore[assignment]  # grown keeps the dtype
        self._cordoned[start:stop] = [node.unschedulable for node in nodes]
        self._taints[start:stop] = [self._tainted.setdefault(node.taints, len(self._tainted)) for node in nodes]
        self.names += [node.name for node in nodes]
        self.nodes += nodes
        self.labels.add_all([dict(node.labels) for node in nodes])

    def cut(self, rows: int) -> None:
        """Forget all rows from `rows` on."""
        del self.names[rows:], self.nodes[rows:]
        self.labels.cut(rows)
        self._suited = [mask[:rows] for mask in self._suited]

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.names)

    @property
    def all(self) -> slice:
        """All rows."""
        return slice(0, len(self.names))

    def tolerated(self, tolerations: tuple[Toleration, ...], rows: slice) -> Mask:
        """Rows without a taint that keeps such a pod away."""
        # A verdict for each set of taints and not for each node, because nodes share few sets.
        verdicts = [tolerates(tolerations, taints) for taints in self._tainted]
        result: Mask = np.array(verdicts, np.bool_)[self._taints[: self.size][rows]]
        return result

    def selected(self, selector: Pairs, terms: tuple[NodeTerm, ...] | None, rows: slice) -> Mask:
        """Rows that meet a node selector and required node affinity."""
        result = self.labels.meets(equals(dict(selector)).requirements, rows)
        if terms is not None:
            any_of = np.zeros(len(result), np.bool_)
            for term in terms:
                # The terms are ORed, and one without demands takes no node, as in Kubernetes.
                if not term.void:
                    any_of |= self._meets(term, rows)
            result &= any_of
        return result

    def _meets(self, term: NodeTerm, rows: slice) -> Mask:
        result = self.labels.meets(term.expressions, rows)
        for demand in term.names:
            result &= np.array([demand.accepts(name) for name in self.names[rows]], np.bool_)
        return result

    def demand(self, shape: PodShape) -> DemandId:
        """The number of what a shape demands of a node by itself; shapes that demand the same share it."""
        demand = (shape.node_selector, shape.node_terms, shape.tolerations, shape.node_name)
        number = self._demands.setdefault(demand, len(self._suited))
        if number == len(self._suited):
            self._suited.append(np.zeros(0, np.bool_))
        return number

    def suited(self, demand: DemandId, shape: PodShape) -> Mask:
        """Rows that suit a shape, whose `demand` it is, as far as nodes alone decide it: name, cordon, taints, labels."""
        mask = self._suited[demand]
        # Nothing here depends on pods, so that an answer about a row holds as long as the row is there.
        if len(mask) < self.size:
            rows = slice(len(mask), self.size)
            new = self.named(shape, rows) & self.uncordoned(shape, rows) & self.tolerated(shape.tolerations, rows)
            new &= self.selected(shape.node_selector, shape.node_terms, rows)
            mask = self._suited[demand] = np.concatenate((mask, new)) if len(mask) else new
        return mask

    def named(self, shape: PodShape, rows: slice) -> Mask:
        """Rows with the name that the pod asks for, if it asks for one."""
        if not shape.node_name:
            return np.ones(len(range(*rows.indices(self.size))), np.bool_)
        return np.array([name == shape.node_name for name in self.names[rows]], np.bool_)

    def uncordoned(self, shape: PodShape, rows: slice) -> Mask:
        """Rows that are not cordoned, or whose cordon the pod tolerates."""
        if tolerates(shape.tolerations, (Taint(UNSCHEDULABLE_TAINT, "", HARD[0]),)):
            return np.ones(len(range(*rows.indices(self.size))), np.bool_)
        result: Mask = ~self._cordoned[: self.size][rows]
        return result

    def eligible(self, rule: EligibleNodes, rows: slice) -> Mask:
        """Rows that a spread constraint counts."""
        result = np.ones(len(range(*rows.indices(self.size))), np.bool_)
        for key in rule.keys:
            result &= self.labels.column(key).ids[rows] >= 0
        if rule.node_selector is not None:
            result &= self.selected(rule.node_selector, rule.node_terms, rows)
        if rule.tolerations is not None:
            result &= self.tolerated(rule.tolerations, rows)
        return result


def tolerates(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether every taint that keeps pods away is tolerated."""
    return all(any(toleration.tolerates(taint) for toleration in tolerations) for taint in taints if taint.effect in HARD)


# A node of a decision, with the pods on it: the one form in which growth, removal and the state of groups look at a node.


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
