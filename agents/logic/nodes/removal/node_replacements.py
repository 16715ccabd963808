"""How nodes that are needed are replaced: which of them can go, because their pods find room, and whose group must grow first."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.nodes.growth import node_estimator
from agents.logic.nodes.growth.node_estimator import GroupRow, GroupTemplate
from agents.logic.nodes.removal.consolidation import ConsolidationRequest
from agents.logic.nodes.removal.drain_rules import DrainContext
from agents.logic.nodes.removal.unneeded_nodes import (
    ScaleDown,
    ScaleDownChoice,
    StayingNode,
    StayReason,
    UnneededNode,
)
from agents.logic.nodes.scheduling.node_columns import NodeRow, Row
from agents.logic.nodes.scheduling.pod_shapes import recreated
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster


@dataclass(frozen=True, slots=True)
class ReplacementRequest:
    """The nodes to replace, in this order, those that leave the cluster at once, and how many more drains may begin."""

    names: Sequence[str] = ()
    leaving: Collection[str] = ()
    room: int = 0
    started: Collection[str] = ()  # Nodes for which a group grew already.
    held: Collection[str] = ()  # Nodes that came for these, which scale-down ignores.
    # What is asked about nodes that a cheaper one could replace, if anything.
    cheaper: ConsolidationRequest | None = None


NOTHING = ReplacementRequest()


@dataclass(slots=True)
class Replacements:
    """Nodes that can go, groups that must grow by one before one can (with that node), and nodes that cannot, with the reason."""

    go: list[UnneededNode] = field(default_factory=list)
    start: dict[str, str] = field(default_factory=dict)
    kept: dict[str, StayingNode] = field(default_factory=dict)

    @property
    def targets(self) -> set[Row]:
        """The rows that the pods of the nodes that can go would move to."""
        return {row for going in self.go for row, _pods in going.moves}

    def give_way(self, chosen: ScaleDownChoice) -> None:
        """Give precedence to scale-down: drop nodes that it chose too, and those whose pods go to the same nodes."""
        names = {unneeded.node.name for unneeded in (*chosen.empty, *chosen.drain)}
        taken = {row for unneeded in chosen.drain for row, _pods in unneeded.moves}
        later = [going for going in self.go if going.node.row in taken or taken & {row for row, _pods in going.moves}]
        self.kept |= {going.node.name: StayingNode(StayReason.NO_TURN) for going in later}
        self.go = [going for going in self.go if going.node.name not in names and going not in later]


@dataclass(frozen=True, slots=True)
class GroupOffer:
    """How a new node of a group would look, and how many of its nodes may go."""

    template: GroupTemplate | None
    spare: int
    idle: Sequence[Row] = ()  # Its ready and empty nodes that no cordon closes.
    grows: bool = True  # It may grow now.
    coming: bool = False  # A node of it is on its way.


def offer(group: GroupRow, nodes: Sequence[NodeRow], *, grows: bool = True, coming: bool = False) -> GroupOffer:
    """What a group offers."""
    ready = [node for node in nodes if node.ready and node.deleting is None and node.group == group.name]
    idle = [node.row for node in ready if not node.node.unschedulable and not any(recreated(pod) for pod in node.pods)]
    # A group keeps its minimum of ready nodes, not only of wanted ones.
    spare = min(group.target - group.deleting, len(ready)) - group.least
    return GroupOffer(group.template, spare, idle, grows=grows and group.template is not None, coming=coming)


class _Search:
    """Looks at one node after the other, each against what the ones before it left."""

    def __init__(  # noqa: PLR0913, PLR0917  # what `find` is given
        self,
        down: ScaleDown,
        cluster: ScheduledCluster,
        wanted: Sequence[NodeRow],
        groups: Mapping[str, GroupOffer],
        scene: DrainContext,
        room: int,
        started: Collection[str],
    ) -> None:
        self.down, self.cluster, self.groups, self.scene, self.room = down, cluster, groups, scene, room
        self.started = started
        self.spare = {name: group.spare for name, group in groups.items()}
        self.wanted = {node.row for node in wanted}
        # Groups with a replacement on its way.
        self.coming = len({node.group for node in wanted if groups[node.group].coming})
        self.replacements = Replacements()

    def look(self, node: NodeRow) -> None:
        """Decide about a node."""
        replacements = self.replacements
        # No node goes that pods moved to. Without room one node is still looked for, so that what its pods wait for is kept.
        turn = len(replacements.go) < max(self.room, 1) and node.row not in replacements.targets
        if not turn or node.group in replacements.start:
            replacements.kept[node.name] = StayingNode(StayReason.NO_TURN)
            return
        mark = self.cluster.mark(openings=True)
        result = self.down.movable(self.cluster, node, self.scene)
        if isinstance(result, UnneededNode) and self.spare[node.group] > 0:
            replacements.go.append(result)
            self.spare[node.group] -= 1
            return
        fits = isinstance(result, UnneededNode)
        self.cluster.revert(mark)
        if node.name in self.started:
            # A group grew for it already.
            stay: StayingNode | None = StayingNode(StayReason.MIN_SIZE) if isinstance(result, UnneededNode) else result
        else:
            stay = self._growth(node, result, fits=fits)
        if stay is None:
            replacements.start[node.group] = node.name
        else:
            replacements.kept[node.name] = stay

    def _growth(self, node: NodeRow, result: UnneededNode | StayingNode, *, fits: bool) -> StayingNode | None:
        """Why a node's group does not grow for it; None if it does."""
        group = self.groups[node.group]
        # A ready node that takes pods and is empty does not help, and neither need the next one.
        idle = any(self.cluster.open[row] for row in group.idle if row not in self.wanted)
        if isinstance(result, StayingNode) and (result.reason is not StayReason.NO_PLACE or idle):
            return result
        if group.coming:
            return StayingNode(StayReason.COMING)
        if not fits and not self._would_fit(node):
            return StayingNode(StayReason.NO_PLACE)
        if not group.grows:
            return StayingNode(StayReason.NO_GROWTH)
        # A group grows only if the drain that it grows for could begin now.
        if len(self.replacements.go) + len(self.replacements.start) + self.coming >= self.room:
            return StayingNode(StayReason.NO_TURN)
        return None

    def _would_fit(self, node: NodeRow) -> bool:
        """Whether a node's pods would find room if its group had one new node more."""
        cluster, template = self.cluster, self.groups[node.group].template
        if template is None:
            return False
        mark = cluster.mark(openings=True)
        node_estimator.add(cluster, template)
        fits = isinstance(self.down.movable(cluster, node, self.scene), UnneededNode)
        cluster.revert(mark)
        return fits


def find(  # noqa: PLR0913  # what is known, and the request, by keyword
    down: ScaleDown,
    cluster: ScheduledCluster,
    wanted: Sequence[NodeRow],
    groups: Mapping[str, GroupOffer],
    scene: DrainContext,
    *,
    leaving: Collection[Row] = (),
    room: int = 1,
    started: Collection[str] = (),
) -> Replacements:
    """Look at these nodes in their order, one at a time of each group that must grow. The cluster is left as it was.

    No pod moves to a node that leaves or goes.
    """
    mark = cluster.mark(openings=True)
    cluster.open[list(leaving)] = False
    grouped = [node for node in wanted if node.group in groups]
    search = _Search(down, cluster, grouped, groups, scene, room, started)
    for node in grouped:
        search.look(node)
    cluster.revert(mark)
    return search.replacements
