"""The nodes of clusters, and which of them a pod would fit best.

A pod must fit one node, so nodes are compared as they are and not resource by resource: only such count of which no other has
as much of both. Cordons and reboots pass, so a node counts until it is removed; what else runs on it is not taken off.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.engine.tables.object_table import Table
from agents.engine.tables.parts import Part
from agents.engine.turn import Recorded
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.names import Place, cluster_of


@dataclass(frozen=True, slots=True)
class Node:
    """What a node has for pods, and where that was said."""

    name: str
    cpu: float
    memory: float
    place: Place


@dataclass(frozen=True, slots=True)
class Grown:
    """The last turn in which another node became the largest of a cluster."""

    turn: int


class Nodes:
    """The nodes of all clusters that a partition was told of."""

    def __init__(self) -> None:
        self.table: Table[Node] = Table("nodes", Node, 16)
        self.grown: Table[Grown] = Table("grown", Grown, 1)
        self._largest: dict[str, tuple[Node, ...]] | None = None

    def tables(self) -> tuple[Part, ...]:
        """All tables."""
        return (self.table, self.grown)

    def take(self, records: Iterable[Recorded], turn: int) -> None:
        """Take what was said of nodes in a turn. A node that has no CPU or no memory, or does not say, is none."""
        clusters = set()
        before = self._known()
        for recorded in records:
            event = recorded.event
            if isinstance(event, NodeChanged):
                clusters |= self._put(event, recorded.place)
            elif isinstance(event, NodeRemoved) and self.table.drop(f"{event.cluster}/{event.node}"):
                clusters.add(event.cluster)
        if not clusters:
            return
        self._largest = None
        for cluster in sorted(clusters):
            if _sizes(self.largest(cluster)) != _sizes(before.get(cluster, ())):
                self.grown.put(cluster, Grown(turn))

    def largest(self, cluster: str) -> tuple[Node, ...]:
        """The nodes of which no other has as much of both resources, by falling CPU; of equal ones the first by name."""
        return self._known().get(cluster, ())

    def grown_since(self, turn: int) -> set[str]:
        """Clusters whose largest nodes are others since this turn."""
        return {cluster for cluster, grown in self.grown.items() if grown.turn >= turn}

    def loaded(self) -> None:
        """The tables were loaded: what follows from them is to be made again."""
        self._largest = None

    def _put(self, event: NodeChanged, place: Place) -> set[str]:
        key, cpu, memory = f"{event.cluster}/{event.node}", event.allocatable.cpu, event.allocatable.memory
        old = self.table.get(key)
        if not cpu or not memory:
            return {event.cluster} if self.table.drop(key) else set()
        if old is not None and (old.cpu, old.memory) == (cpu, memory):
            return set()
        self.table.put(key, Node(event.node, float(cpu), float(memory), place))
        return {event.cluster}

    def _known(self) -> dict[str, tuple[Node, ...]]:
        if self._largest is None:
            of: dict[str, list[Node]] = {}
            for key, node in self.table.items():
                of.setdefault(cluster_of(key), []).append(node)
            self._largest = {cluster: _unmatched(nodes) for cluster, nodes in of.items()}
        return self._largest


def _unmatched(nodes: list[Node]) -> tuple[Node, ...]:
    found: list[Node] = []
    for node in sorted(nodes, key=lambda node: (-node.cpu, -node.memory, node.name)):
        if not found or node.memory > found[-1].memory:
            found.append(node)
    return tuple(found)


def _sizes(nodes: tuple[Node, ...]) -> list[tuple[float, float]]:
    return [(node.cpu, node.memory) for node in nodes]
