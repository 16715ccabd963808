"""One decision about all groups, from one look at the cluster: a list of steps, in upstream's order.

Each step is a function of the autoscaler, of the picture, and of what the steps before it decided; its docstring says what it
does. Source: RunOnce in core/static_autoscaler.go.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from agents.logic.nodes.autoscaler import node_decision_values
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.autoscaler.node_decision_values import DecisionPicture, NodeDecisionInputs, NodeDecisions
from agents.logic.nodes.growth import node_estimator, pending_pods, scale_up
from agents.logic.nodes.growth.expanders import ExpanderContext
from agents.logic.nodes.growth.node_estimator import GroupRow
from agents.logic.nodes.growth.scale_up import GroupIncrease
from agents.logic.nodes.removal import consolidation, node_replacements
from agents.logic.nodes.removal.consolidation import Consolidation, ConsolidationRequest
from agents.logic.nodes.removal.drain_rules import DrainContext, RunningDeletions
from agents.logic.nodes.removal.node_replacements import NOTHING, ReplacementRequest, Replacements
from agents.logic.nodes.removal.unneeded_nodes import StayingNode, StayReason
from agents.logic.nodes.scheduling import affinity_limits
from agents.logic.nodes.scheduling.node_columns import NodeRow, Row
from agents.logic.nodes.scheduling.pod_shapes import PodNature, SchedulablePod, recreated


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
    cluster = node_decision_values.columns(world, auto.settings.pending)
    picture = DecisionPicture(world, cluster, around, now, shrink=shrink, explain=explain, replace=replace)
    decided = NodeDecisions()
    for step in STEPS:
        decided = step(auto, picture, decided)
        # The state of the cluster itself cannot be believed; the trouble of a group never comes here.
        if decided.halted:
            break
    return decided


MOST_ROOMY = 1000
"""Pods that are watched for being placed by the scheduler."""


def timeouts(auto: NodeAutoscaler, picture: DecisionPicture, before: NodeDecisions) -> NodeDecisions:
    """Growth that took too long is taken back."""
    changed = auto.state.update(node_decision_values.snapshot(picture.world), picture.now)
    return replace(before, lower=tuple((late.group, -late.delta) for late in changed if late.failure.code == "timeout"))


def repairs(auto: NodeAutoscaler, picture: DecisionPicture, before: NodeDecisions) -> NodeDecisions:
    """Instances that never became nodes are removed, and targets that never came true are set right."""
    by_group, remove = auto.settings.state.by_group, list(before.remove)
    for group in picture.world.groups:
        late = auto.state.groups[group.name].long_unregistered if group.name in auto.state.groups else []
        # Of ours all may go: at its minimum the group starts another one.
        spare = len(late) if by_group else max(auto.size(group) - group.least, 0)
        if late and spare and not group.kept:
            remove.append((group.name, tuple(sorted(late)[:spare])))
        # Else the cloud would start one after the other while the group is left out. Below its minimum it does so in any case.
        doomed = sorted(auto.state.doomed(group.name, picture.now))[: max(auto.size(group) - group.least - len(late), 0)]
        if doomed and not group.kept:
            remove.append((group.name, tuple(doomed)))
            # An end that was asked for is no failure.
            auto.state.early.dismiss(doomed)
    if not auto.state.healthy():
        # Where too many nodes are not ready, the facts cannot be believed: nothing else is decided about their groups or, where
        # too many are left without these, about the whole cluster.
        auto.out = auto.state.unhealthy_groups() if by_group else frozenset()
        if not auto.state.healthy(auto.out):
            auto.scale_down.forget()
            unready, registered = len(auto.state.total.unready), len(auto.state.total.registered)
            halted = f"too many nodes of the cluster are not ready: {unready} of {registered}"
            return replace(before, remove=tuple(remove), halted=halted)
    remove += [(name, tuple(sorted(errors))) for name, errors in auto.state.creation_errors.items()]
    lower = (*before.lower, *auto.state.oversized(picture.now).items())
    return replace(before, remove=tuple(remove), lower=lower)


def growth(auto: NodeAutoscaler, picture: DecisionPicture, before: NodeDecisions) -> NodeDecisions:
    """Groups grow for the pods that no node takes."""
    world, cluster, now, settings = picture.world, picture.cluster, picture.now, auto.settings
    start = cluster.size
    for group in world.groups:
        # Nodes that are on their way take pods, too, or the same pods would let a group grow in each look.
        for _node in range(auto.state.upcoming(group.name, now) if group.template is not None else 0):
            node_estimator.add(cluster, group.template)
    fled = [world.successor(pod) for node in world.nodes if node.draining for pod in node.pods if recreated(pod)]
    # A pod with rules between pods costs a look at all others, so that together they have a budget.
    considered = affinity_limits.within(world.waiting)
    planned = affinity_limits.within([*considered, *map(world.successor, world.planned)])[len(considered) :]
    waiting = pending_pods.place(cluster, [*considered, *fled, *planned], settings.pending)
    auto.roomy = _roomy(auto, picture, waiting.placed, considered)
    left = pending_pods.old_enough(waiting.left, settings.pending, now)
    left = pending_pods.impatient(left, [node.node for node in world.nodes], settings.pending, now)
    decided = replace(before, postponed=len(world.waiting) - len(considered), placed=waiting.placed)
    limit = settings.scale_up.limits.nodes
    if left and pending_pods.all_new(left, settings.pending, now):
        # More of them may come in a moment, and would be served together.
        decided = replace(decided, placed=None)
    elif left and limit and sum(node.ready for node in world.nodes) >= limit:
        decided = replace(decided, not_triggered=node_decision_values.without_planned(left, world))
    elif left:
        shapes = pending_pods.shapes(cluster, left)
        choice = scale_up.decide(cluster, list(auto.judged(world, now).values()), shapes, settings.scale_up, picture.around)
        quiet = not choice.increases and not choice.refused
        decided = replace(
            decided,
            scale_up=choice,
            pending=left,
            grow=tuple(raised for increase in choice.increases if (raised := _beyond_target(auto, increase, now)) is not None),
            triggered=[left[place] for place in choice.triggered],
            not_triggered=node_decision_values.without_planned(
                [left[place] for place in choice.remaining] if quiet else [], world
            ),
        )
    # No pod of a node that goes may move to one that is not there yet.
    cluster.open[start : cluster.size] = False
    return decided


def _roomy(
    auto: NodeAutoscaler, picture: DecisionPicture, placed: Mapping[Row, list[SchedulablePod]], waiting: Sequence[SchedulablePod]
) -> dict[str, tuple[str, float]]:
    """The first pods that wait although a node that is there has room for them."""
    # By identity, because pods are compared by all their fields, and there may be thousands.
    nodes, known = picture.world.nodes, set(map(id, waiting))
    there = ((nodes[row].node.name, pod) for row, pods in sorted(placed.items()) if row < len(nodes) for pod in pods)
    some = islice(((node, pod) for node, pod in there if id(pod) in known), MOST_ROOMY)
    return {pod.key: (node, auto.roomy.get(pod.key, ("", picture.now))[1]) for node, pod in some}


def _beyond_target(auto: NodeAutoscaler, increase: GroupIncrease, now: float) -> GroupIncrease | None:
    """What a group must want for an increase beyond what it wants already; None if it wants that many."""
    given_up = auto.state.given_up.get(increase.group, 0)
    if not given_up:
        return increase
    # Nodes that were given up are asked for by the group's target still, until that is lowered. Asking for further ones in their
    # stead would let the target rise with each failure.
    auto.state.ask_again(increase.group, min(given_up, increase.after - increase.before), now)
    target = increase.before + given_up
    return dataclasses.replace(increase, before=target) if increase.after > target else None


def explanations(auto: NodeAutoscaler, picture: DecisionPicture, before: NodeDecisions) -> NodeDecisions:
    """For pods that no group helps it is found out why."""
    if not before.not_triggered or not picture.explain:
        return before
    groups = list(auto.judged(picture.world, picture.now).values())
    return replace(
        before, helpless=node_decision_values.explained(picture.cluster, groups, before.not_triggered, picture.explain)
    )


def minima(auto: NodeAutoscaler, picture: DecisionPicture, before: NodeDecisions) -> NodeDecisions:
    """Groups below their minimum grow to it, if that is asked for."""
    if not auto.settings.enforce_minimum:
        return before
    groups = auto.judged(picture.world, picture.now)
    lacking = [group for name, group in groups.items() if name not in auto.state.given_up]
    increases = scale_up.below_minimum(lacking, picture.cluster, auto.settings.scale_up)
    return replace(before, grow=(*before.grow, *increases))


@dataclass(frozen=True, slots=True)
class _Removal:
    """What all removals of one decision look at. A node that is to be replaced counts in `groups` as one that goes."""

    auto: NodeAutoscaler
    picture: DecisionPicture
    nodes: list[NodeRow]
    groups: dict[str, GroupRow]
    scene: DrainContext


def removals(auto: NodeAutoscaler, picture: DecisionPicture, before: NodeDecisions) -> NodeDecisions:
    """Nodes that nobody needs are looked for, and those go whose time has come, or that something better replaces."""
    if not picture.shrink or not auto.settings.shrink or before.placed is None:
        return before
    work, asked = _removal(auto, picture, before), picture.replace
    coming = picture.world.successors
    auto.scale_down.successors = coming if auto.settings.scale_down.smaller else no_smaller(coming)
    auto.scale_down.look(picture.cluster, work.nodes, work.groups, work.scene)
    outdated = _replacements(work) if asked.names else before.outdated
    auto.scale_down.keep({node.row for node in work.nodes if node.name in asked.held}, work.nodes)
    cheaper = before.cheaper if asked.cheaper is None else _consolidation(work, asked.cheaper, before, outdated)
    decided = replace(before, outdated=outdated, cheaper=cheaper, cooling=auto.cooling(picture.now, growing=bool(before.grow)))
    if not decided.cooling:
        running = RunningDeletions(
            sum(node.deleting is not None and not node.draining for node in picture.world.nodes),
            sum(node.deleting is not None and node.draining for node in picture.world.nodes),
        )
        decided = replace(decided, delete=auto.scale_down.choose(work.groups, running, picture.cluster, picture.now))
        # A node that nobody needs goes without a successor, and so do those whose pods would go to the same places.
        outdated.give_way(decided.delete)
    # As upstream: what is deleted now needs no soft taint, and the next look sets those of the others.
    return decided if decided.delete.empty or decided.delete.drain else soft_taints(auto, picture.world, decided)


def _removal(auto: NodeAutoscaler, picture: DecisionPicture, before: NodeDecisions) -> _Removal:
    world, placed = picture.world, before.placed or {}
    nodes = [replace(node, pods=(*node.pods, *placed[node.row])) if node.row in placed else node for node in world.nodes]
    scene = DrainContext(picture.now, auto.settings.drain, world.workloads, world.budgets)
    groups, growing = auto.judged(world, picture.now), {increase.group for increase in before.grow}
    # A group that grows by this decision grew just now.
    if auto.settings.state.by_group and auto.settings.delays.after_add > 0:
        groups.update({name: replace(groups[name], grew=True) for name in growing})
    return _Removal(auto, picture, nodes, groups, scene)


def _replacements(work: _Removal) -> Replacements:
    """Decide about nodes that should be replaced; nodes that their pods should move to are no candidates any more."""
    auto, asked, now = work.auto, work.picture.replace, work.picture.now
    place = {name: number for number, name in enumerate(asked.names)}
    outdated = [node for node in work.nodes if node.name in place and node.deleting is None]
    kept = {node.name: StayingNode(StayReason.RECENT) for node in outdated if auto.stays_for_now(node.name, now)}
    kept |= {node.name: StayingNode(StayReason.GROUP_KEPT) for node in outdated if work.groups[node.group].kept}
    offers = {
        group.name: node_replacements.offer(
            work.groups[group.name],
            work.nodes,
            grows=group.target < group.most and not auto.backed_off(group, now) and auto.delivers(group),
            coming=bool(auto.state.upcoming(group.name, now)),
        )
        for group in work.picture.world.groups
    }
    replacements = node_replacements.find(
        auto.scale_down,
        work.picture.cluster,
        sorted((node for node in outdated if node.name not in kept), key=lambda node: place[node.name]),
        offers,
        work.scene,
        leaving=[node.row for node in work.nodes if node.name in asked.leaving],
        room=asked.room,
        started=asked.started,
    )
    replacements.kept.update(kept)
    auto.scale_down.keep(replacements.targets, work.nodes)
    for going in replacements.go if asked.room else ():
        group = work.groups[going.node.group]
        work.groups[group.name] = replace(group, deleting=group.deleting + 1)
    return replacements


def _consolidation(work: _Removal, request: ConsolidationRequest, before: NodeDecisions, outdated: Replacements) -> Consolidation:
    """Nodes that a cheaper one could replace, among those that no other decision concerns."""
    auto, asked, now, cluster = work.auto, work.picture.replace, work.picture.now, work.picture.cluster
    groups = work.picture.world.groups
    closed_groups = {increase.group for increase in before.grow}
    closed_groups |= scale_up.not_growing(cluster, list(work.groups.values()), auto.settings.scale_up).keys()
    templates = {
        group.name: group.template
        for group in groups
        if group.template is not None
        and group.name not in closed_groups
        and auto.delivers(group)
        and not auto.state.upcoming(group.name, now)
    }
    others = {*asked.names, *asked.leaving, *asked.started, *asked.held}
    held = {name for name, group in work.groups.items() if group.kept}
    closed = {node.row for node in work.nodes if node.name in others or node.group in held} | outdated.targets
    undrained = {node.name: StayReason.RECENT for node in work.nodes if auto.undrained(node.name)}
    request = replace(request, resting={**undrained, **request.resting})
    return consolidation.find(
        auto.scale_down, cluster, work.nodes, templates, work.scene, groups=work.groups, asked=request, closed=closed
    )


def soft_taints(auto: NodeAutoscaler, world: NodeDecisionInputs, before: NodeDecisions) -> NodeDecisions:
    """Mark nodes that may go soon so that the scheduler would rather use others; at most so many changes, removals first.

    A decision does that itself unless it chose nodes to delete; whoever lets none of them go asks for it.
    """
    most, wanted = auto.settings.soft_taints, auto.scale_down.unneeded
    staying = [node for node in world.nodes if node.deleting is None]
    if not most:
        return replace(before, untaint=[node.node.name for node in staying if node.soft_tainted])
    old = [node.node.name for node in staying if node.soft_tainted and node.node.name not in wanted][:most]
    new = [node.node.name for node in staying if not node.soft_tainted and node.node.name in wanted]
    return replace(before, untaint=old, taint=new[: most - len(old)])


def no_smaller(successors: Mapping[PodNature, PodNature]) -> dict[PodNature, PodNature]:
    """The successors, none of which asks for less of a resource than its pod does now."""
    # Whether a recommendation holds until a pod comes back nobody knows, and room that is there only because successors will be
    # smaller is room that the next pods miss. On recorded arrivals it saved nodes and cost more waiting (docs/nodes.md).
    return {pod: coming for pod, back in successors.items() if (coming := _larger(pod, back)) is not pod}


def _larger(pod: PodNature, back: PodNature) -> PodNature:
    now, later = dict(pod.shape.requests), dict(back.shape.requests)
    most = {name: max(now.get(name, 0), later.get(name, 0)) for name in sorted(now.keys() | later.keys())}
    if most == {name: amount for name, amount in now.items() if amount}:
        return pod
    return back if most == later else replace(back, shape=replace(back.shape, requests=tuple(most.items())))


DecisionStep = Callable[[NodeAutoscaler, DecisionPicture, NodeDecisions], NodeDecisions]

STEPS: tuple[DecisionStep, ...] = (
    timeouts,
    repairs,
    growth,
    explanations,
    removals,
    minima,
)
