"""How many more nodes may be drained now: what is under way, `most_drains`, and the budget of nodes that may be away."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.logic.guards import budget_schedules, shared_guards
from agents.logic.guards.shared_guards import ControlRecord, Headcount, Objection, over_budget
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisions
from agents.logic.nodes.cluster import outdated_nodes
from agents.logic.nodes.cluster.cluster_view import ClusterView
from agents.logic.nodes.cluster.outdated_nodes import NoticeOf
from agents.logic.nodes.removal.node_replacements import ReplacementRequest
from agents.logic.nodes.scaler_settings import ScalerSettings
from schemas.decisions.node_updates import RefusalCode
from schemas.units import Fraction, counted_are


@dataclass(frozen=True, slots=True)
class NodeBudget:
    """The share of nodes that may be away or being removed. `closed`: why none may, by a schedule."""

    share: Fraction
    closed: str = ""

    def objection(self, count: "NodeHeadcount", group: str) -> str | None:
        """Why no further node of a group may go; None while one may."""
        return self.closed or over_budget(*count.asked(group, self.share), self.share, "nodes")


@dataclass(slots=True)
class NodeHeadcount:
    """The nodes of a cluster by group, and how many of them go; it counts on while plans are made."""

    groups: dict[str, Headcount] = field(default_factory=dict)

    def acts(self, group: str) -> None:
        """One more node of a group goes, which was ready."""
        self.groups.setdefault(group, Headcount()).acting += 1

    def asked(self, group: str, share: Fraction) -> tuple[str, Headcount]:
        """Whose nodes count for a node of a group: those of the cluster without groups that are broken, or its own if it is."""
        # A group is broken if more of its nodes are not ready than the budget would let go of them. Else it alone would use up
        # the budget of all others. Nodes without a group count for the cluster.
        broken = {
            name for name, mine in self.groups.items() if name and mine.live - mine.running > max(1, int(mine.live * share))
        }
        if group in broken:
            return "group", self.groups[group]
        total = Headcount()
        for name, mine in self.groups.items():
            if name not in broken:
                total.add(mine)
        return "cluster", total


@dataclass(slots=True)
class DrainLimits:
    """How many nodes are being removed, how many at most, and the budget of nodes that may be away; it counts on."""

    headcount: NodeHeadcount
    budget: NodeBudget
    most: int
    drains: int = 0

    def objection(self, group: str, *, broken: bool) -> Objection | None:
        """Why no drain of a further node may begin."""
        if self.drains >= self.most:
            reason = f"no further node is drained while {counted_are(self.drains, 'node')} being removed"
            return Objection(RefusalCode.DRAINS, reason)
        # A broken node is away already, so that no budget holds its repair.
        held = None if broken else self.budget.objection(self.headcount, group)
        return None if held is None else Objection(RefusalCode.BUDGET, held)

    def take(self, group: str, *, ready: bool) -> None:
        """Count one more drain."""
        self.drains += 1
        # A node that is not ready is away already.
        if ready:
            self.headcount.acts(group)


def headcount(view: ClusterView) -> NodeHeadcount:
    """The nodes of a cluster."""
    # One whose removal is planned counts as running until it is gone.
    count = NodeHeadcount()
    for node in view.inputs.nodes:
        count.groups.setdefault(node.group, Headcount()).count(running=node.ready, acting=node.deleting is not None)
    return count


def budget_of(settings: ScalerSettings, control: ControlRecord | None, turn: int) -> NodeBudget:
    """The budget in a turn: the control record's or the settings' own, cut down by what holds at that time."""
    share = budget_schedules.at_most(shared_guards.budget(control, settings.budget), settings.budget_schedules, turn)
    scheduled = budget_schedules.in_force(settings.budget_schedules, turn)
    return NodeBudget(share, "" if scheduled is None else scheduled.closed)


def of(
    view: ClusterView, settings: ScalerSettings, count: NodeHeadcount, decisions: NodeDecisions, budget: NodeBudget
) -> DrainLimits:
    """The room that a decision leaves, after what it lets go anyway."""
    going = len(decisions.delete.empty) + len(decisions.delete.drain)
    return DrainLimits(count, budget, settings.most_drains, _running(view) + going)


def request(view: ClusterView, settings: ScalerSettings, names: Sequence[str], notice_of: NoticeOf) -> ReplacementRequest:
    """What a decision is asked to replace: these nodes, in their order."""
    leaving = {name for name, _notice in outdated_nodes.interrupted(view, notice_of, settings)} if names else set()
    return ReplacementRequest(
        [name for name in names if name not in leaving], leaving, max(settings.most_drains - _running(view), 0)
    )


def _running(view: ClusterView) -> int:
    return sum(node.deleting is not None for node in view.inputs.nodes)
