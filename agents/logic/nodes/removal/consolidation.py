"""Which nodes a cheaper one could replace: several at once, if all of their pods that fit nowhere else fit on one new node.

It only finds them; a replacement that was possible for long enough is started elsewhere, and the nodes are drained once the new
node is ready. A node whose pods fit on existing nodes is left to scale-down. Source: Karpenter's multi-node and single-node
consolidation (K6 of the issue), with one target group at a time instead of instance types.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from agents.logic.nodes.growth import node_estimator
from agents.logic.nodes.growth.node_estimator import GroupRow, GroupTemplate
from agents.logic.nodes.removal import unneeded_nodes
from agents.logic.nodes.removal.drain_rules import DrainContext
from agents.logic.nodes.removal.unneeded_nodes import ScaleDown, StayingNode, StayReason, UnneededNode
from agents.logic.nodes.scheduling.node_columns import NodeRow, Row
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster

MOST_TRIES = 200
"""Simulated drains of one look; nodes that are not reached have their turn in the next ones."""
MOST_NEIGHBOURS = 10
"""Further nodes that are tried for the room that the first leaves on a new node."""
MOST_FOUND = 10
"""Cheaper nodes that one look finds: each has to be wanted for a while, so more than are started at one time."""
TINY = 1e-9
"""Prices that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class ConsolidationRequest:
    """What to search for. `prices`: of a node of each group; `targets`: groups that may replace nodes of others."""

    prices: Mapping[str, float]  # Of a node of each group.
    targets: Collection[str]  # Groups that may replace nodes of others.
    savings: float
    most: int
    # Nodes that are left alone because they are new or were tried lately.
    resting: Mapping[str, StayReason] = field(default_factory=dict)
    first: str = ""  # A node to begin with.


@dataclass(frozen=True, slots=True)
class CheaperNode:
    """A new node of a group that could replace nodes, what these cost for an hour together, and what it costs."""

    group: str
    names: tuple[str, ...]
    before: float
    after: float

    @property
    def saved(self) -> float:
        """What it saves in an hour."""
        return self.before - self.after


@dataclass(slots=True)
class Consolidation:
    """Cheaper nodes in the order of the search, nodes that were tried in vain, and why nodes stay."""

    options: list[CheaperNode] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    kept: dict[str, StayingNode] = field(default_factory=dict)


def about(asked: ConsolidationRequest, name: str) -> ConsolidationRequest:
    """The same request, beginning with a node, even if that was tried in vain lately."""
    resting = {node: why for node, why in asked.resting.items() if node != name or why is not StayReason.RECENT}
    return replace(asked, resting=resting, first=name)


def worth(before: float, after: float, savings: float) -> bool:
    """Whether enough is saved, and anything at all."""
    return before - after > TINY and before - after >= savings * before - TINY


