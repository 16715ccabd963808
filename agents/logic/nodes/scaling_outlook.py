"""What the scaler would say now of one node, or one pod that waits: its decision, made again from its state and thrown away."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from agents.engine.turn import Turn
from agents.logic.guards import shared_guards
from agents.logic.nodes import (
    autoscaler_memory,
    cluster_view,
    consolidation,
    core_settings,
    drain_room,
    outdated_nodes,
    pending_pods,
    scaling_plans,
    started_replacements,
)
from agents.logic.nodes.cluster_view import ClusterView
from agents.logic.nodes.drain_room import DrainRoom
from agents.logic.nodes.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.node_decision_values import NodeDecisions
from agents.logic.nodes.pod_scheduling_needs import SchedulablePod
from agents.logic.nodes.scaler_records import NO_TIMERS
from agents.logic.nodes.scaler_stage import Scaler
from agents.logic.nodes.scaling_plans import PlanContext
from agents.logic.nodes.unneeded_nodes import StayingNode, StayReason
from schemas import times
from schemas.decisions.node_updates import RemovalReason
from schemas.policies.control import Mode

MOST_NATURES = 10_000
"""Natures of waiting pods that may be explained: all of them, in any cluster."""


@dataclass(frozen=True, slots=True)
class ScalingObstacle:
    """Why nothing is done: a code, a sentence, and the numbers that it rests on."""

    code: str
    reason: str
    numbers: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Look:
    """One decision about a cluster at one moment."""

    state: Scaler
    context: PlanContext
    found: NodeDecisions
    auto: NodeAutoscaler
    now: float
    outdated: Mapping[str, RemovalReason]
    taken: frozenset[str]
    """Nodes whose instances the cloud takes now."""
    room: DrainRoom

    @property
    def view(self) -> ClusterView:
        """The picture that it was made from."""
        return self.context.view


def node_stays(scaler: Scaler, cluster: str, name: str, turn: int) -> list[ScalingObstacle] | None:
    """Why a node stays at this turn, most general first; empty if it would go, None if nobody knows the node."""
    if f"{cluster}/{name}" not in scaler.clusters.nodes:
        return None
    look = _look(scaler, cluster, turn, name)
    plan = scaler.clusters.plans.get(f"{cluster}/node/{name}")
    if plan is not None:
        since = times.rfc3339(times.from_seconds(plan.since))
        return [ScalingObstacle("planned", f"its removal is planned already, since {since}", {"decision": plan.id})]
    return [*_general(look), *_of_node(look, name)]


def _of_node(look: _Look, name: str) -> Iterator[ScalingObstacle]:
    going = {one.node.name for one in (*look.found.delete.empty, *look.found.delete.drain)}
    if name in look.taken:
        return
    if not look.context.settings.scale_down:
        yield ScalingObstacle("ScaleDownOff", "scale-down is switched off: 'nodes.scale_down' is false", {})
    elif name in going:
        yield from _over_budget(look, name)
    elif name in look.outdated:
        yield from _of_outdated(look, name)
    else:
        yield from _of_needed(look, name)
        yield from _of_consolidation(look, name)


def _over_budget(look: _Look, name: str) -> Iterator[ScalingObstacle]:
    """The budget, where what goes before this node uses it up."""
    count, budget = look.context.headcount, look.room.budget
    for one in (*look.found.delete.empty, *look.found.delete.drain):
        objection = budget.objection(count)
        if objection is not None and one.node.name == name:
            yield ScalingObstacle("budget", objection, {"budget": budget.share})
        count.acting += objection is None and one.node.ready


def _of_outdated(look: _Look, name: str) -> Iterator[ScalingObstacle]:
    """Why a node is not replaced yet although it is to be."""
    found, why = look.found.outdated, look.outdated[name]
    stay = found.kept.get(name)
    if stay is not None:
        told = scaling_plans.stays(look.context, name, stay)
        yield ScalingObstacle(told.code, told.reason, {"replaced because": why.value, **told.because})
        return
    held = look.room.objection(broken=why is RemovalReason.BROKEN)
    if held is not None:
        yield ScalingObstacle(held.guard, f"it is to be replaced, and {held.reason}", {"replaced because": why.value})
    elif name in found.start.values():
        group = next(group for group, first in found.start.items() if first == name)
        reason = f"it is to be replaced, and group '{group}' grows by one first"
        yield ScalingObstacle("ReplacementFirst", reason, {"replaced because": why.value})


def _of_needed(look: _Look, name: str) -> Iterator[ScalingObstacle]:
    stay = {**look.auto.scale_down.stays, **look.found.delete.waiting}.get(name)
    if stay is not None and stay.reason is StayReason.RECENT:
        said = look.state.clusters.said.get(f"{look.context.cluster}/said/node/{name}")
        first = f"{said.reason}; " if said is not None and said.reason else ""
        failed = look.auto.scale_down.failed.get(name, look.now)
        yield ScalingObstacle(
            said.code if said is not None else stay.reason.value,
            f"{first}it is looked at again in {failed - look.now:.0f} s",
            scaling_plans.utilization(look.context, name),
        )
    elif stay is not None:
        told = scaling_plans.stays(look.context, name, stay)
        yield ScalingObstacle(told.code, told.reason, told.because)
    else:
        unneeded = look.auto.scale_down.unneeded.get(name)
        cooling = "no node goes so soon after a group grew, another node went, or a removal failed"
        numbers = scaling_plans.utilization(look.context, name)
        if unneeded is not None:
            numbers = {**numbers, "unneeded seconds": look.now - unneeded.since}
        yield ScalingObstacle("Cooling", cooling, numbers)


def _of_consolidation(look: _Look, name: str) -> Iterator[ScalingObstacle]:
    """Why a node is not replaced by a cheaper one, where that is done at all."""
    if not started_replacements.consolidates(look.context.settings):
        return
    state, cluster = look.state.clusters, look.context.cluster
    record = next(
        (one for one in started_replacements.of_cluster(state, cluster).values() if name in (one.node, *one.names)), None
    )
    stay = look.found.cheaper.kept.get(name)
    option = next((one for one in look.found.cheaper.found if name in one.names), None)
    if record is not None and name == record.node:
        names = ", ".join(f"'{one}'" for one in record.names)
        yield ScalingObstacle("ReplacesAnotherNode", f"it came so that {names} can go", scaling_plans.replaced(record))
    elif record is not None:
        reason = f"a cheaper node of group '{record.group}' was started for it, and is not ready yet"
        yield ScalingObstacle("ReplacementFirst", reason, {"growth": record.plan})
    elif option is not None:
        timers = state.consolidation.get(cluster) or NO_TIMERS
        seconds = look.now - timers.since.get(name, look.now)
        numbers = {"group": option.group, "price now": option.before, "price then": option.after, "possible seconds": seconds}
        told = scaling_plans.stays(look.context, name, StayingNode(StayReason.CHEAPER_SOON))
        yield ScalingObstacle(told.code, told.reason, {**numbers, "replaced together": list(option.names)})
    elif stay is not None and stay.reason is not StayReason.OTHER:
        told = scaling_plans.stays(look.context, name, stay)
        yield ScalingObstacle(told.code, f"no cheaper node replaces it: {told.reason}", told.because)


def pod_waits(scaler: Scaler, cluster: str, asked: str, turn: int) -> tuple[str, list[ScalingObstacle]] | None:
    """The name of a pod that waits for a node, and why no group grows for it; empty if one would. None for any other pod.

    `asked` is its uid, its name, or NAMESPACE/NAME.
    """
    index = scaler.clusters.ready_index()
    keys = index.waiting_keys(cluster)
    waiting = index.waiting(cluster)
    found = next((pod for pod in waiting if asked in (pod.name, pod.key, keys[pod.key].split("/", 1)[1])), None)
    if found is None:
        return None
    look = _look(scaler, cluster, turn)
    return found.key, [*_general(look), *_of_pod(look, found)]


def _of_pod(look: _Look, pod: SchedulablePod) -> Iterator[ScalingObstacle]:
    found, settings = look.found, look.auto.settings.pending
    if pod in found.triggered:
        return
    if pending_pods.expendable(pod.nature, settings):
        yield ScalingObstacle(
            "Expendable", f"its priority is {pod.nature.priority}, below {settings.cutoff}: it is worth no node", {}
        )
        return
    if not pending_pods.old_enough([pod], settings, look.now):
        yield ScalingObstacle("TooYoung", "it has not waited as long as it must before a group grows for it", {})
        return
    helpless = next((one for one in found.helpless if one.pod.nature is pod.nature), None)
    yield from _of_groups(look)
    if helpless is not None:
        for group, failure in sorted(helpless.failures.items()):
            yield ScalingObstacle(
                failure.plugin, f"a new node of group '{group}' would not take it: {'; '.join(failure.reasons)}", {}
            )
    elif found.scale_up.refused:
        yield ScalingObstacle("limited", found.scale_up.refused, {})
    elif pod not in found.not_triggered and not found.postponed:
        yield ScalingObstacle("HasRoom", "a node has room for it, or one that is coming will: the scheduler places it", {})


def _of_groups(look: _Look) -> Iterator[ScalingObstacle]:
    """Groups whose growth is under way, and such as may not grow."""
    for name, plan in sorted(look.state.clusters.plans.items()):
        if name.startswith(f"{look.context.cluster}/group/") and not plan.done:
            reason = f"group '{plan.group}' is to have {plan.after} nodes, which is not carried out yet"
            yield ScalingObstacle("planned", reason, {"decision": plan.id})
    for group, reason in sorted(look.found.scale_up.skipped.items()):
        told = scaling_plans.skipped_group(look.context, group, reason)
        yield ScalingObstacle(told.code, f"group '{group}': {reason}", told.because)


def _general(look: _Look) -> Iterator[ScalingObstacle]:
    """What holds everything back."""
    state, cluster = look.state.clusters, look.context.cluster
    blind = state.blind(cluster, look.now)
    if blind is not None:
        yield ScalingObstacle("blind", f"nothing is decided: {blind}", {})
    control = state.control.get(cluster)
    pause = shared_guards.paused(control)
    if pause is not None:
        yield ScalingObstacle("paused", pause, {})
    elif shared_guards.mode(control) is not Mode.APPLY:
        yield ScalingObstacle("mode", "the cluster is in mode shadow: what is planned is not carried out", {})
    if look.found.halted:
        yield ScalingObstacle("halted", look.found.halted, {})


def _look(scaler: Scaler, cluster: str, turn: int, name: str = "") -> _Look:
    """The decision of this turn, of which nothing is kept; `name` is the node that is asked about."""
    settings, state, now = scaler.settings, scaler.clusters, turn / 1000
    view = cluster_view.view(state, cluster, settings)
    auto = autoscaler_memory.recall(state.memory.get(cluster), core_settings.of(settings), now)
    around = cluster_view.expander_context(view, settings, turn)
    notice_of = state.notices.get
    outdated, request = started_replacements.asked(state, cluster, view, settings, now)
    if request.cheaper is not None:
        request = replace(request, cheaper=consolidation.about(request.cheaper, name))
    found = auto.step(view.inputs, around, now, explain=MOST_NATURES, replace=request)
    count = drain_room.headcount(view)
    context = PlanContext(Turn(turn, {}), scaler.partition, cluster, settings, view, count)
    taken = frozenset(name for name, _notice in outdated_nodes.interrupted(view, notice_of, settings))
    room = drain_room.of(view, settings, count, found, drain_room.budget_of(settings, state.control.get(cluster), turn))
    return _Look(scaler, context, found, auto, now, outdated, taken, room)
