"""Explains why a node stays or a pod waits now: makes the scaler's decision again from its state, and discards it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agents.engine.turn import Turn
from agents.logic.guards import shared_guards
from agents.logic.nodes.cluster import outdated_nodes
from agents.logic.nodes.cluster.placed_pods import GATED
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import OpenNodePlan
from agents.logic.nodes.growth import pending_pods
from agents.logic.nodes.removal.consolidation import CheaperNode
from agents.logic.nodes.removal.unneeded_nodes import StayReason
from agents.logic.nodes.scaler import decision_round, group_troubles, scaling_plans, scaling_refusals, started_replacements
from agents.logic.nodes.scaler.decision_round import DecisionRound
from agents.logic.nodes.scaler.open_plans import ReplacementPlanner
from agents.logic.nodes.scaler.scaler_stage import Scaler
from agents.logic.nodes.scheduling.pod_shapes import SchedulablePod
from schemas import times
from schemas.decisions.node_updates import RefusalCode, RemovalReason
from schemas.policies.control import Mode
from schemas.units import counted

MOST_NATURES = 10_000
"""Natures of waiting pods that may be explained: all of them, in any cluster."""


@dataclass(frozen=True, slots=True)
class ScalingObstacle:
    """Why nothing is done: a code, a sentence, and the numbers that it rests on."""

    code: str
    reason: str
    numbers: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class PendingNodeChange:
    """A group that grows or a node that goes: its name, from how many nodes to how many, why, and what it waits for."""

    name: str
    before: int = 0
    after: int = 0
    pods: int = 0  # Those that a group grows for.
    reason: str = ""
    waits: str = ""
    open: bool = False  # It is planned already and has no outcome yet.

    @property
    def grows(self) -> bool:
        """Whether it is a group."""
        return self.after > 0


@dataclass(frozen=True, slots=True)
class NodeOutlook:
    """The pending changes of a cluster's nodes, and sentences on what holds all of them back."""

    changes: tuple[PendingNodeChange, ...]
    held: tuple[str, ...]


def pending(scaler: Scaler, cluster: str, turn: int) -> NodeOutlook | None:
    """The plans for groups and nodes that would be made at this turn, and those that exist; None for a cluster without groups."""
    state = scaler.clusters
    if turn < 0 or not any(key.startswith(f"{cluster}/") for key in state.groups):
        return None
    look = _look(scaler, cluster, turn)
    changes = [_open(key, plan, look) for key, plan in sorted(state.plans.items()) if _is_of(key, cluster) and not plan.done]
    changes += [
        PendingNodeChange(increase.group, increase.before, increase.after, len(increase.pods), "pods wait")
        for increase in look.decisions.grow
        if increase.after
    ]
    for unneeded, objection in look.going():
        node = unneeded.node
        reason = RemovalReason.UNREADY if not node.ready else RemovalReason.EMPTY if unneeded.empty else RemovalReason.UNNEEDED
        changes.append(PendingNodeChange(node.name, reason=str(reason), waits=objection or ""))
        if objection is None and node.ready:
            # As in the stage, what goes leaves the budget less for the next one.
            look.context.headcount.acts(node.group)
    held = (obstacle.reason for obstacle in _general(state, look) if obstacle.code != "mode")
    return NodeOutlook(tuple(changes), tuple(held))


def _is_of(key: str, cluster: str) -> bool:
    return key.startswith((f"{cluster}/group/", f"{cluster}/node/"))


def _open(key: str, plan: OpenNodePlan, look: DecisionRound) -> PendingNodeChange:
    name = key.split("/", 2)[2]
    group = look.context.view.groups.get(plan.group)
    if "/group/" in key and group is not None:
        return PendingNodeChange(name, group.fact.desired, plan.after, reason="planned", open=True)
    return PendingNodeChange(name, after=plan.after if "/group/" in key else 0, reason="planned", open=True)


def node_stays(scaler: Scaler, cluster: str, name: str, turn: int) -> list[ScalingObstacle] | None:
    """Why a node stays at this turn, most general reason first; empty if it would go, None for an unknown node."""
    state = scaler.clusters
    if f"{cluster}/{name}" not in state.nodes:
        return None
    look = _look(scaler, cluster, turn, name)
    plan = state.plans.get(f"{cluster}/node/{name}")
    if plan is not None:
        since = times.rfc3339(times.from_seconds(plan.since))
        return [ScalingObstacle("planned", f"its removal is planned already, since {since}", {"decision": plan.id})]
    return [*_general(state, look), *_of_node(state, look, name)]