class _Search:
    """Tries one node after the other, each against what the cheaper nodes before it left."""

    def __init__(  # noqa: PLR0913, PLR0917  # what `find` is given
        self,
        down: ScaleDown,
        cluster: ScheduledCluster,
        nodes: Sequence[NodeRow],
        templates: Mapping[str, GroupTemplate],
        scene: DrainContext,
        asked: ConsolidationRequest,
        spare: Counter[str],
    ) -> None:
        self.spare = spare
        self.down, self.cluster, self.nodes, self.scene, self.asked = down, cluster, nodes, scene, asked
        by_price = sorted((asked.prices[name], name) for name in asked.targets if name in templates and name in asked.prices)
        self.targets = [(price, name, templates[name]) for price, name in by_price]
        self.tries = MOST_TRIES
        self.outcome = Consolidation()
        self.fits: dict[str, UnneededNode | StayingNode] = {}
        self.used: set[str] = set()
        self.reached: set[Row] = set()

    def price(self, node: NodeRow) -> float:
        return self.asked.prices[node.group]

    def stays_here(self, node: NodeRow) -> bool:
        """Whether a node's pods must move, may move, and fit on no node that is there."""
        if node.name not in self.fits:
            self.tries -= 1
            point = self._point()
            self.fits[node.name] = self.down.movable(self.cluster, node, self.scene)
            self._back(point)
        result = self.fits[node.name]
        return isinstance(result, StayingNode) and result.reason is StayReason.NO_PLACE

    def look(self, seed: NodeRow) -> None:
        """Find the node that saves most, if one does."""
        if not self.stays_here(seed):
            result = self.fits[seed.name]
            self._in_vain(seed, result if isinstance(result, StayingNode) else StayingNode(StayReason.FITS))
            return
        others = self._neighbours(seed)
        # The most that could be saved, before anything is simulated.
        most = sum(sorted(map(self.price, (seed, *others)))[-self.asked.most :])
        best: tuple[CheaperNode, GroupTemplate] | None = None
        for price, group, template in self.targets:
            if group == seed.group or not worth(most, price, self.asked.savings):
                continue
            if self.tries <= 0:
                break
            point = self._point()
            chosen, _rows = self._move_together(template, [seed, *(node for node in others if node.group != group)])
            self._back(point)
            before = sum(map(self.price, chosen))
            option = CheaperNode(group, tuple(node.name for node in chosen), before, price)
            saves = bool(chosen) and worth(before, price, self.asked.savings)
            if saves and (best is None or option.saved > best[0].saved + TINY):
                best = option, template
        if best is None:
            self._in_vain(seed, StayingNode(StayReason.NOT_CHEAPER))
            return
        replaced = [node for node in (seed, *others) if node.name in best[0].names]
        _chosen, rows = self._move_together(best[1], replaced)
        self.reached |= rows
        self.outcome.options.append(best[0])
        self.used |= {*best[0].names}
        self.spare.subtract(node.group for node in replaced)
        # The moves stay in the cluster, so that what fitted before may not fit any more.
        self.fits.clear()

    def _in_vain(self, node: NodeRow, stay: StayingNode) -> None:
        self.outcome.kept[node.name] = stay
        self.outcome.tried.append(node.name)

    def _neighbours(self, seed: NodeRow) -> list[NodeRow]:
        """Further nodes that a new one may replace together with the first."""
        neighbours: list[NodeRow] = []
        others = (node for node in self.nodes if node is not seed and self.open(node))
        # Some of them fit on nodes that are there, so more are tried than are taken.
        for node in islice(others, 2 * MOST_NEIGHBOURS if self.asked.most > 1 else 0):
            if len(neighbours) < MOST_NEIGHBOURS and self.tries > 0 and self.stays_here(node):
                neighbours.append(node)
        return neighbours

    def _move_together(self, template: GroupTemplate, nodes: Sequence[NodeRow]) -> tuple[list[NodeRow], set[Row]]:
        """The first of these nodes, and others, whose pods find room once there is a new node; none if those of the first do not.

        Also the rows that the pods move to. The cluster keeps the moves.
        """
        row = self.cluster.size
        node_estimator.add(self.cluster, template)
        chosen: list[NodeRow] = []
        reached: set[Row] = set()
        for node in nodes:
            siblings = sum(earlier.group == node.group for earlier in chosen)
            if node.row in reached or len(chosen) >= self.asked.most or siblings >= self.spare[node.group]:
                continue
            self.tries -= 1
            point = self._point()
            result = self.down.movable(self.cluster, node, self.scene)
            rows = {to for to, _pods in result.moves} if isinstance(result, UnneededNode) else set()
            # A node that needs nothing of the new one is left to scale-down.
            if row in rows:
                chosen.append(node)
                reached |= rows
            elif node is nodes[0]:
                return [], reached
            else:
                self._back(point)
        return chosen, reached

    def open(self, node: NodeRow) -> bool:
        """Whether a node is not part of an earlier finding."""
        return node.name not in self.used and node.row not in self.reached

    def _point(self) -> tuple[object, list[int]]:
        return self.cluster.mark(openings=True), list(self.scene.budgets.left)

    def _back(self, point: tuple[object, list[int]]) -> None:
        """Take back moves, and what they used of the disruption budgets."""
        self.cluster.revert(point[0])  # type: ignore[arg-type]  # a savepoint
        self.scene.budgets.left[:] = point[1]


def find(  # noqa: PLR0913  # what is known, and the request, by keyword
    down: ScaleDown,
    cluster: ScheduledCluster,
    nodes: Sequence[NodeRow],
    templates: Mapping[str, GroupTemplate],
    scene: DrainContext,
    *,
    groups: Mapping[str, GroupRow],
    asked: ConsolidationRequest,
    closed: Collection[Row] = (),
) -> Consolidation:
    """Look for cheaper nodes, beginning with the nodes whose idle part costs most. The cluster is left as it was.

    `closed`: rows that take no pods and are no candidates.
    """
    # A node whose use cannot be told counts as full.
    used = np.nan_to_num(unneeded_nodes.usage(cluster), nan=1.0, posinf=1.0)
    able: list[NodeRow] = []
    outcome: dict[str, StayingNode] = {}
    for node in nodes:
        reason = _unfit(node, groups, asked, down)
        if reason is not None:
            outcome[node.name] = StayingNode(reason)
        elif node.row not in closed:
            able.append(node)
    # First those whose idle part costs most, for tries are bounded.
    able.sort(key=lambda node: (node.name != asked.first, -asked.prices[node.group] * (1 - float(used[node.row])), node.name))
    spare = Counter({name: size.target - size.deleting - size.least for name, size in groups.items()})
    search = _Search(down, cluster, able, templates, scene, asked, spare)
    search.outcome.kept = outcome
    start = cluster.mark(openings=True)
    left = list(scene.budgets.left)
    cluster.open[list(closed)] = False
    for node in able:
        if search.tries <= 0 or len(search.outcome.options) >= MOST_FOUND:
            break
        if search.open(node) and spare[node.group] > 0:
            search.look(node)
    cluster.revert(start)
    scene.budgets.left[:] = left
    return search.outcome


def _unfit(node: NodeRow, groups: Mapping[str, GroupRow], asked: ConsolidationRequest, down: ScaleDown) -> StayReason | None:
    """Why a node is not considered, by the node itself and its group."""
    size = groups.get(node.group)
    if size is None:
        return StayReason.NOT_AUTOSCALED
    reasons = (
        (StayReason.DELETING, node.deleting is not None),
        (StayReason.DISABLED, node.disabled),
        (StayReason.NOT_READY, not node.ready),
        (StayReason.MIN_SIZE, size.target - size.deleting <= size.least),
        (StayReason.NO_PRICE, node.group not in asked.prices),
        # It goes without a successor.
        (StayReason.OTHER, node.name in down.unneeded),
    )
    return asked.resting.get(node.name) or next((reason for reason, holds in reasons if holds), None)
