"""What is the matter with a node group, in a sentence, and when that is said. It concerns that group alone.

Settings that contradict each other or cannot be read are faults: the group goes on without them. Only nodes that are not ready
can halt a whole cluster, where they are too many outside of the groups that are out for that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from agents.engine.turn import Decided
from agents.logic.nodes.autoscaler.cluster_state_registry import ClusterStateRegistry
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.aws import group_options
from agents.logic.nodes.cluster.cluster_view import ClusterView
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import HaltSaid
from agents.logic.nodes.growth.node_estimator import GroupRow
from agents.logic.nodes.scaler.decision_round import DecisionRound
from schemas import times
from schemas.decisions.node_updates import NodeScalingHalted
from schemas.facts.nodes import NodeGroupSeen
from schemas.well_known_labels import OPTION_TAG

MOST_FAULTS = 20
"""Faults of one group that its sentence names."""
_SHOWN = 80


class TroubleCode(StrEnum):
    """What is the matter with a group, the most important first; docs/nodes.md tells each of them."""

    TOO_MANY_UNREADY = "TooManyUnready"
    UNSCALABLE = "Unscalable"
    SUSPENDED = "Suspended"
    KEPT = "Kept"
    NO_TEMPLATE = "NoTemplate"
    BACKED_OFF = "BackedOff"
    INCOMPLETE = "Incomplete"
    NOT_REGISTERED = "NotRegistered"
    NOT_DELIVERED = "NotDelivered"
    HALTED = "halted"
    """Of a whole cluster."""
    OVER = ""


@dataclass(frozen=True, slots=True)
class GroupTrouble:
    """Why a group does not do what it is asked for: a code, a sentence, and the numbers that it rests on."""

    code: TroubleCode
    reason: str
    numbers: Mapping[str, object]


def of_groups(auto: NodeAutoscaler, view: ClusterView, now: float) -> dict[str, GroupTrouble]:
    """The groups in trouble, after a decision of `auto`."""
    troubles = ((group.name, next(_troubles(auto, view, group, now), None)) for group in view.inputs.groups)
    return {name: trouble for name, trouble in troubles if trouble is not None}


def _troubles(auto: NodeAutoscaler, view: ClusterView, group: GroupRow, now: float) -> Iterator[GroupTrouble]:
    """What is the matter with a group, the most important first."""
    registry, name = auto.state, group.name
    numbers = {"desired": group.target, "least": group.least, "most": group.most, **_counts(registry, name)}
    if name in auto.out:
        reason = "too many of its nodes are not ready, so it neither grows nor shrinks"
        yield GroupTrouble(TroubleCode.TOO_MANY_UNREADY, reason, numbers)
    # One sentence for both is that of a group whose sizes are no numbers of nodes.
    if group.stopped and group.stopped == group.kept:
        yield GroupTrouble(TroubleCode.UNSCALABLE, f"it neither grows nor shrinks: {group.stopped}", numbers)
    elif group.stopped:
        yield GroupTrouble(TroubleCode.SUSPENDED, f"it does not grow: {group.stopped}", numbers)
    elif group.kept:
        yield GroupTrouble(TroubleCode.KEPT, f"it does not shrink: {group.kept}", numbers)
    if group.template is None:
        unknown = view.groups[name].fact.no_template or "no source says it"
        yield GroupTrouble(
            TroubleCode.NO_TEMPLATE, f"it does not grow, because nobody knows how a new node of it looks: {unknown}", numbers
        )
    entry = registry.backoff.entries.get(name)
    if entry is not None and registry.backoff.of(name, now) is not None:
        until = times.rfc3339(times.from_seconds(entry.until))
        why = f": {entry.failure.message}" if entry.failure.message else ""
        reason = f"it is left out, because its last growth failed with {entry.failure.code}{why}"
        yield GroupTrouble(TroubleCode.BACKED_OFF, reason, {**numbers, "until": until})
    incomplete = next((seen for seen in view.inputs.nodes if seen.group == name and seen.incomplete), None)
    if incomplete is not None:
        reason = f"node '{incomplete.node.name}' is new and lacks a device that nodes of its group have: it counts as on its way"
        yield GroupTrouble(TroubleCode.INCOMPLETE, reason, numbers)
    late = registry.groups[name].long_unregistered if name in registry.groups else []
    if late:
        # Always the first by name: a sentence that names another one would be said again.
        held = view.unregistered[min(late)].lifecycle if min(late) in view.unregistered else ""
        hook = f"; AWS says '{held}', so a lifecycle hook holds it" if held.startswith("Pending:") else ""
        reason = f"instance '{min(late)}' has become no node, though its time to do so is over{hook}"
        yield GroupTrouble(TroubleCode.NOT_REGISTERED, reason, numbers)
    if name in registry.given_up:
        reason = f"its cloud has not delivered {registry.given_up[name]} of the {group.target} nodes that it wants"
        yield GroupTrouble(TroubleCode.NOT_DELIVERED, reason, numbers)


def _counts(registry: ClusterStateRegistry, group: str) -> dict[str, object]:
    mine = registry.groups.get(group)
    if mine is None:
        return {"nodes": 0}
    return {
        "nodes": len(mine.registered),
        "ready": len(mine.ready),
        "without node": len(mine.unregistered + mine.long_unregistered),
    }


def faults(fact: NodeGroupSeen) -> str:
    """All faults of a group; empty for none."""
    return "; ".join([*_faults(fact)][:MOST_FAULTS])


def _faults(fact: NodeGroupSeen) -> Iterator[str]:
    if fact.least > fact.most:
        yield f"its minimum {fact.least} is above its maximum {fact.most}, which counts for both"
    for name, text in group_options.unread(fact.options).items():
        yield f"tag '{OPTION_TAG}{name[:_SHOWN]}' says '{text[:_SHOWN]}', which means nothing, so the default holds"
    yield from () if fact.template is None else fact.template.unread


AGAIN = 600.0
"""Seconds after which the same is said again."""
MOST_REPORTED = 200
"""Groups that one decision speaks of."""
OVER = GroupTrouble(TroubleCode.OVER, "it is over", {})


def reports(state: ScalerState, look: DecisionRound) -> Iterator[Decided]:
    """What is out now, as far as it was not said a short while ago, and what no longer is."""
    cluster, now = look.context.cluster, look.now
    troubles = _all_troubles(look)
    keys = {f"{cluster}/{group}": group for group in troubles}
    over = [key for key in state.halts if key.startswith(f"{cluster}/") and key not in keys]
    for key in over:
        state.halts.remove(key)
        group = key.split("/", 1)[1]
        # Of a group that is gone nobody has to hear that its trouble is over.
        if not group or group in look.context.view.groups:
            yield _report(look, group, OVER)
    for key, group in sorted(keys.items())[:MOST_REPORTED]:
        trouble, said = troubles[group], state.halts.get(key)
        # When it begins, when the reason changes, and in between every ten minutes, so that the end of the log always shows what
        # is out.
        if said is None or (said.code, said.reason) != (trouble.code, trouble.reason) or now - said.at >= AGAIN:
            state.halts.upsert(key, HaltSaid(trouble.code, trouble.reason, now))
            yield _report(look, group, trouble)


def _all_troubles(look: DecisionRound) -> Mapping[str, GroupTrouble]:
    """By group; that of the whole cluster by the empty name."""
    troubles = of_groups(look.auto, look.context.view, look.now)
    halted = look.decisions.halted
    return {**troubles, "": GroupTrouble(TroubleCode.HALTED, halted, {})} if halted else troubles


def _report(look: DecisionRound, group: str, trouble: GroupTrouble) -> Decided:
    context = look.context
    event = NodeScalingHalted(
        context.id("halted", group), context.turn.at, context.cluster, group, trouble.code, trouble.reason, trouble.numbers
    )
    place = () if not group else (context.view.groups[group].place,)
    return context.decided(event, *place)
