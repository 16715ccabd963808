"""Plans are made once: while one is open, nothing further is planned for its group or node; in shadow only changes are."""

from agents.engine.turn import Decided
from agents.logic.guards import shared_guards
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import OpenNodePlan, SaidLast
from agents.logic.nodes.removal.unneeded_nodes import UnneededNode
from agents.logic.nodes.scaler import scaling_plans
from agents.logic.nodes.scaler.scaling_plans import PlanContext
from schemas import times
from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleUpPlanned
from schemas.decisions.recommendations import Because
from schemas.names import Place
from schemas.policies.control import Mode


def acting(state: ScalerState, cluster: str) -> bool:
    """Whether plans of a cluster are carried out."""
    return shared_guards.mode(state.control.get(cluster)) is Mode.APPLY


def is_new(state: ScalerState, cluster: str, key: str, said: SaidLast, about: str = "") -> bool:
    """Whether to make a plan: always while plans are carried out, else only if it differs from the last one.

    `about`: the key of the last one, if that is not the plan's.
    """
    plan = state.plans.get(key)
    # A group whose growth was carried out may grow again before its source has seen that: it counts as being as large as that
    # plan made it.
    if plan is not None and not (plan.done and key.split("/", 2)[1] == "group"):
        return False
    fresh = acting(state, cluster) or state.said.get(about or key) != said
    if fresh:
        state.said.upsert(about or key, said)
    return fresh


def growth(state: ScalerState, context: PlanContext, plan: ScaleUpPlanned, *places: Place) -> Decided:
    """Open a plan for a group that grows."""
    key, now = f"{context.cluster}/group/{plan.group}", context.turn.number / 1000
    state.plans.upsert(key, OpenNodePlan(plan.id, plan.group, now, times.to_seconds(plan.expires), plan.after))
    return context.decided(plan, *places)


def removal(
    state: ScalerState,
    context: PlanContext,
    unneeded: UnneededNode,
    reason: RemovalReason | None = None,
    numbers: Because | None = None,
    *places: Place,
) -> Decided:
    """Open a plan for a node that goes; `numbers` are added to those of the node, `places` to those of node and group."""
    name = unneeded.node.name
    uids = state.ready_index().uids(f"{context.cluster}/{name}")
    plan = scaling_plans.removal(context, unneeded, uids, reason, numbers or {})
    place = context.view.nodes[name].place
    return planned(state, context, f"{context.cluster}/node/{name}", plan, place, *places, draining=not unneeded.empty)


def planned(
    state: ScalerState, context: PlanContext, key: str, plan: NodeRemovalPlanned, *places: Place, draining: bool = False
) -> Decided:
    """Open a plan for a node or an instance that goes."""
    now = context.turn.number / 1000
    state.plans.upsert(key, OpenNodePlan(plan.id, plan.group, now, times.to_seconds(plan.expires), draining=draining))
    return context.decided(plan, *places, context.view.groups[plan.group].place)
