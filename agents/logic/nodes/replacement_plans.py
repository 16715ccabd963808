"""Plans for nodes that are replaced: they go within the budgets, and where a group must grow first, it grows.

Growth takes up room as a drain does: nothing is started whose drain could not begin.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agents.engine.turn import Decided
from agents.logic.nodes import drain_room, open_plans, scaling_plans, started_replacements
from agents.logic.nodes.consolidation import CheaperNode
from agents.logic.nodes.drain_room import DrainRoom
from agents.logic.nodes.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.node_decision_values import NodeDecisions
from agents.logic.nodes.scaler_records import NO_TIMERS, ConsolidationTimers, SaidLast, StartedReplacement
from agents.logic.nodes.scaler_state import GROWTH, ScalerState
from agents.logic.nodes.scaling_plans import PlanContext
from schemas.decisions.node_updates import RemovalReason, ScaleUpPlanned


@dataclass(frozen=True, slots=True)
class ReplacementPlanner:
    """One look at a cluster, and what it leaves of the room for drains."""

    state: ScalerState
    context: PlanContext
    found: NodeDecisions
    auto: NodeAutoscaler
    wanted: Mapping[str, RemovalReason]

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.context.turn.number / 1000

    def plans(self) -> Iterator[Decided]:
        """Nodes that can go go; groups grow for such as cannot; and at most one cheaper node is started."""
        context = self.context
        budget = drain_room.budget_of(context.settings, self.state.control.get(context.cluster), context.turn.number)
        room = drain_room.of(context.view, context.settings, context.headcount, self.found, budget)
        yield from self._removals(room)
        yield from self._same_group(room)
        yield from self._cheaper(room)

    def _removals(self, room: DrainRoom) -> Iterator[Decided]:
        cluster, view = self.context.cluster, self.context.view
        records = started_replacements.of_cluster(self.state, cluster).values()
        for one in self.found.outdated.go:
            name, reason = one.node.name, self.wanted[one.node.name]
            if room.objection(broken=reason is RemovalReason.BROKEN) is not None:
                continue
            if open_plans.is_new(self.state, cluster, f"{cluster}/node/{name}", SaidLast("remove", reason.value)):
                room.take(ready=one.node.ready)
                self.auto.started([one.node.group], self.now)
                record = next((each for each in records if name in each.names and each.node in view.nodes), None)
                numbers = {} if record is None else scaling_plans.replaced(record)
                places = () if record is None else (view.nodes[record.node].place, view.groups[record.group].place)
                yield open_plans.removal(self.state, self.context, one, reason, numbers, *places)

    def _same_group(self, room: DrainRoom) -> Iterator[Decided]:
        """Growth for nodes that are outdated, broken or to be left."""
        context, cluster = self.context, self.context.cluster
        for group, name in self.found.outdated.start.items():
            reason = self.wanted[name]
            key, target = f"{cluster}/group/{group}", context.view.sized[group].target
            broken = reason is RemovalReason.BROKEN
            held = self.auto.state.upcoming(group, self.now) or room.objection(broken=broken) is not None
            if held or not open_plans.is_new(self.state, cluster, key, SaidLast("grow", str(target)), self._about(name)):
                continue
            plan = scaling_plans.replacement(context, group, name, reason)
            yield self._started(room, plan, StartedReplacement(plan.id, group, (name,), reason.value, self.now))

    def _cheaper(self, room: DrainRoom) -> Iterator[Decided]:
        """Growth for nodes that a cheaper one has been able to replace for long enough: one at a time in a cluster."""
        cluster = self.context.cluster
        timers = self.state.consolidation.get(cluster) or NO_TIMERS
        records = started_replacements.of_cluster(self.state, cluster).values()
        under_way = any(one.reason == RemovalReason.CONSOLIDATED for one in records)
        if under_way or self.found.cooling or self.found.grow or room.objection(broken=False) is not None:
            return
        for option in self.found.cheaper.found:
            key = f"{cluster}/group/{option.group}"
            said = SaidLast("grow", f"{option.group} to {self.context.view.sized[option.group].target + 1}")
            new = self._ripe(option, timers) and open_plans.is_new(self.state, cluster, key, said, self._about(option.names[0]))
            if not new:
                continue
            plan = scaling_plans.cheaper(self.context, option, {name: timers.since[name] for name in option.names})
            reason = RemovalReason.CONSOLIDATED.value
            record = StartedReplacement(
                plan.id, option.group, option.names, reason, self.now, before=option.before, after=option.after
            )
            yield self._started(room, plan, record)
            return

    def _about(self, name: str) -> str:
        """What a growth for a node is remembered by, as long as the node is there."""
        return f"{self.context.cluster}/{GROWTH}/{name}"

    def _ripe(self, option: CheaperNode, timers: ConsolidationTimers) -> bool:
        """Whether each of the nodes could have been replaced for as long as its group's nodes must be unneeded."""
        view = self.context.view
        waits = {name: view.sized[view.seen[name].group].options.unneeded for name in option.names}
        return all(timers.since.get(name, self.now) + wait < self.now for name, wait in waits.items())

    def _started(self, room: DrainRoom, plan: ScaleUpPlanned, record: StartedReplacement) -> Decided:
        """Open the plan, and remember what it is for if it is carried out."""
        context, view = self.context, self.context.view
        room.drains += 1
        self.auto.grew(plan.group, 1, self.now)
        if open_plans.acting(self.state, context.cluster):
            self.state.replacements.upsert(f"{context.cluster}/{record.names[0]}", record)
        nodes = [view.nodes[name].place for name in record.names]
        groups = dict.fromkeys((record.group, *(view.seen[name].group for name in record.names)))
        return open_plans.growth(self.state, context, plan, *(view.groups[group].place for group in groups), *nodes)
