"""Plans for the statuses of CapacityBuffers that do not show what the scaler makes of them."""

from collections.abc import Iterator

from agents.engine.turn import Decided
from agents.logic.nodes.cluster.capacity_buffers import BUFFER
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import OpenNodePlan, SaidLast
from agents.logic.nodes.scaler import open_plans
from agents.logic.nodes.scaler.scaling_plans import PlanContext
from schemas import times
from schemas.decisions.node_updates import BufferStatusPlanned


def plans(state: ScalerState, context: PlanContext) -> Iterator[Decided]:
    """One for each buffer that shows something else, unless one is open."""
    cluster, now = context.cluster, context.turn.number / 1000
    for name, wanted in context.view.buffers.items():
        buffer = state.buffers.get(name)
        if buffer is None or buffer.fact.shown == wanted:
            continue
        fact = buffer.fact
        about = f"{fact.namespace}/{fact.name}"
        key = f"{cluster}/{BUFFER}/{about}"
        if not open_plans.is_new(state, cluster, key, SaidLast(BUFFER, f"{wanted.replicas}: {wanted.message}{wanted.limited}")):
            continue
        plan = BufferStatusPlanned(
            id=context.id(BUFFER, about),
            at=context.turn.at,
            expires=context.expires(),
            cluster=cluster,
            namespace=fact.namespace,
            name=fact.name,
            uid=fact.uid,
            ready=wanted.ready,
            replicas=wanted.replicas,
            template=wanted.template,
            template_generation=wanted.generation,
            message=wanted.message,
            because={"replicas": fact.replicas, "percentage": fact.percentage, "limits": dict(fact.limits or {})},
            limited=wanted.limited,
        )
        state.plans.upsert(key, OpenNodePlan(plan.id, "", now, times.to_seconds(plan.expires)))
        yield context.decided(plan, buffer.place)
