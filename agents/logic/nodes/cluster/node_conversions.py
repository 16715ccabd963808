"""Nodes as decisions compute with them, made once for each fact: a large cluster's nodes rarely change between two decisions.

It follows from the facts alone, so it is no state, and it forgets a node with its fact.
"""

from dataclasses import dataclass

from agents.engine.tables.object_table import ObjectTable
from agents.logic.nodes.cluster import fact_conversion
from agents.logic.nodes.cluster.scaler_table_values import KnownNode
from agents.logic.nodes.scheduling.pod_shapes import SchedulingNode
from schemas import times
from schemas.facts.nodes import NodeDetailsChanged
from schemas.well_known_labels import TO_BE_DELETED


@dataclass(frozen=True, slots=True)
class ConvertedNode:
    """What follows from a node's fact. Seconds since the epoch: `created`, and `leaving`, which is None without that taint."""

    fact: NodeDetailsChanged
    node: SchedulingNode
    created: float
    leaving: float | None
    soft_tainted: bool
    gpu: str


class NodeConversions:
    """By the key of a node, which is its cluster and name."""

    def __init__(self) -> None:
        self._made: dict[str, ConvertedNode] = {}

    def of(self, key: str, fact: NodeDetailsChanged) -> ConvertedNode:
        """A node by the newest fact about it."""
        made = self._made.get(key)
        # By identity: the table has the same object until a new fact comes.
        if made is None or made.fact is not fact:
            made = self._made[key] = _converted(fact)
        return made

    def forget(self, present: ObjectTable[KnownNode]) -> None:
        """Forget all nodes but these."""
        for key in [key for key in self._made if key not in present]:
            del self._made[key]


def _converted(fact: NodeDetailsChanged) -> ConvertedNode:
    made = fact_conversion.node(fact)
    taint = next((taint for taint in fact.taints if taint.key == TO_BE_DELETED), None)
    return ConvertedNode(
        fact,
        made,
        times.to_seconds(fact.created),
        None if taint is None else _seconds(taint.value),
        fact_conversion.soft_tainted(fact),
        fact_conversion.gpu(made),
    )


def _seconds(text: str) -> float:
    """The time that the taint of a deletion carries; long ago if it carries none."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < len("9999999999999") else 0.0
