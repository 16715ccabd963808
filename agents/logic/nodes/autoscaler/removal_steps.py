"""The steps of a decision that let nodes go: unneeded ones, outdated ones, and ones that a cheaper node could replace."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agents.logic.nodes.autoscaler.decision_inputs import DecisionPicture
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisionInputs, NodeDecisions
from agents.logic.nodes.growth import scale_up
from agents.logic.nodes.growth.group_row import GroupRow
from agents.logic.nodes.removal import consolidation, node_replacements
from agents.logic.nodes.removal.consolidation import Consolidation, ConsolidationRequest
from agents.logic.nodes.removal.deletion_budgets import RunningDeletions
from agents.logic.nodes.removal.drain_rules import DrainContext
from agents.logic.nodes.removal.node_replacements import Replacements
from agents.logic.nodes.removal.unneeded_nodes import StayingNode, StayReason
from agents.logic.nodes.scheduling.node_row import NodeRow
from agents.logic.nodes.scheduling.pod_scheduling_needs import PodNature


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
