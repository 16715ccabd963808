"""The nodes of clusters, and which of them a pod would fit best.

A pod must fit one node, so nodes are compared as a whole and not resource by resource: a node only counts if no other one has as
much of both.

Whoever may write these facts could say that all nodes are tiny or gone, and so lower what is recommended. So a node counts as it
was until the log has said otherwise for six hours, without a word that it is as large as before.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.engine.tables.row_table import Floats, Indices, RowKey
from agents.engine.turn import Recorded
from agents.logic.usage.pod_index import PodIndex
from agents.logic.vertical.container_index import MemberSelection
from agents.logic.vertical.estimate_rules import MILLI
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.names import Place, cluster_of

# Twice the time after which the source says again what each node has, so that a true word refutes a false one before it counts.
DOUBTED_FOR = 6 * 3_600_000


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """What a node has for pods, and the place of that fact."""

    name: str
    cpu: float
    memory: float
    place: Place


@dataclass(frozen=True, slots=True)
class CountedNode:
    """A node as it counts, and what the log says of it otherwise."""

    room: NodeRoom
    doubted: int | None = None
    """Since which turn the log says without a break that it is smaller, or gone."""
    rest: NodeRoom | None = None
    """What it then has; None: it is gone."""


@dataclass(frozen=True, slots=True)
class NodesGrown:
    """The last turn in which another node became the largest of a cluster."""

    turn: int


class NodeIndex:
    """The nodes of all clusters in a partition's facts."""

    def __init__(self) -> None:
        self.table: ObjectTable[CountedNode] = ObjectTable("nodes", CountedNode, 16)
        self.grown: ObjectTable[NodesGrown] = ObjectTable("grown", NodesGrown, 1)
        self._largest: dict[str, tuple[NodeRoom, ...]] | None = None

    def tables(self) -> tuple[StatePart, ...]:
        """All tables."""
        return (self.table, self.grown)

    def ingest(self, records: Sequence[Recorded], turn: int) -> None:
        """Take the records of a turn in. A node that never had CPU and memory is ignored."""
        if not records:
            return
        clusters = set()
        before = self._known()
        for recorded in records:
            event = recorded.event
            if isinstance(event, NodeChanged):
                cpu, memory = event.allocatable.cpu, event.allocatable.memory
                # A node that has not reported its amounts yet has room for nothing.
                room = NodeRoom(event.node, float(cpu), float(memory), recorded.place) if cpu and memory else None
                clusters |= self._hear(event, room, turn)
            elif isinstance(event, NodeRemoved):
                clusters |= self._hear(event, None, turn)
        clusters |= self._settle(turn)
        if not clusters:
            return
        self._largest = None
        for cluster in sorted(clusters):
            if _sizes(self.largest(cluster)) != _sizes(before.get(cluster, ())):
                self.grown.upsert(cluster, NodesGrown(turn))

    def largest(self, cluster: str) -> tuple[NodeRoom, ...]:
        """The nodes that no other one equals in both resources, by falling CPU; among equal ones the first by name."""
        return self._known().get(cluster, ())

    def grown_since(self, turn: int) -> set[str]:
        """Clusters whose largest nodes have changed since this turn."""
        return {cluster for cluster, grown in self.grown.items() if grown.turn >= turn}

    def loaded(self) -> None:
        """The tables were loaded: what follows from them is to be made again."""
        self._largest = None

    def _hear(self, event: NodeChanged | NodeRemoved, said: NodeRoom | None, turn: int) -> set[str]:
        """Take in what a node is said to have, None for one that is gone; the cluster, if that counts at once."""
        key = f"{event.cluster}/{event.node}"
        old = self.table.get(key)
        if old is None:
            if said is None:
                return set()
        elif said is None or said.cpu < old.room.cpu or said.memory < old.room.memory:
            # Another word than before begins the time again, because it must have been the same for all of it.
            if old.doubted is None or _size(said) != _size(old.rest):
                self.table.upsert(key, CountedNode(old.room, turn, said))
            return set()
        elif _size(said) == _size(old.room):
            if old.doubted is not None:
                self.table.upsert(key, CountedNode(old.room))
            return set()
        # A node counts until it is removed: cordons and reboots pass, and a cap that followed them would move pods for nothing.
        self.table.upsert(key, CountedNode(said))
        return {event.cluster}

    def _settle(self, turn: int) -> set[str]:
        """Believe what was said for long enough; the clusters whose nodes changed by that."""
        # The source reports itself each half minute, so that this is looked at in time.
        settled = {
            key: node for key, node in self.table.items() if node.doubted is not None and turn - node.doubted >= DOUBTED_FOR
        }
        for key, node in settled.items():
            if node.rest is None:
                self.table.remove(key)
            else:
                self.table.upsert(key, CountedNode(node.rest))
        return {cluster_of(key) for key in settled}

    def _known(self) -> dict[str, tuple[NodeRoom, ...]]:
        if self._largest is None:
            of: dict[str, list[NodeRoom]] = {}
            for key, node in self.table.items():
                of.setdefault(cluster_of(key), []).append(node.room)
            self._largest = {cluster: _unmatched(nodes) for cluster, nodes in of.items()}
        return self._largest