def _of_node(state: ScalerState, look: DecisionRound, name: str) -> Iterator[ScalingObstacle]:
    settings = look.context.settings
    if any(name == taken for taken, _notice in outdated_nodes.interrupted(look.context.view, state.notices.get, settings)):
        return
    if not settings.scale_down:
        yield ScalingObstacle("ScaleDownOff", "scale-down is switched off: 'nodes.scale_down' is false", {})
        return
    going = _let_go(look)
    if name in going:
        objection = going[name]
        if objection is not None:
            yield ScalingObstacle("budget", objection, {"budget": look.budget.share})
    elif name in look.wanted:
        yield from _of_outdated(look, name)
    else:
        yield from _of_needed(state, look, name)
        yield from _of_consolidation(state, look, name)


def _let_go(look: DecisionRound) -> dict[str, str | None]:
    """The nodes that nobody needs, each with the budget's objection; those that go are counted."""
    objections: dict[str, str | None] = {}
    for unneeded, objection in look.going():
        objections[unneeded.node.name] = objection
        if objection is None and unneeded.node.ready:
            look.context.headcount.acts(unneeded.node.group)
    return objections


def _of_outdated(look: DecisionRound, name: str) -> Iterator[ScalingObstacle]:
    """Why a node that should be replaced is not replaced yet."""
    outdated, why = look.decisions.outdated, look.wanted[name]
    stay = outdated.kept.get(name)
    if stay is not None:
        refusal = scaling_plans.stays(look.context, name, stay)
        yield ScalingObstacle(refusal.code, refusal.reason, {"replaced because": why.value, **refusal.because})
        return
    held = look.room().objection(look.context.view.seen[name].group, broken=why is RemovalReason.BROKEN)
    if held is not None:
        yield ScalingObstacle(held.guard, f"it is to be replaced, and {held.reason}", {"replaced because": why.value})
    elif name in outdated.start.values():
        group = next(group for group, first in outdated.start.items() if first == name)
        reason = f"it is to be replaced, and group '{group}' grows by one first"
        yield ScalingObstacle("ReplacementFirst", reason, {"replaced because": why.value})


def _of_needed(state: ScalerState, look: DecisionRound, name: str) -> Iterator[ScalingObstacle]:
    down = look.auto.scale_down
    stay = {**down.stays, **look.decisions.delete.waiting}.get(name)
    if stay is not None and stay.reason is StayReason.RECENT:
        # This look did not try it: the reason is that of the last refusal.
        last = state.said.get(f"{look.context.cluster}/said/node/{name}")
        first = f"{last.reason}; " if last is not None and last.reason else ""
        failed = down.failed.get(name, look.now)
        yield ScalingObstacle(
            last.code if last is not None else stay.reason.value,
            f"{first}it is looked at again in {failed - look.now:.0f} s",
            scaling_plans.utilization(look.context, name),
        )
    elif stay is not None:
        refusal = scaling_plans.stays(look.context, name, stay)
        yield ScalingObstacle(refusal.code, refusal.reason, {**refusal.because, **_patience(look, name)})
    else:
        numbers = scaling_plans.utilization(look.context, name)
        yield ScalingObstacle("Cooling", scaling_plans.COOLING, {**numbers, **_patience(look, name)})


def _patience(look: DecisionRound, name: str) -> Mapping[str, object]:
    """How long a node was unneeded, and how long it must be; nothing for one that is needed."""
    unneeded = look.auto.scale_down.unneeded.get(name)
    if unneeded is None:
        return {}
    group, settings = look.context.view.sized.get(unneeded.node.group), look.context.settings
    options = settings.group_defaults if group is None else group.options
    return {
        "unneeded since": times.rfc3339(times.from_seconds(unneeded.since)),
        "unneeded seconds": look.now - unneeded.since,
        "goes after seconds": options.unneeded if unneeded.node.ready else options.unready,
    }


