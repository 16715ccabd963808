"""Plans that let a group want no more nodes than there are, once its cloud has failed to deliver the others.

A plan says what the facts show; the consumer lowers the size to the instances that there are then, and never below them.
"""

from collections.abc import Iterator

from agents.engine.turn import Decided
from agents.logic.nodes.autoscaler.cluster_state_registry import NodeReadiness
from agents.logic.nodes.autoscaler.group_backoff import ScaleUpFailure
from agents.logic.nodes.cluster.scaler_state import SIZE, ScalerState
from agents.logic.nodes.cluster.scaler_table_values import OpenNodePlan, SaidLast
from agents.logic.nodes.scaler import open_plans
from agents.logic.nodes.scaler.decision_round import DecisionRound
from agents.logic.nodes.scaler.scaling_plans import PlanContext
from schemas import times
from schemas.decisions.node_updates import SizeCorrectionPlanned
from schemas.decisions.recommendations import Because


def plans(state: ScalerState, look: DecisionRound) -> Iterator[Decided]:
    """A plan for each group that wants more nodes than its cloud delivers; none while it grows, or after one was refused."""
    context, auto, now = look.context, look.auto, look.now
    cluster = context.cluster
    for group in sorted({*auto.state.given_up, *(name for name, _delta in look.decisions.lower)}):
        seen, growth = context.view.sized[group], state.plans.get(f"{cluster}/group/{group}")
        after = max(auto.state.groups.get(group, NodeReadiness()).delivered, seen.least)
        grows = growth is not None and not growth.done
        # Left alone, the group would go on asking for nodes whose pods have gone elsewhere meanwhile.
        if after >= seen.target or grows or auto.kept_size.get(group, now) > now:
            continue
        key = f"{cluster}/{SIZE}/{group}"
        if open_plans.is_new(state, cluster, key, SaidLast("lower", f"{seen.target} to {after}")):
            failure = auto.state.backoff.of(group, now)
            plan = _plan(context, group, after, failure)
            state.plans.upsert(key, OpenNodePlan(plan.id, group, now, times.to_seconds(plan.expires), after))
            yield context.decided(plan, context.view.groups[group].place)


def open_for(state: ScalerState, cluster: str, group: str) -> bool:
    """Whether such a plan of a group is not carried out yet; until then the group's size is about to change."""
    plan = state.plans.get(f"{cluster}/{SIZE}/{group}")
    return plan is not None and not plan.done


def _plan(context: PlanContext, group: str, after: int, failure: ScaleUpFailure | None) -> SizeCorrectionPlanned:
    """`failure`: why the cloud delivered no more, as far as it said so."""
    seen = context.view.sized[group]
    why: Because = {} if failure is None else {"failure": failure.code, "message": failure.message}
    return SizeCorrectionPlanned(
        id=context.id("correct-size", group),
        at=context.turn.at,
        expires=context.expires(),
        cluster=context.cluster,
        group=group,
        before=seen.target,
        after=after,
        because={"least": seen.least, "most": seen.most, **why},
    )
