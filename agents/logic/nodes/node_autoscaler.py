"""One decision about all groups, from one look at the cluster: repair, grow, shrink, in upstream's order.

It makes no requests: the cluster comes in as a value, and decisions go out; their results come back by `grew`, `failed_to_grow`,
`started` and `failed_to_start`. Source: RunOnce in core/static_autoscaler.go.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.nodes import affinity_limits, consolidation, helpless_pods, node_estimator, node_replacements, pending_pods
from agents.logic.nodes import scale_up as scaleup
from agents.logic.nodes.cluster_state_registry import (
    ClusterStateRegistry,
    RegistrySnapshot,
    SeenNode,
    StateSettings,
)
from agents.logic.nodes.consolidation import Consolidation, ConsolidationRequest
from agents.logic.nodes.deletion_budgets import RunningDeletions
from agents.logic.nodes.drain_rules import DrainContext, DrainSettings
from agents.logic.nodes.expanders import ExpanderContext
from agents.logic.nodes.group_backoff import Backoff, BackoffSettings, ScaleUpFailure
from agents.logic.nodes.node_decision_values import GroupSeen, NodeDecisionInputs, NodeDecisions
from agents.logic.nodes.node_replacements import NOTHING, ReplacementRequest, Replacements
from agents.logic.nodes.pending_pods import PendingSettings
from agents.logic.nodes.pod_scheduling_needs import PodNature, SchedulablePod, recreated
from agents.logic.nodes.scale_up import ScaleUpGroup, ScaleUpSettings
from agents.logic.nodes.scheduling.scheduled_cluster import Row, ScheduledCluster, numbers
from agents.logic.nodes.unneeded_nodes import (
    DISABLED,
    GroupSize,
    ScaleDown,
    ScaleDownNode,
    ScaleDownSettings,
)

LONG_AGO = 3600.0
"""Seconds before the start at which growth and shrinkage count as having happened last."""


@dataclass(frozen=True, slots=True)
class ScaleDownDelays:
    """Seconds that scale-down waits after growth, after a deletion began, and after one could not begin."""

    after_add: float = 600.0
    after_delete: float = 0.0
    after_failure: float = 180.0


@dataclass(frozen=True, slots=True)
class NodeAutoscalerSettings:
    """All settings of a decision. `soft_taints`: most of them changed at once, 0 for none at all."""

    state: StateSettings = field(default_factory=StateSettings)
    backoff: BackoffSettings = field(default_factory=BackoffSettings)
    pending: PendingSettings = field(default_factory=PendingSettings)
    scale_up: ScaleUpSettings = field(default_factory=ScaleUpSettings)
    scale_down: ScaleDownSettings = field(default_factory=ScaleDownSettings)
    drain: DrainSettings = field(default_factory=DrainSettings)
    delays: ScaleDownDelays = field(default_factory=ScaleDownDelays)
    soft_taints: int = 10
    shrink: bool = True
    from_zero: bool = True
    enforce_minimum: bool = False


class NodeAutoscaler:
    """The state from one decision to the next."""

    def __init__(self, settings: NodeAutoscalerSettings, start: float) -> None:
        self.settings = settings
        self.state = ClusterStateRegistry(settings.state, Backoff(settings.backoff))
        self.scale_down = ScaleDown(settings.scale_down)
        self.grown = self.deleted = self.stumbled = start - LONG_AGO

    # Outcomes

    def grew(self, group: str, delta: int, now: float) -> None:
        """A group's target was raised."""
        self.state.scale_up(group, delta, now)
        self.grown = now

    def failed_to_grow(self, group: str, failure: ScaleUpFailure, now: float) -> None:
        """A group's target could not be raised."""
        self.state.fail(group, failure, now)

    def started(self, groups: Sequence[str], now: float) -> None:
        """Deletions of nodes of these groups began."""
        for group in groups:
            self.state.scale_down(group, now)
        self.deleted = now

    def failed_to_start(self, now: float) -> None:
        """Deletions could not begin."""
        self.stumbled = now

    # Deciding

    def step(  # noqa: PLR0913  # what is known, and what is asked, by keyword
        self,
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
        found = NodeDecisions()
        if not self.settings.from_zero and not any(one.ready for one in world.nodes):
            found.halted = "the cluster has no ready node"
            return found
        found.lower = [(one.group, -one.delta) for one in self.state.update(_look(world), now) if one.failure.code == "timeout"]
        self._repair(world, found, now)
        if found.halted:
            return found
        cluster = _picture(world, self.settings.pending)
        placed = self._grow(world, cluster, found, around, now)
        if found.not_triggered and explain:
            found.helpless = helpless_pods.explained(cluster, self._groups(world, now), found.not_triggered, explain)
        if shrink and self.settings.shrink and placed is not None:
            self._shrink(world, cluster, placed, found, now, replace)
        if self.settings.enforce_minimum:
            minima = {group.name: group.least for group in world.groups}
            found.grow += scaleup.below_minimum(self._groups(world, now), minima, cluster, self.settings.scale_up)
        return found

    def _repair(self, world: NodeDecisionInputs, found: NodeDecisions, now: float) -> None:
        """Remove instances that never became nodes or could not be made, and set targets right that never came true."""
        for group in world.groups:
            late = self.state.groups[group.name].long_unregistered if group.name in self.state.groups else []
            spare = max(group.target - group.least, 0)
            if late and spare:
                found.remove.append((group.name, tuple(sorted(late)[:spare])))
        if not self.state.healthy():
            self.scale_down.forget()
            found.halted = "too many nodes of the cluster are not ready"
            return
        for name, errors in self.state.creation_errors.items():
            found.remove.append((name, tuple(sorted(errors))))
        wrong = self.state.oversized(now)
        if wrong:
            found.lower += list(wrong.items())
            found.halted = "sizes of groups were set right"

    def _groups(self, world: NodeDecisionInputs, now: float) -> list[ScaleUpGroup]:
        return [
            ScaleUpGroup(
                one.name,
                one.target,
                one.most,
                one.template,
                healthy=self.state.group_healthy(one.name),
                backed_off=self._backed_off(one, now),
                gpu=one.gpu,
            )
            for one in world.groups
        ]

    def _backed_off(self, group: GroupSeen, now: float) -> bool:
        books = self.state.backoff
        exhausted = bool(group.sources) and all(books.of(source, now) is not None for source in group.sources)
        return exhausted or books.of(group.name, now) is not None

    def _grow(
        self, world: NodeDecisionInputs, cluster: ScheduledCluster, found: NodeDecisions, around: ExpanderContext, now: float
    ) -> Mapping[Row, list[SchedulablePod]] | None:
        """Let groups grow for the pods that no node takes.

        The answer is where the pending pods go that need no growth, or None if scale-down should not look at this moment.
        """
        start = cluster.size
        for group in world.groups:
            for _node in range(self.state.upcoming(group.name, now) if group.template is not None else 0):
                node_estimator.add(cluster, group.template)
        fled = [pod for one in world.nodes if one.draining for pod in one.pods if recreated(pod)]
        looked_at = affinity_limits.within(world.waiting)
        found.postponed = len(world.waiting) - len(looked_at)
        planned = affinity_limits.within([*looked_at, *world.planned])[len(looked_at) :]
        waiting = pending_pods.place(cluster, [*looked_at, *fled, *planned], self.settings.pending)
        left = pending_pods.old_enough(waiting.left, self.settings.pending, now)
        limit = self.settings.scale_up.limits.nodes
        calm = True
        if left and pending_pods.all_new(left, self.settings.pending, now):
            calm = False
        elif left and limit and sum(one.ready for one in world.nodes) >= limit:
            found.not_triggered = _real(left, world)
        elif left:
            shapes = pending_pods.shapes(cluster, left)
            found.scale_up = scaleup.decide(cluster, self._groups(world, now), shapes, self.settings.scale_up, around)
            found.grow = list(found.scale_up.increases)
            found.triggered = [left[place] for place in found.scale_up.triggered]
            quiet = not found.grow and not found.scale_up.refused
            found.not_triggered = _real([left[place] for place in found.scale_up.remaining], world) if quiet else []
        cluster.open[start : cluster.size] = False
        return waiting.placed if calm else None

    def _shrink(  # noqa: PLR0913, PLR0917  # what is known, and where the answers go
        self,
        world: NodeDecisionInputs,
        cluster: ScheduledCluster,
        placed: Mapping[Row, list[SchedulablePod]],
        found: NodeDecisions,
        now: float,
        replace: ReplacementRequest,
    ) -> None:
        """Look for unneeded nodes, and let those go whose time has come."""
        groups = self._sizes(world)
        names = set(groups)
        nodes = [
            ScaleDownNode(
                row,
                one.node.name,
                one.group if one.group in names else "",
                (*one.pods, *placed.get(row, ())),
                ready=one.ready,
                disabled=one.annotations.get(DISABLED) == "true",
                deleting=one.deleting,
                gpu=one.gpu,
                capacity=one.node.capacity,
            )
            for row, one in enumerate(world.nodes)
        ]
        scene = DrainContext(now, self.settings.drain, world.workloads, world.budgets)
        self.scale_down.look(cluster, nodes, groups, scene)
        if replace.names:
            found.outdated = self._replace(world, cluster, nodes, groups, scene, replace, now)
        self.scale_down.keep({one.row for one in nodes if one.name in replace.held}, nodes)
        if replace.cheaper is not None:
            found.cheaper = self._cheaper(world, cluster, nodes, groups, scene, replace, found, now)
        found.cooling = self._cooling(found, now)
        if not found.cooling:
            running = RunningDeletions(
                sum(one.deleting is not None and not one.draining for one in world.nodes),
                sum(one.deleting is not None and one.draining for one in world.nodes),
            )
            found.delete = self.scale_down.choose(groups, running, cluster, now)
            found.outdated.give_way(found.delete)
        if not found.delete.empty and not found.delete.drain:
            self.soft_taints(world, found)

    def _replace(  # noqa: PLR0913, PLR0917  # what is known, and what is asked
        self,
        world: NodeDecisionInputs,
        cluster: ScheduledCluster,
        nodes: Sequence[ScaleDownNode],
        groups: dict[str, GroupSize],
        scene: DrainContext,
        asked: ReplacementRequest,
        now: float,
    ) -> Replacements:
        """Decide about nodes that should be replaced; nodes that their pods should move to are no candidates any more."""
        place = {name: number for number, name in enumerate(asked.names)}
        wanted = sorted((one for one in nodes if one.name in place and one.deleting is None), key=lambda one: place[one.name])
        offers = {
            one.name: node_replacements.offer(
                one.name,
                one.template,
                groups[one.name],
                nodes,
                grows=one.target < one.most and not self._backed_off(one, now),
                coming=bool(self.state.upcoming(one.name, now)),
            )
            for one in world.groups
        }
        rows = [one.row for one in nodes if one.name in asked.leaving]
        found = node_replacements.find(
            self.scale_down, cluster, wanted, offers, scene, leaving=rows, room=asked.room, started=asked.started
        )
        self.scale_down.keep(found.targets, nodes)
        for one in found.go if asked.room else ():
            size = groups[one.node.group]
            groups[one.node.group] = dataclasses.replace(size, deleting=size.deleting + 1)
        return found

    def _cheaper(  # noqa: PLR0913, PLR0917  # what is known, and what is asked
        self,
        world: NodeDecisionInputs,
        cluster: ScheduledCluster,
        nodes: Sequence[ScaleDownNode],
        groups: Mapping[str, GroupSize],
        scene: DrainContext,
        asked: ReplacementRequest,
        found: NodeDecisions,
        now: float,
    ) -> Consolidation:
        """Nodes that a cheaper one could replace, among those that no other decision concerns."""
        request = asked.cheaper or ConsolidationRequest({}, (), 1.0, 1)
        grown = {one.group for one in found.grow}
        skipped = scaleup.not_growing(cluster, self._groups(world, now), self.settings.scale_up)
        templates = {
            one.name: one.template
            for one in world.groups
            if one.template is not None and one.name not in skipped and one.name not in grown
        }
        able = {name: template for name, template in templates.items() if not self.state.upcoming(name, now)}
        others = {*asked.names, *asked.leaving, *asked.started, *asked.held}
        closed = {one.row for one in nodes if one.name in others} | found.outdated.targets
        return consolidation.find(self.scale_down, cluster, nodes, able, scene, groups=groups, asked=request, closed=closed)

    def _sizes(self, world: NodeDecisionInputs) -> dict[str, GroupSize]:
        deleting: dict[str, int] = {}
        for one in world.nodes:
            if one.deleting is not None:
                deleting[one.group] = deleting.get(one.group, 0) + 1
        return {g.name: GroupSize(g.target, g.least, g.options, deleting.get(g.name, 0)) for g in world.groups}

    def _cooling(self, found: NodeDecisions, now: float) -> bool:
        delays = self.settings.delays
        grown = now if found.grow else self.grown
        return (
            grown + delays.after_add > now
            or self.deleted + delays.after_delete > now
            or self.stumbled + delays.after_failure > now
        )

    def soft_taints(self, world: NodeDecisionInputs, found: NodeDecisions) -> None:
        """Mark nodes that may go soon so that the scheduler would rather use others; at most so many changes, removals first.

        A decision does that itself unless it chose nodes to delete; whoever lets none of them go asks for it.
        """
        most = self.settings.soft_taints
        wanted = self.scale_down.unneeded
        staying = [one for one in world.nodes if one.deleting is None]
        if not most:
            found.untaint = [one.node.name for one in staying if one.soft_tainted]
            return
        found.untaint = [one.node.name for one in staying if one.soft_tainted and one.node.name not in wanted][:most]
        new = [one.node.name for one in staying if not one.soft_tainted and one.node.name in wanted]
        found.taint = new[: most - len(found.untaint)]


def _real(pods: list[SchedulablePod], world: NodeDecisionInputs) -> list[SchedulablePod]:
    """The pods that exist, without planned ones."""
    planned = {pod.key for pod in world.planned}
    return [pod for pod in pods if pod.key not in planned]


def _look(world: NodeDecisionInputs) -> RegistrySnapshot:
    nodes = [
        SeenNode(one.node.name, one.group, one.created, one.ready and not one.node.unschedulable, one.suspended, one.gone)
        for one in world.nodes
    ]
    return RegistrySnapshot({group.name: group.target for group in world.groups}, nodes, world.instances)


def _picture(world: NodeDecisionInputs, settings: PendingSettings) -> ScheduledCluster:
    """The cluster in columns, a row for each node, without pods that are expendable; nodes under deletion take no more pods."""
    cluster = ScheduledCluster(world.namespaces)
    cluster.add_all([one.node for one in world.nodes])
    shares: dict[PodNature, dict[int, int]] = {}
    for row, one in enumerate(world.nodes):
        cluster.open[row] &= one.deleting is None
        for nature, number in Counter(map(pending_pods.NATURE, one.pods)).items():
            shares.setdefault(nature, {})[row] = number
    for nature, counts in shares.items():
        if not pending_pods.expendable(nature, settings):
            cluster.move(cluster.shape(nature.shape), *numbers(counts))
    cluster.settle()
    return cluster
