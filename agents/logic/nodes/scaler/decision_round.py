"""One look at a cluster: its view, and all results of the rules, before any plan or refusal is made.

The stage decides by it, and `why-not` makes another one and discards it, so both agree.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from agents.engine.turn import Turn
from agents.logic.nodes.autoscaler import autoscaler_memory, decision_steps
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisions
from agents.logic.nodes.cluster import cluster_view
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.growth.expanders import Expander
from agents.logic.nodes.removal import consolidation
from agents.logic.nodes.removal.node_replacements import NOTHING, ReplacementRequest
from agents.logic.nodes.removal.unneeded_nodes import StayingNode, StayReason, UnneededNode
from agents.logic.nodes.scaler import decision_settings, drain_limits, started_replacements
from agents.logic.nodes.scaler.drain_limits import DrainLimits, NodeBudget
from agents.logic.nodes.scaler.scaling_plans import PlanContext
from agents.logic.nodes.scaler_settings import ScalerSettings
from schemas.decisions.node_updates import RemovalReason


@dataclass(frozen=True, slots=True)
class DecisionRound:
    """The results. `wanted`: nodes that should be replaced; `request`: the replacements that the rules were asked for."""

    context: PlanContext
    decisions: NodeDecisions
    auto: NodeAutoscaler
    budget: NodeBudget
    wanted: Mapping[str, RemovalReason]
    request: ReplacementRequest

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.context.turn.number / 1000

    def going(self) -> Iterator[tuple[UnneededNode, str | None]]:
        """The nodes that nobody needs, in order, each with the budget's objection.

        A caller that lets one go counts it in the headcount before it takes the next one.
        """
        for unneeded in (*self.decisions.delete.empty, *self.decisions.delete.drain):
            node = unneeded.node
            if node.name in self.context.view.instance_of:
                # A node that is not ready is away already, so that no share holds it back: else the only broken node of a small
                # cluster would block itself. Hours without removals do.
                held = self.budget.objection(self.context.headcount, node.group) if node.ready else self.budget.closed
                yield unneeded, held or None

    def room(self) -> DrainLimits:
        """The room for drains that is left after those nodes."""
        return drain_limits.of(self.context.view, self.context.settings, self.context.headcount, self.decisions, self.budget)


def picture(state: ScalerState, turn: Turn, partition: int, cluster: str, settings: ScalerSettings) -> PlanContext:
    """The cluster as the state has it now."""
    view = cluster_view.view(state, cluster, settings, turn.number / 1000)
    asked = state.asked.get(cluster) if Expander.GRPC in settings.chain() else None
    return PlanContext(turn, partition, cluster, settings, view, drain_limits.headcount(view), asked)


def take(state: ScalerState, context: PlanContext, *, explain: int, shrink: bool = True, first: str = "") -> DecisionRound:
    """Let the rules decide, and change nothing in the state.

    `explain`: natures of waiting pods that are explained; without `shrink` only growth is looked at; `first`: a node that the
    search for cheaper ones begins with.
    """
    cluster, settings, view, turn = context.cluster, context.settings, context.view, context.turn.number
    auto = autoscaler_memory.recall(state.memory.get(cluster), decision_settings.of(settings), turn / 1000)
    around = cluster_view.expander_context(view, settings, turn, context.asked)
    wanted: Mapping[str, RemovalReason] = {}
    request = NOTHING
    if shrink:
        wanted, request = started_replacements.asked(state, cluster, view, settings, turn / 1000)
    if first and request.cheaper is not None:
        request = replace(request, cheaper=consolidation.about(request.cheaper, first))
    decisions = decision_steps.decide(auto, view.inputs, around, turn / 1000, shrink=shrink, explain=explain, replace=request)
    auto.scale_down.stays.update({name: StayingNode(StayReason.SHARED) for name in view.shared})
    auto.scale_down.stays.update({name: StayingNode(StayReason.ASIDE) for name in view.aside})
    budget = drain_limits.budget_of(settings, state.control.get(cluster), turn)
    return DecisionRound(context, decisions, auto, budget, wanted, request)