def _unmatched(nodes: list[NodeRoom]) -> tuple[NodeRoom, ...]:
    largest: list[NodeRoom] = []
    for node in sorted(nodes, key=lambda node: (-node.cpu, -node.memory, node.name)):
        if not largest or node.memory > largest[-1].memory:
            largest.append(node)
    return tuple(largest)


def _size(node: NodeRoom | None) -> tuple[float, float] | None:
    return None if node is None else (node.cpu, node.memory)


def _sizes(nodes: tuple[NodeRoom, ...]) -> list[tuple[float, float] | None]:
    return [_size(node) for node in nodes]


_RESOURCES = 2


@dataclass(frozen=True, slots=True)
class NodeFit:
    """By pod: the node that it was compared with, None if its cluster has none, and its amounts before."""

    pods: Indices
    """The pod of each row of amounts."""
    nodes: Sequence[NodeRoom | None]
    sums: Floats
    """Lower, target and upper millicores, then bytes."""
    beyond: NDArray[np.bool_]
    """Whether a pod's amounts exceed its node."""

    def node(self, row: int) -> NodeRoom | None:
        """The node that the pod of a row of amounts was cut down to; None for a pod that fits."""
        pod = int(self.pods[row])
        return self.nodes[pod] if self.beyond[pod] else None


def fit(amounts: Floats, these: MemberSelection, nodes: NodeIndex, pods_known: PodIndex) -> tuple[Floats, NodeFit]:
    """The amounts of these members, cut so that those of one pod together fit a node, and how they were cut.

    amount * allocatable / sum, cut to a whole number, where the sum of a pod is more; NaN counts as nothing.
    """
    first = np.diff(these.workload, prepend=-1) != 0  # of its pod: those of a workload stand together
    pods = np.cumsum(first) - 1
    workloads = [these.names[member][0] for member in these.members[first].tolist()]
    wanted = np.nan_to_num(amounts)
    columns = [np.bincount(pods, weights=column, minlength=len(workloads)) for column in wanted.T]
    sums = np.asarray(np.column_stack(columns), np.float64)
    clusters = list(map(cluster_of, workloads))
    chosen, room = _choose(sums, clusters, nodes)
    beyond = np.flatnonzero((sums > room).any(axis=1)).tolist()
    if beyond:
        containers = [these.names[member] for member in these.members.tolist()]
        # By workload once, for nodes that are called tiny make this a matter of all workloads.
        rows = np.split(np.argsort(pods, kind="stable"), np.cumsum(np.bincount(pods))[:-1])
        for number in beyond:
            if kinds := pods_known.kinds(workloads[number]):
                sums[number] = _most_together(wanted, rows[number], containers, kinds)
        chosen, room = _choose(sums, clusters, nodes)
    with np.errstate(divide="ignore", invalid="ignore"):
        # All containers alike, so that the pod keeps its proportions.
        cut = np.trunc(amounts * room[pods] / sums[pods])
    exceeding = sums > room
    return np.where(exceeding[pods], cut, amounts), NodeFit(pods, chosen, sums, np.asarray(exceeding.any(axis=1)))


def _most_together(wanted: Floats, rows: Indices, containers: Sequence[RowKey], kinds: Iterable[Collection[str]]) -> Floats:
    """The most of each amount that a pod of one of these kinds has, each of which names the containers that run together."""
    # Usage of a container outlives it by days, and during a rollout some pods have others: neither may take room from those that
    # are not beside it.
    names = [containers[row][1] for row in rows.tolist()]
    return np.asarray(np.max([wanted[rows[[name in kind for name in names]]].sum(axis=0) for kind in kinds], axis=0))


def _choose(sums: Floats, clusters: Sequence[str], nodes: NodeIndex) -> tuple[list[NodeRoom | None], Floats]:
    """The node for each pod, and what it has, in the columns of sums: infinity where the cluster has no node."""
    chosen: list[NodeRoom | None] = [None] * len(clusters)
    rooms = np.full(sums.shape, np.inf)
    for cluster in sorted(set(clusters)):
        largest = nodes.largest(cluster)
        if not largest:
            continue
        here = np.array([place for place, name in enumerate(clusters) if name == cluster])
        room = np.array([_room(node) for node in largest])
        target, upper = (_share(sums[here][:, places], room) for places in ((1, 4), (2, 5)))
        # The node that cuts the target least; among equal ones that which cuts the upper bound least.
        best = np.where(target == target.max(axis=1, keepdims=True), upper, -1.0).argmax(axis=1)
        for place, node in zip(here.tolist(), best.tolist(), strict=True):
            chosen[place] = largest[node]
        rooms[here] = room[best].repeat(sums.shape[1] // _RESOURCES, axis=1)
    return chosen, rooms


def _share(wanted: Floats, room: Floats) -> Floats:
    """What part of itself each pod (line) would get on each node (column), by the resource that is cut more."""
    with np.errstate(divide="ignore"):
        parts = room[None, :, :] / wanted[:, None, :]
    return np.asarray(np.minimum(parts, 1.0).min(axis=2))


def _room(node: NodeRoom) -> tuple[float, float]:
    return node.cpu * MILLI, node.memory
