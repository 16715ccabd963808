"""Which nodes are not needed, since when, and which of them go now; for every other node the reason why it stays.

`look` simulates the removal of candidates one after the other, each on the result of those before it. Timers run in event time.
`choose` respects minima, timers and budgets. Source: core/scaledown (eligibility, planner, unneeded).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby, islice

import numpy as np

from agents.logic.nodes.aws.group_options import GroupOptions
from agents.logic.nodes.growth.node_estimator import GroupRow
from agents.logic.nodes.removal import drain_rules as draining
from agents.logic.nodes.removal import node_utilization
from agents.logic.nodes.removal.drain_rules import Blocking, DeletionParallelism, DrainContext, DrainedNode, RunningDeletions
from agents.logic.nodes.scheduling import affinity_limits, placement
from agents.logic.nodes.scheduling.node_columns import NodeRow, Row
from agents.logic.nodes.scheduling.pod_shapes import PodNature, SchedulablePod, is_daemon, is_mirror
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from agents.logic.nodes.scheduling.topology_counts import Counts
from schemas.pod_requests import CPU, MEMORY
from schemas.well_known_labels import is_leaving


class StayReason(StrEnum):
    """Why a node stays."""

    DISABLED = "ScaleDownDisabledAnnotation"
    SHARED = "InstanceShared"
    ASIDE = "InstanceInStandby"
    UNREADY_DISABLED = "ScaleDownUnreadyDisabled"
    NOT_AUTOSCALED = "NotAutoscaled"
    USED = "NotUnderutilized"
    NOT_LONG_ENOUGH = "NotUnneededLongEnough"
    NOT_UNREADY_LONG_ENOUGH = "NotUnreadyLongEnough"
    MIN_SIZE = "NodeGroupMinSizeReached"
    MAX_DELETIONS = "NodeGroupMaxDeletionCountReached"
    MINIMAL_RESOURCES = "MinimalResourceLimitExceeded"
    DELETING = "CurrentlyBeingDeleted"
    RECENT = "RecentlyUnremovable"
    OTHER = "NotUnneededOtherReason"
    NO_PLACE = "NoPlaceToMovePods"
    BLOCKED = "BlockedByPod"
    WAITING = "BlockedByOnCompletionPod"
    UNEXPECTED = "UnexpectedError"
    REPLACES = "ReplacesAnotherNode"
    NO_TURN = "ReplacedLater"
    NO_GROWTH = "ReplacementCannotStart"
    COMING = "ReplacementComing"
    TOO_OFTEN = "ReplacedTooOften"
    FITS = "FitsElsewhere"
    NOT_CHEAPER = "NoCheaperNode"
    JUST_REPLACED = "ReplacedRecently"
    NOT_READY = "NotReady"
    NO_PRICE = "NoPrice"
    GROUP_OUT = "NodeGroupUnhealthy"
    GROUP_KEPT = "NodeGroupKept"
    STUMBLED = "RemovalFailedInGroup"
    GREW = "NodeGroupGrewLately"


@dataclass(frozen=True, slots=True)
class StayingNode:
    """A node that stays: why, and the pod that keeps it, if any."""

    reason: StayReason
    pod: str = ""
    blocking: Blocking | None = None


@dataclass(frozen=True, slots=True)
class ScaleDownSettings:
    """Upstream's flags. `recheck`: seconds for which a failed simulation counts; `minima`: how much of a resource must stay."""

    unready_too: bool = True
    ignore_mirrors: bool = False
    recheck: float = 300.0  # Seconds for which a failed simulation counts.
    parallelism: DeletionParallelism = field(default_factory=DeletionParallelism)
    default: GroupOptions = field(default_factory=GroupOptions)
    minima: Mapping[str, int] = field(default_factory=dict)  # How much of a resource must stay.
    # A node that goes counts for no spread constraint that honours taints; upstream forgets the taint that it will have.
    tainted: bool = False
    # A node goes, too, whose pods find room only because their successors will ask for less.
    smaller: bool = False


