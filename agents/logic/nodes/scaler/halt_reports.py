"""Says which groups are out, or that the whole cluster is: when it begins, when the reason changes, and when it is over.

It is said again every ten minutes, so that the end of the log always shows what is out now.
"""

from collections.abc import Iterator, Mapping

from agents.engine.turn import Decided
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import HaltSaid
from agents.logic.nodes.scaler import group_troubles
from agents.logic.nodes.scaler.decision_round import DecisionRound
from agents.logic.nodes.scaler.group_troubles import GroupTrouble, TroubleCode
from schemas.decisions.node_updates import NodeScalingHalted

AGAIN = 600.0
"""Seconds after which the same is said again."""
MOST = 200
"""Groups that one decision speaks of."""
OVER = GroupTrouble(TroubleCode.OVER, "it is over", {})


def reports(state: ScalerState, look: DecisionRound) -> Iterator[Decided]:
    """What is out now, as far as it was not said a short while ago, and what no longer is."""
    cluster, now = look.context.cluster, look.now
    troubles = _troubles(look)
    keys = {f"{cluster}/{group}": group for group in troubles}
    over = [key for key in state.halts if key.startswith(f"{cluster}/") and key not in keys]
    for key in over:
        state.halts.remove(key)
        group = key.split("/", 1)[1]
        if not group or group in look.context.view.groups:
            yield _report(look, group, OVER)
    for key, group in sorted(keys.items())[:MOST]:
        trouble, said = troubles[group], state.halts.get(key)
        if said is None or (said.code, said.reason) != (trouble.code, trouble.reason) or now - said.at >= AGAIN:
            state.halts.upsert(key, HaltSaid(trouble.code, trouble.reason, now))
            yield _report(look, group, trouble)


def _troubles(look: DecisionRound) -> Mapping[str, GroupTrouble]:
    """By group; that of the whole cluster by the empty name."""
    troubles = group_troubles.of_groups(look.auto, look.context.view, look.now)
    halted = look.decisions.halted
    return {**troubles, "": GroupTrouble(TroubleCode.HALTED, halted, {})} if halted else troubles


def _report(look: DecisionRound, group: str, trouble: GroupTrouble) -> Decided:
    context = look.context
    event = NodeScalingHalted(
        context.id("halted", group), context.turn.at, context.cluster, group, trouble.code, trouble.reason, trouble.numbers
    )
    place = () if not group else (context.view.groups[group].place,)
    return context.decided(event, *place)