def _of_consolidation(state: ScalerState, look: DecisionRound, name: str) -> Iterator[ScalingObstacle]:
    """Why a node is not replaced by a cheaper one, where that is done at all."""
    if not started_replacements.consolidates(look.context.settings):
        return
    cluster, cheaper = look.context.cluster, look.decisions.cheaper
    came, record = (find(state, cluster, name) for find in (started_replacements.brought, started_replacements.for_node))
    stay = cheaper.kept.get(name)
    option = next((option for option in cheaper.options if name in option.names), None)
    if came is not None:
        names = ", ".join(f"'{replaced}'" for replaced in came.names)
        yield ScalingObstacle("ReplacesAnotherNode", f"it came so that {names} can go", scaling_plans.replaced(came))
    elif record is not None:
        reason = f"a cheaper node of group '{record.group}' was started for it, and is not ready yet"
        yield ScalingObstacle("ReplacementFirst", reason, {"growth": record.plan})
    elif option is not None:
        yield from _not_started(ReplacementPlanner(state, look), option, name)
    elif stay is not None and stay.reason is not StayReason.OTHER:
        refusal = scaling_plans.stays(look.context, name, stay)
        yield ScalingObstacle(refusal.code, f"no cheaper node replaces it: {refusal.reason}", refusal.because)


def _not_started(planner: ReplacementPlanner, option: CheaperNode, name: str) -> Iterator[ScalingObstacle]:
    """What keeps the cheaper node of an option from being started; nothing if it would be."""
    held = planner.nothing_cheaper(planner.look.room(), option)
    if not planner.ripe(option):
        held = "not for as long as its group's nodes must be unneeded"
    if held:
        seconds = planner.look.now - planner.since.get(name, planner.look.now)
        numbers = {"group": option.group, "price now": option.before, "price then": option.after, "possible seconds": seconds}
        reason = f"a cheaper node could replace it, but none is started yet: {held}"
        yield ScalingObstacle("CheaperNodeSoon", reason, {**numbers, "replaced together": list(option.names)})


def pod_waits(scaler: Scaler, cluster: str, asked: str, turn: int) -> tuple[str, list[ScalingObstacle]] | None:
    """The name of a pod that waits for a node, and why no group grows for it; empty if one would. None for any other pod.

    `asked` is its uid, its name, or NAMESPACE/NAME.
    """
    index = scaler.clusters.ready_index()
    keys = index.waiting_keys(cluster)
    waiting = index.waiting(cluster)
    pod = next((pod for pod in waiting if asked in (pod.name, pod.key, keys[pod.key].split("/", 1)[1])), None)
    if pod is None:
        return _not_looked_at(scaler.clusters, cluster, asked, turn / 1000)
    look = _look(scaler, cluster, turn)
    return pod.key, [*_general(scaler.clusters, look), *_of_pod(scaler.clusters, look, pod)]


def _not_looked_at(state: ScalerState, cluster: str, asked: str, now: float) -> tuple[str, list[ScalingObstacle]] | None:
    """A pod that waits for something else than a node: for others, for room on a node, or for a word of the scheduler."""
    silent = state.ready_index().silent(cluster)
    for key, pod in state.pods.items():
        where, _, uid = key.partition("/")
        named = f"{pod.namespace}/{pod.name}"
        if where != cluster or asked not in (pod.name, named, uid):
            continue
        if pod.reason == GATED and not pod.node:
            reason = "its scheduling gates are not lifted yet: the scheduler does not look at it, and no node is made for it"
            return named, [ScalingObstacle(GATED, reason, {})]
        if pod.nominated:
            reason = f"the scheduler displaces other pods for it on node '{pod.node}', so no node is made for it"
            return named, [ScalingObstacle("Nominated", reason, {})]
        if key in silent:
            reason = scaling_refusals.silence(state, key, silent[key], now)
            young = "its scheduler has said nothing about it yet; nodes are made for pods that it refuses"
            return named, [
                ScalingObstacle(RefusalCode.NOT_UNDERSTOOD, reason, {}) if reason else ScalingObstacle("Young", young, {})
            ]
    return None