@dataclass(frozen=True, slots=True)
class UnneededNode:
    """A node that could go: since when, what it drains, and which pods would go to which row."""

    node: NodeRow
    since: float
    drained: DrainedNode
    risky: bool
    moves: tuple[tuple[Row, list[SchedulablePod]], ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing has to move."""
        return self.drained.empty


@dataclass(slots=True)
class ScaleDownChoice:
    """The nodes that go now, and why the other unneeded ones wait."""

    empty: list[UnneededNode] = field(default_factory=list)
    drain: list[UnneededNode] = field(default_factory=list)
    waiting: dict[str, StayingNode] = field(default_factory=dict)


class ScaleDown:
    """Unneeded nodes with their timers, and nodes whose simulation failed lately."""

    def __init__(self, settings: ScaleDownSettings) -> None:
        self.settings = settings
        self.unneeded: dict[str, UnneededNode] = {}
        self.stays: dict[str, StayingNode] = {}
        # Unknown before the second look.
        self.interval = float("inf")
        self.failed: dict[str, float] = {}
        self.looked: float | None = None
        self.successors: Mapping[PodNature, PodNature] = {}

    def forget(self) -> None:
        """Restart all timers."""
        # What was observed while too many nodes were not ready cannot be trusted.
        self.unneeded.clear()

    def keep(self, rows: Collection[Row], nodes: Iterable[NodeRow]) -> None:
        """Mark nodes as needed, because pods of replaced nodes will move to them."""
        for node in nodes:
            if node.row in rows and self.unneeded.pop(node.name, None) is not None:
                self.stays[node.name] = StayingNode(StayReason.REPLACES)

    # Looking

    def look(
        self, cluster: ScheduledCluster, nodes: Sequence[NodeRow], groups: Mapping[str, GroupRow], scene: DrainContext
    ) -> None:
        """Find the nodes that are not needed. The cluster is left as it was, pending pods in it keep their places."""
        now = scene.now
        if self.looked is not None and now > self.looked:
            self.interval = min(self.interval, now - self.looked)
        self.looked = now
        self.failed = {name: until for name, until in self.failed.items() if until > now}
        self.stays = {}
        used = usage(cluster)
        able = [node for node in nodes if self._eligible(cluster, node, groups, used, now)]
        able.sort(key=self._first)
        mark = cluster.mark(openings=True)
        unneeded = self._simulate(cluster, able, scene, self._enough())
        cluster.revert(mark)
        self.unneeded = unneeded

    def _first(self, node: NodeRow) -> tuple[bool, bool]:
        """Empty nodes first, then those that were unneeded before."""
        natures = set(map(draining.NATURE, node.pods))
        moving = any(not is_mirror(nature.annotations) and not is_daemon(nature) for nature in natures)
        return moving, node.name not in self.unneeded

    def _enough(self) -> int:
        settings = self.settings
        interval = self.interval if self.interval < float("inf") else 0.0
        return draining.most_unneeded(len(self.unneeded), settings.parallelism.total, settings.default.unneeded, interval)

    def _eligible(
        self, cluster: ScheduledCluster, node: NodeRow, groups: Mapping[str, GroupRow], usage: Counts, now: float
    ) -> bool:
        stay = self._unfit(cluster, node, groups, usage, now)
        if stay is not None:
            self.stays[node.name] = stay
        return stay is None

    def _unfit(
        self, cluster: ScheduledCluster, node: NodeRow, groups: Mapping[str, GroupRow], usage: Counts, now: float
    ) -> StayingNode | None:
        """Why a node is not considered. Source: core/scaledown/eligibility."""
        group = groups.get(node.group)
        if group is not None and group.target <= group.least:
            return StayingNode(StayReason.MIN_SIZE)
        reasons = (
            (StayReason.GROUP_KEPT, group is not None and bool(group.kept)),
            (StayReason.GROUP_OUT, group is not None and group.out),
            (StayReason.RECENT, node.name in self.failed),
            (StayReason.DELETING, node.deleting is not None and is_leaving(node.deleting, now)),
            (StayReason.DISABLED, node.disabled),
            (StayReason.NOT_AUTOSCALED, group is None),
            (StayReason.UNREADY_DISABLED, not node.ready and not self.settings.unready_too),
        )
        reason = next((reason for reason, holds in reasons if holds), None)
        if reason is not None or group is None:
            return StayingNode(reason or StayReason.NOT_AUTOSCALED)
        return self._used(cluster, node, group.options, usage, now)

    def _used(
        self, cluster: ScheduledCluster, node: NodeRow, options: GroupOptions, usage: Counts, now: float
    ) -> StayingNode | None:
        """The node stays if too much of it is requested."""
        ignored = node_utilization.IgnoredPods(options.ignore_daemonsets, self.settings.ignore_mirrors)
        threshold = options.gpu_utilization_threshold if node.gpu else options.utilization_threshold
        # If no pod is left out, the columns have the answer, for all nodes at once.
        special = node.gpu or ignored.daemons or ignored.mirrors or not set(map(draining.DELETED, node.pods)) <= {None}
        share = float(usage[node.row])
        if special or not np.isfinite(share):
            try:
                share = node_utilization.of_node(cluster.columns.nodes[node.row], node.pods, ignored, now, gpu=node.gpu).highest
            except node_utilization.UtilizationError:
                return StayingNode(StayReason.UNEXPECTED)
        return StayingNode(StayReason.USED) if share > threshold else None

    # Simulating

    def _simulate(
        self, cluster: ScheduledCluster, nodes: Iterable[NodeRow], scene: DrainContext, enough: int
    ) -> dict[str, UnneededNode]:
        unneeded: dict[str, UnneededNode] = {}
        # Nodes are filled from the last one back: those that are looked at later are less likely to be emptied again.
        order = np.flatnonzero(cluster.open[: cluster.size])[::-1]
        arrived: dict[Row, list[SchedulablePod]] = {}
        spent = 0
        for node in nodes:
            costs = 0 if len(unneeded) >= enough else affinity_limits.total(node.pods)
            if len(unneeded) >= enough or (costs and spent and spent + costs > affinity_limits.MOST_STEPS):
                self.stays[node.name] = StayingNode(StayReason.OTHER)
                continue
            # Each of these pods is compared with all others, in each simulation of its node.
            spent += costs
            drained = draining.of_node((*node.pods, *arrived.get(node.row, ())), scene)
            if drained.blocker is not None:
                self._fail(node, StayingNode(StayReason.BLOCKED, drained.blocker.key, drained.reason), scene.now)
                continue
            moves = self._move(cluster, node, drained, order)
            if moves is None:
                self._fail(node, StayingNode(StayReason.NO_PLACE), scene.now)
                continue
            for row, pods in moves:
                arrived.setdefault(row, []).extend(pods)
            risky = not scene.budgets.allow_at_once(drained.move)
            scene.budgets.use(drained.move)
            before = self.unneeded.get(node.name)
            since = scene.now if before is None else before.since
            unneeded[node.name] = UnneededNode(node, since, drained, risky, tuple(moves))
        return unneeded

    def movable(self, cluster: ScheduledCluster, node: NodeRow, scene: DrainContext) -> UnneededNode | StayingNode:
        """What has to move off a needed node, and where to; or why it cannot. The cluster keeps the moves."""
        drained = draining.of_node(node.pods, scene)
        if drained.blocker is not None:
            return StayingNode(StayReason.BLOCKED, drained.blocker.key, drained.reason)
        if drained.wait:
            return StayingNode(StayReason.WAITING, drained.wait[0].key)
        moves = self._move(cluster, node, drained, np.flatnonzero(cluster.open[: cluster.size])[::-1])
        if moves is None:
            return StayingNode(StayReason.NO_PLACE)
        risky = not scene.budgets.allow_at_once(drained.move)
        scene.budgets.use(drained.move)
        return UnneededNode(node, scene.now, drained, risky, tuple(moves))

    def _fail(self, node: NodeRow, stay: StayingNode, now: float) -> None:
        self.stays[node.name] = stay
        self.failed[node.name] = now + self.settings.recheck

    def _move(
        self, cluster: ScheduledCluster, node: NodeRow, drained: DrainedNode, order: Counts
    ) -> list[tuple[Row, list[SchedulablePod]]] | None:
        """Place the pods that must move on other nodes, in this order; None if one of them finds no place."""
        mark = cluster.mark()
        was_open = bool(cluster.open[node.row])
        cluster.open[node.row] = False
        if self.settings.tainted:
            cluster.withdraw(node.row)
        waiting: dict[int, list[SchedulablePod]] = {}
        for nature, pods in _by_nature((*drained.move, *drained.wait)).items():
            shape, coming = cluster.shape(nature.shape), self.successors.get(nature, nature)
            # Where nobody counts such pods, it is enough that the row takes none any more.
            if not cluster.uncounted(shape):
                cluster.place(shape, node.row, -len(pods))
            back = pods if coming is nature else [replace(pod, nature=coming) for pod in pods]
            waiting.setdefault(cluster.shape(coming.shape), []).extend(back)
        moves: list[tuple[Row, list[SchedulablePod]]] = []
        for shape, pods in waiting.items():
            if len(pods) == 1 and cluster.plain(shape):
                row = placement.last(cluster, shape)
                rows, takes = np.array([row]), np.array([int(row != placement.NOWHERE)])
            else:
                rows, takes = placement.fill(cluster, shape, len(pods), None, order)
            if int(takes.sum()) < len(pods):
                cluster.revert(mark)
                # `revert` restores what was open only for a mark that has it, which would copy all rows for each node.
                cluster.open[node.row] = was_open
                return None
            left = iter(pods)
            moves += [(row, list(islice(left, number))) for row, number in zip(rows.tolist(), takes.tolist(), strict=True)]
        return moves

    # Choosing

    def choose(
        self, groups: Mapping[str, GroupRow], running: RunningDeletions, cluster: ScheduledCluster, now: float
    ) -> ScaleDownChoice:
        """The nodes that go now, empty ones first, then those that can be drained without using up a disruption budget."""
        choice = ScaleDownChoice()
        ranked = sorted(self.unneeded.values(), key=lambda unneeded: (not unneeded.empty, unneeded.risky))
        left = {name: group.target - group.least - group.deleting for name, group in groups.items()}
        spare = self._spare(cluster)
        ripe: list[UnneededNode] = []
        for unneeded in ranked:
            stay = self._held(unneeded, groups, left, spare, now)
            if stay is None:
                ripe.append(unneeded)
            else:
                choice.waiting[unneeded.node.name] = stay
        names = {unneeded.node.name: unneeded for unneeded in ripe}
        empty, drained = (tuple(name for name, unneeded in names.items() if unneeded.empty is kind) for kind in (True, False))
        chosen = draining.crop_to_parallelism(empty, drained, self.settings.parallelism, running)
        choice.empty, choice.drain = ([names[name] for name in some] for some in chosen)
        going = {*chosen[0], *chosen[1]}
        choice.waiting.update({name: StayingNode(StayReason.MAX_DELETIONS) for name in names if name not in going})
        return choice

    def _spare(self, cluster: ScheduledCluster) -> dict[str, int]:
        """How much of each resource the cluster has above its minimum."""
        capacity = {name: sum(node.capacity.get(name, 0) for node in cluster.columns.nodes) for name in self.settings.minima}
        return {name: capacity[name] - least for name, least in self.settings.minima.items()}

    def _held(
        self, unneeded: UnneededNode, groups: Mapping[str, GroupRow], left: dict[str, int], spare: dict[str, int], now: float
    ) -> StayingNode | None:
        """Why an unneeded node does not go yet; one that goes uses up its group's room. Source: RemovableAt in unneeded."""
        node = unneeded.node
        options = groups[node.group].options if node.group in groups else self.settings.default
        wanted = options.unneeded if node.ready else options.unready
        if unneeded.since + wanted >= now:
            return StayingNode(StayReason.NOT_LONG_ENOUGH if node.ready else StayReason.NOT_UNREADY_LONG_ENOUGH)
        if unneeded.drained.wait:
            return StayingNode(StayReason.WAITING, unneeded.drained.wait[0].key)
        if node.group in groups and (stay := _lately(groups[node.group])) is not None:
            return StayingNode(stay)
        if left.get(node.group, 0) <= 0:
            return StayingNode(StayReason.MIN_SIZE)
        size = node.node.capacity
        if any(size.get(name, 0) > amount for name, amount in spare.items()):
            return StayingNode(StayReason.MINIMAL_RESOURCES)
        left[node.group] -= 1
        for name in spare:
            spare[name] -= size.get(name, 0)
        return None


def _lately(group: GroupRow) -> StayReason | None:
    """What happened in a group a short while ago that keeps its nodes."""
    return StayReason.STUMBLED if group.stumbled else StayReason.GREW if group.grew else None


def _by_nature(pods: Iterable[SchedulablePod]) -> dict[PodNature, list[SchedulablePod]]:
    by_nature: dict[PodNature, list[SchedulablePod]] = {}
    for nature, alike in groupby(pods, draining.NATURE):
        by_nature.setdefault(nature, []).extend(alike)
    return by_nature


def usage(cluster: ScheduledCluster) -> Counts:
    """For each row the larger of the shares of CPU and memory that are asked for; not finite where there is none to ask for."""
    shares = []
    for name in (CPU, MEMORY):
        column = cluster.resources.index(name)
        offered = cluster.offered[: cluster.size, column].astype(np.float64)
        asked = offered - cluster.free[: cluster.size, column]
        # A node that offers none of a resource has no share, and is judged apart.
        with np.errstate(divide="ignore", invalid="ignore"):
            shares.append(np.where(offered > 0, asked / offered, np.nan))
    highest: Counts = np.maximum(shares[0], shares[1])
    return highest
