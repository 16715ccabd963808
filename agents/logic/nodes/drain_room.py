"""How many more nodes may be drained now: what is under way, `most_drains`, and the budget of nodes that may be away."""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.logic.guards import shared_guards
from agents.logic.guards.budget import Headcount, over_budget
from agents.logic.guards.shared_guards import ControlRecord, Objection
from agents.logic.nodes import outdated_nodes
from agents.logic.nodes.cluster_view import ClusterView
from agents.logic.nodes.node_decision_values import NodeDecisions
from agents.logic.nodes.node_replacements import ReplacementRequest
from agents.logic.nodes.outdated_nodes import NoticeOf
from agents.logic.nodes.scaler_settings import ScalerSettings
from schemas.units import Fraction


@dataclass(slots=True)
class DrainRoom:
    """How many nodes are being removed, how many at most, and the budget of nodes that may be away; it counts on."""

    headcount: Headcount
    share: Fraction
    most: int
    drains: int = 0

    def objection(self, *, broken: bool) -> Objection | None:
        """Why no drain of a further node may begin. A broken node is away already, so no budget holds its repair."""
        if self.drains >= self.most:
            return Objection("drains", f"{self.drains} nodes are being removed; while so many are, no further one is drained")
        found = None if broken else over_budget("cluster", self.headcount, self.share, "nodes")
        return None if found is None else Objection("budget", found)

    def take(self, *, ready: bool) -> None:
        """One more drain begins. A node that is not ready is away already."""
        self.drains += 1
        self.headcount.acting += ready


def headcount(view: ClusterView) -> Headcount:
    """The nodes of a cluster. One whose removal is planned counts as running until it is gone."""
    count = Headcount()
    for one in view.inputs.nodes:
        count.count(running=one.ready, acting=one.deleting is not None)
    return count


def of(
    view: ClusterView, settings: ScalerSettings, count: Headcount, found: NodeDecisions, control: ControlRecord | None
) -> DrainRoom:
    """The room that a decision leaves, after what it lets go anyway."""
    share = shared_guards.budget(control, settings.budget)
    going = len(found.delete.empty) + len(found.delete.drain)
    return DrainRoom(count, share, settings.most_drains, _running(view) + going)


def request(view: ClusterView, settings: ScalerSettings, names: Sequence[str], notice_of: NoticeOf) -> ReplacementRequest:
    """What a decision is asked to replace: these nodes, in their order."""
    leaving = {name for name, _notice in outdated_nodes.interrupted(view, notice_of, settings)} if names else set()
    return ReplacementRequest(
        [name for name in names if name not in leaving], leaving, max(settings.most_drains - _running(view), 0)
    )


def _running(view: ClusterView) -> int:
    return sum(one.deleting is not None for one in view.inputs.nodes)
