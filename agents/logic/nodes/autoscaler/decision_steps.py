"""One decision about all groups, from one look at the cluster: a list of steps, in upstream's order.

Each step is a function of the autoscaler, of the picture, and of what the steps before it decided; its docstring says what it
does. Source: RunOnce in core/static_autoscaler.go.
"""

from collections.abc import Callable

from agents.logic.nodes.autoscaler import decision_inputs, growth_steps, removal_steps
from agents.logic.nodes.autoscaler.decision_inputs import DecisionPicture
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisionInputs, NodeDecisions
from agents.logic.nodes.growth.expanders import ExpanderContext
from agents.logic.nodes.removal.node_replacements import NOTHING, ReplacementRequest

DecisionStep = Callable[[NodeAutoscaler, DecisionPicture, NodeDecisions], NodeDecisions]

STEPS: tuple[DecisionStep, ...] = (
    growth_steps.timeouts,
    growth_steps.repairs,
    growth_steps.growth,
    growth_steps.explanations,
    removal_steps.removals,
    growth_steps.minima,
)


def decide(  # noqa: PLR0913  # what is known, and what is asked, by keyword
    auto: NodeAutoscaler,
    world: NodeDecisionInputs,
    around: ExpanderContext,
    now: float,
    *,
    shrink: bool = True,
    explain: int = 0,
    replace: ReplacementRequest = NOTHING,
) -> NodeDecisions:
    """Decide on all groups. Without `shrink` no node is looked at: something urgent came between two looks.

    `explain`: of so many natures of pods that no group helps it is found out why. `replace`: nodes that are to go although
    they are needed, once there is room for their pods.
    """
    if not auto.settings.from_zero and not any(node.ready for node in world.nodes):
        return NodeDecisions(halted="the cluster has no ready node")
    cluster = decision_inputs.columns(world, auto.settings.pending)
    picture = DecisionPicture(world, cluster, around, now, shrink=shrink, explain=explain, replace=replace)
    decided = NodeDecisions()
    for step in STEPS:
        decided = step(auto, picture, decided)
        # The state of the cluster itself cannot be believed; the trouble of a group never comes here.
        if decided.halted:
            break
    return decided
