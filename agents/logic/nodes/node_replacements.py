"""How nodes that are needed are replaced: which of them can go, because their pods find room, and whose group must grow first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.nodes import scale_up
from agents.logic.nodes.drain_rules import DrainContext
from agents.logic.nodes.node_estimator import GroupTemplate
from agents.logic.nodes.pod_scheduling_needs import recreated
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from agents.logic.nodes.unneeded_nodes import GroupSize, ScaleDown, ScaleDownNode, StayingNode, StayReason, UnneededNode


@dataclass(slots=True)
class Replacements:
    """Nodes that can go, groups that must grow by one before one can (with that node), and nodes that cannot, with the reason."""

    go: list[UnneededNode] = field(default_factory=list)
    start: dict[str, str] = field(default_factory=dict)
    kept: dict[str, StayingNode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupOffer:
    """How a new node of a group would look, how many of its nodes may go, and whether one is ready and empty."""

    template: GroupTemplate | None
    spare: int
    idle: bool = False


def offer(group: str, template: GroupTemplate | None, size: GroupSize, nodes: Sequence[ScaleDownNode]) -> GroupOffer:
    """What a group offers: it keeps its minimum of ready nodes, not only of wanted ones."""
    ready = [one for one in nodes if one.ready and one.deleting is None and one.group == group]
    idle = any(not any(recreated(pod) for pod in one.pods) for one in ready)
    return GroupOffer(template, min(size.target - size.deleting, len(ready)) - size.least, idle)


def find(
    down: ScaleDown,
    cluster: ScheduledCluster,
    wanted: Sequence[ScaleDownNode],
    groups: Mapping[str, GroupOffer],
    scene: DrainContext,
) -> Replacements:
    """Look at these nodes in their order, one at a time of each group that must grow. The cluster is left as it was.

    For want of room a group grows only while each of its ready nodes carries something: an empty one does not help, and neither
    need the next one.
    """
    found = Replacements()
    spare = {name: group.spare for name, group in groups.items()}
    mark, opened = cluster.mark(), cluster.open.copy()
    for one in wanted:
        if one.group not in groups or one.group in found.start:
            continue
        result = down.movable(cluster, one, scene)
        if isinstance(result, UnneededNode) and spare[one.group] > 0:
            found.go.append(result)
            spare[one.group] -= 1
        elif isinstance(result, UnneededNode) or (
            result.reason is StayReason.NO_PLACE
            and not groups[one.group].idle
            and _would_fit(down, cluster, groups[one.group].template, one, scene=scene)
        ):
            found.start[one.group] = one.name
        else:
            found.kept[one.name] = result
    cluster.revert(mark)
    cluster.open[: len(opened)] = opened[: len(cluster.open)]
    return found


def _would_fit(
    down: ScaleDown, cluster: ScheduledCluster, template: GroupTemplate | None, one: ScaleDownNode, *, scene: DrainContext
) -> bool:
    """Whether a node's pods would find room if its group had one new node more."""
    if template is None:
        return False
    mark, opened = cluster.mark(), cluster.open.copy()
    scale_up.add(cluster, template)
    fits = isinstance(down.movable(cluster, one, scene), UnneededNode)
    cluster.revert(mark)
    cluster.open[: len(opened)] = opened[: len(cluster.open)]
    return fits
