"""Plans for nodes that are replaced: they go within the budgets, and where a group must grow first, it grows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agents.engine.turn import Decided
from agents.logic.nodes.cluster.scaler_state import GROWTH, ScalerState
from agents.logic.nodes.cluster.scaler_table_values import NO_TIMERS, SaidLast, StartedReplacement
from agents.logic.nodes.removal.consolidation import CheaperNode
from agents.logic.nodes.scaler import open_plans, scaling_plans, started_replacements
from agents.logic.nodes.scaler.decision_round import DecisionRound
from agents.logic.nodes.scaler.drain_limits import DrainLimits
from agents.logic.nodes.scaler.scaling_plans import PlanContext
from schemas.decisions.node_updates import RemovalReason, ScaleUpPlanned


@dataclass(frozen=True, slots=True)
class ReplacementPlanner:
    """One look at a cluster, and the remaining room for drains."""

    state: ScalerState
    look: DecisionRound

    @property
    def context(self) -> PlanContext:
        """The context of the look."""
        return self.look.context

    def plans(self) -> Iterator[Decided]:
        """Plans for nodes that can go, for groups that must grow before a node can go, and for at most one cheaper node."""
        room = self.look.room()
        yield from self._removals(room)
        yield from self._same_group(room)
        yield from self._cheaper(room)

    def _removals(self, room: DrainLimits) -> Iterator[Decided]:
        cluster, view, look = self.context.cluster, self.context.view, self.look
        for unneeded in look.decisions.outdated.go:
            node, reason = unneeded.node, look.wanted[unneeded.node.name]
            name = node.name
            if room.objection(node.group, broken=reason is RemovalReason.BROKEN) is not None:
                continue
            if open_plans.is_new(self.state, cluster, f"{cluster}/node/{name}", SaidLast("remove", reason.value)):
                room.take(node.group, ready=node.ready)
                look.auto.started([node.group], look.now)
                record = started_replacements.for_node(self.state, cluster, name)
                came = record if record is not None and record.node in view.nodes else None
                numbers = {} if came is None else scaling_plans.replaced(came)
                places = () if came is None else (view.nodes[came.node].place, view.groups[came.group].place)
                yield open_plans.removal(self.state, self.context, unneeded, reason, numbers, *places)

    def _same_group(self, room: DrainLimits) -> Iterator[Decided]:
        """Growth for nodes that are outdated, broken or to be given up."""
        context, cluster = self.context, self.context.cluster
        for group, name in self.look.decisions.outdated.start.items():
            reason = self.look.wanted[name]
            key, target = f"{cluster}/group/{group}", context.view.sized[group].target
            broken = reason is RemovalReason.BROKEN
            held = self.look.auto.state.upcoming(group, self.look.now) or room.objection(group, broken=broken) is not None
            if held or not open_plans.is_new(self.state, cluster, key, SaidLast("grow", str(target)), self._about(name)):
                continue
            plan = scaling_plans.replacement(context, group, name, reason)
            yield self._started(room, plan, StartedReplacement(plan.id, group, (name,), reason.value, self.look.now))

    def _cheaper(self, room: DrainLimits) -> Iterator[Decided]:
        """Growth for nodes that a cheaper one has been able to replace for long enough."""
        cluster, look = self.context.cluster, self.look
        for option in look.decisions.cheaper.options:
            if self.nothing_cheaper(room, option):
                continue
            key = f"{cluster}/group/{option.group}"
            said = SaidLast("grow", f"{option.group} to {self.context.view.sized[option.group].target + 1}")
            new = self.ripe(option) and open_plans.is_new(self.state, cluster, key, said, self._about(option.names[0]))
            if not new:
                continue
            since = self.since
            plan = scaling_plans.cheaper(self.context, option, {name: since[name] for name in option.names})
            reason = RemovalReason.CONSOLIDATED.value
            record = StartedReplacement(
                plan.id, option.group, option.names, reason, look.now, before=option.before, after=option.after
            )
            yield self._started(room, plan, record)
            return

    def nothing_cheaper(self, room: DrainLimits, option: CheaperNode) -> str:
        """Why no cheaper node is started now, whatever it saves; empty if one may be."""
        records = started_replacements.of_cluster(self.state, self.context.cluster).values()
        if any(record.reason == RemovalReason.CONSOLIDATED for record in records):
            return "another one is being replaced by a cheaper one"
        if self.look.decisions.grow:
            return "groups grow for pods that wait"
        if self.look.decisions.cooling or self.look.auto.settling(self.look.now, growing=False):
            return scaling_plans.COOLING
        groups = {self.context.view.seen[name].group for name in option.names}
        objections = (room.objection(group, broken=False) for group in sorted(groups))
        return next((objection.reason for objection in objections if objection is not None), "")

    def ripe(self, option: CheaperNode) -> bool:
        """Whether each of the nodes could have been replaced for as long as its group's nodes must be unneeded."""
        view, since, now = self.context.view, self.since, self.look.now
        waits = {name: view.sized[view.seen[name].group].options.unneeded for name in option.names}
        return all(since.get(name, now) + wait < now for name, wait in waits.items())

    @property
    def since(self) -> Mapping[str, float]:
        """When each node could be replaced by a cheaper one first."""
        return (self.state.consolidation.get(self.context.cluster) or NO_TIMERS).since

    def _about(self, name: str) -> str:
        """The key of a growth for a node, valid as long as the node exists."""
        return f"{self.context.cluster}/{GROWTH}/{name}"

    def _started(self, room: DrainLimits, plan: ScaleUpPlanned, record: StartedReplacement) -> Decided:
        """Open the plan, and remember what it is for if it is carried out."""
        context, view = self.context, self.context.view
        # Growth takes up room as a drain does: nothing is started whose drain could not begin.
        room.drains += 1
        self.look.auto.grew(plan.group, 1, self.look.now)
        # In shadow no node comes that could be waited for.
        if open_plans.acting(self.state, context.cluster):
            self.state.replacements.upsert(f"{context.cluster}/{record.names[0]}", record)
        nodes = [view.nodes[name].place for name in record.names]
        groups = dict.fromkeys((record.group, *(view.seen[name].group for name in record.names)))
        return open_plans.growth(self.state, context, plan, *(view.groups[group].place for group in groups), *nodes)
