"""How nodes that are needed are replaced: which of them can go, because their pods find room, and whose group must grow first."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.nodes.growth import node_estimator
from agents.logic.nodes.growth.group_row import GroupRow
from agents.logic.nodes.growth.node_estimator import GroupTemplate
from agents.logic.nodes.removal.consolidation import ConsolidationRequest
from agents.logic.nodes.removal.drain_rules import DrainContext
from agents.logic.nodes.removal.unneeded_nodes import (
    ScaleDown,
    ScaleDownChoice,
    StayingNode,
    StayReason,
    UnneededNode,
)
from agents.logic.nodes.scheduling.node_columns import Row
from agents.logic.nodes.scheduling.node_row import NodeRow
from agents.logic.nodes.scheduling.pod_scheduling_needs import recreated
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster


@dataclass(frozen=True, slots=True)
class ReplacementRequest:
    """The nodes to replace, in this order, those that leave the cluster at once, and how many more drains may begin.

    `started`: those for which a group grew already; `held`: the nodes that came for them, which scale-down ignores. `cheaper`:
    what is asked about nodes that a cheaper one could replace, if anything.
    """

    names: Sequence[str] = ()
    leaving: Collection[str] = ()
    room: int = 0
    started: Collection[str] = ()
    held: Collection[str] = ()
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
        return {row for one in self.go for row, _pods in one.moves}

    def give_way(self, chosen: ScaleDownChoice) -> None:
        """Give precedence to scale-down: drop nodes that it chose too, and those whose pods go to the same nodes."""
        names = {one.node.name for one in (*chosen.empty, *chosen.drain)}
        taken = {row for one in chosen.drain for row, _pods in one.moves}
        later = [one for one in self.go if one.node.row in taken or taken & {row for row, _pods in one.moves}]
        self.kept |= {one.node.name: StayingNode(StayReason.NO_TURN) for one in later}
        self.go = [one for one in self.go if one.node.name not in names and one not in later]


@dataclass(frozen=True, slots=True)
class GroupOffer:
    """How a new node of a group would look, and how many of its nodes may go.

    `idle`: its ready and empty nodes that no cordon closes; `grows`: it may grow now; `coming`: a node of it is on its way.
    """

    template: GroupTemplate | None
    spare: int
    idle: Sequence[Row] = ()
    grows: bool = True
    coming: bool = False


def offer(group: GroupRow, nodes: Sequence[NodeRow], *, grows: bool = True, coming: bool = False) -> GroupOffer:
    """What a group offers: it keeps its minimum of ready nodes, not only of wanted ones."""
    ready = [node for node in nodes if node.ready and node.deleting is None and node.group == group.name]
    idle = [one.row for one in ready if not one.node.unschedulable and not any(recreated(pod) for pod in one.pods)]
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
        self.wanted = {one.row for one in wanted}
        self.coming = len({one.group for one in wanted if groups[one.group].coming})  # groups with a replacement on its way
        self.found = Replacements()

    def look(self, one: NodeRow) -> None:
        """Decide about a node."""
        found = self.found
        if len(found.go) >= max(self.room, 1) or one.row in found.targets or one.group in found.start:
            found.kept[one.name] = StayingNode(StayReason.NO_TURN)
            return
        mark = self.cluster.mark(openings=True)
        result = self.down.movable(self.cluster, one, self.scene)
        if isinstance(result, UnneededNode) and self.spare[one.group] > 0:
            found.go.append(result)
            self.spare[one.group] -= 1
            return
        fits = isinstance(result, UnneededNode)
        self.cluster.revert(mark)
        if one.name in self.started:
            stay: StayingNode | None = StayingNode(StayReason.MIN_SIZE) if isinstance(result, UnneededNode) else result
        else:
            stay = self._growth(one, result, fits=fits)
        if stay is None:
            found.start[one.group] = one.name
        else:
            found.kept[one.name] = stay

    def _growth(self, one: NodeRow, result: UnneededNode | StayingNode, *, fits: bool) -> StayingNode | None:
        """Why a node's group does not grow for it; None if it does."""
        group = self.groups[one.group]
        idle = any(self.cluster.open[row] for row in group.idle if row not in self.wanted)
        if isinstance(result, StayingNode) and (result.reason is not StayReason.NO_PLACE or idle):
            return result
        if group.coming:
            return StayingNode(StayReason.COMING)
        if not fits and not self._would_fit(one):
            return StayingNode(StayReason.NO_PLACE)
        if not group.grows:
            return StayingNode(StayReason.NO_GROWTH)
        if len(self.found.go) + len(self.found.start) + self.coming >= self.room:
            return StayingNode(StayReason.NO_TURN)
        return None

    def _would_fit(self, one: NodeRow) -> bool:
        """Whether a node's pods would find room if its group had one new node more."""
        cluster, template = self.cluster, self.groups[one.group].template
        if template is None:
            return False
        mark = cluster.mark(openings=True)
        node_estimator.add(cluster, template)
        fits = isinstance(self.down.movable(cluster, one, self.scene), UnneededNode)
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

    No pod moves to a node that leaves or goes, and no node goes that pods moved to. A group grows only if the drain that it
    grows for could begin now; for lack of room only while each of its ready nodes that take pods and stay carries something:
    an empty one does not help, and neither need the next one. Without `room` one node is still looked for, so that what its
    pods wait for is kept. No group grows for a node that is `started`: one did.
    """
    mark = cluster.mark(openings=True)
    cluster.open[list(leaving)] = False
    known = [one for one in wanted if one.group in groups]
    search = _Search(down, cluster, known, groups, scene, room, started)
    for one in known:
        search.look(one)
    cluster.revert(mark)
    return search.found