def _of_pod(state: ScalerState, look: DecisionRound, pod: SchedulablePod) -> Iterator[ScalingObstacle]:
    decisions, settings = look.decisions, look.auto.settings.pending
    if pod in decisions.triggered:
        return
    if pending_pods.expendable(pod.nature, settings):
        yield ScalingObstacle(
            "Expendable", f"its priority is {pod.nature.priority}, below {settings.cutoff}: it is worth no node", {}
        )
        return
    if not pending_pods.old_enough([pod], settings, look.now):
        yield ScalingObstacle("TooYoung", "it has not waited as long as it must before a group grows for it", {})
        return
    there = [node.node for node in look.context.view.inputs.nodes]
    if pod.key not in look.auto.roomy and not pending_pods.impatient([pod], there, settings, look.now):
        reason = f"it asks for a GPU, so for {settings.patience:.0f} s it waits for room on a node that is there"
        yield ScalingObstacle("TooYoung", reason, {})
        return
    yield from _of_groups(state, look)
    question = decisions.scale_up.question
    if question is not None and pod in [decisions.pending[place] for place in decisions.scale_up.awaiting]:
        reason = "an external expander chooses among the groups that would take it, and its answer has not come yet"
        yield ScalingObstacle("ExpanderAsked", reason, {"groups": [option.group for option in question.options]})
        return
    yield from _of_placement(state, look, pod)


def _of_placement(state: ScalerState, look: DecisionRound, pod: SchedulablePod) -> Iterator[ScalingObstacle]:
    """Why no group's new node would take it, or which node will."""
    decisions = look.decisions
    helpless = next((helpless for helpless in decisions.helpless if helpless.pod.nature is pod.nature), None)
    if helpless is not None:
        for group, failure in sorted(helpless.failures.items()):
            yield ScalingObstacle(
                failure.plugin, f"a new node of group '{group}' would not take it: {'; '.join(failure.reasons)}", {}
            )
    elif decisions.scale_up.refused:
        yield ScalingObstacle(scaling_refusals.code_of(decisions.scale_up.refused), decisions.scale_up.refused, {})
    elif decisions.halted:
        # Nobody looked whether a node has room for it.
        return
    elif misread := scaling_refusals.reason_of(state, look.context.cluster, look.auto, pod, look.now):
        yield ScalingObstacle(RefusalCode.NOT_UNDERSTOOD, misread, {})
    elif pod not in decisions.not_triggered and not decisions.postponed:
        yield ScalingObstacle("HasRoom", "a node has room for it, or one that is coming will: the scheduler places it", {})


def _of_groups(state: ScalerState, look: DecisionRound) -> Iterator[ScalingObstacle]:
    """Groups whose growth is under way, and those that may not grow."""
    for name, plan in sorted(state.plans.items()):
        if name.startswith(f"{look.context.cluster}/group/") and not plan.done:
            reason = f"group '{plan.group}' is to have {counted(plan.after, 'node')}, which is not carried out yet"
            yield ScalingObstacle("planned", reason, {"decision": plan.id})
    troubles = group_troubles.of_groups(look.auto, look.context.view, look.now)
    for group, trouble in sorted(troubles.items()):
        yield ScalingObstacle(trouble.code, f"group '{group}': {trouble.reason}", trouble.numbers)
    for group, reason in sorted(look.decisions.scale_up.skipped.items()):
        if group not in troubles:
            refusal = scaling_refusals.skipped_group(look.context, group, reason)
            yield ScalingObstacle(refusal.code, f"group '{group}': {reason}", refusal.because)


def _general(state: ScalerState, look: DecisionRound) -> Iterator[ScalingObstacle]:
    """What holds everything back."""
    cluster = look.context.cluster
    blind = state.blind(cluster, look.now)
    if blind is not None:
        yield ScalingObstacle("blind", f"nothing is decided: {blind}", {})
    control = state.control.get(cluster)
    pause = shared_guards.paused(control)
    if pause is not None:
        yield ScalingObstacle("paused", pause, {})
    elif shared_guards.mode(control) is not Mode.APPLY:
        yield ScalingObstacle("mode", "the cluster is in mode shadow: what is planned is not carried out", {})
    if look.decisions.halted:
        yield ScalingObstacle("halted", f"nothing grows or shrinks: {look.decisions.halted}", {})


def _look(scaler: Scaler, cluster: str, turn: int, name: str = "") -> DecisionRound:
    """The decision of this turn, without keeping anything; `name` is the node in question."""
    context = decision_round.picture(scaler.clusters, Turn(turn, {}), scaler.partition, cluster, scaler.settings)
    # The search for cheaper nodes is bounded, and must reach the node in question.
    return decision_round.take(scaler.clusters, context, explain=MOST_NATURES, first=name)
