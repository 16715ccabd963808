"""The steps of a decision that repair sizes and let groups grow. Each one adds its result to what was decided before it."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from agents.logic.nodes.autoscaler import decision_inputs
from agents.logic.nodes.autoscaler.decision_inputs import DecisionPicture
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisions
from agents.logic.nodes.growth import helpless_pods, node_estimator, pending_pods, scale_up
from agents.logic.nodes.growth.scale_up import GroupIncrease
from agents.logic.nodes.scheduling import affinity_limits
from agents.logic.nodes.scheduling.node_columns import Row
from agents.logic.nodes.scheduling.pod_scheduling_needs import SchedulablePod, recreated

MOST_ROOMY = 1000
"""Pods that are watched for being placed by the scheduler."""


def timeouts(auto: NodeAutoscaler, picture: DecisionPicture, before: NodeDecisions) -> NodeDecisions:
    """Growth that took too long is taken back."""
    changed = auto.state.update(decision_inputs.snapshot(picture.world), picture.now)
    return replace(before, lower=tuple((late.group, -late.delta) for late in changed if late.failure.code == "timeout"))


def repairs(auto: NodeAutoscaler, picture: DecisionPicture, before: NodeDecisions) -> NodeDecisions:
    """Instances that never became nodes are removed, and targets that never came true are set right.

    Where too many nodes are not ready, nothing else is decided: about their groups, or about the whole cluster.
    """
    by_group, remove = auto.settings.state.by_group, list(before.remove)
    for group in picture.world.groups:
        late = auto.state.groups[group.name].long_unregistered if group.name in auto.state.groups else []
        # Of ours all may go: at its minimum the group starts another one.
        spare = len(late) if by_group else max(auto.size(group) - group.least, 0)
        if late and spare and not group.kept:
            remove.append((group.name, tuple(sorted(late)[:spare])))
    if not auto.state.healthy():
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
        decided = replace(decided, not_triggered=decision_inputs.without_planned(left, world))
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
            not_triggered=decision_inputs.without_planned([left[place] for place in choice.remaining] if quiet else [], world),
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
    return replace(before, helpless=helpless_pods.explained(picture.cluster, groups, before.not_triggered, picture.explain))


def minima(auto: NodeAutoscaler, picture: DecisionPicture, before: NodeDecisions) -> NodeDecisions:
    """Groups below their minimum grow to it, if that is asked for."""
    if not auto.settings.enforce_minimum:
        return before
    groups = auto.judged(picture.world, picture.now)
    lacking = [group for name, group in groups.items() if name not in auto.state.given_up]
    increases = scale_up.below_minimum(lacking, picture.cluster, auto.settings.scale_up)
    return replace(before, grow=(*before.grow, *increases))
