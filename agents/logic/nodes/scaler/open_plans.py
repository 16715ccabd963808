"""Plans are made once: while one is open, nothing further is planned for its group or node; in shadow only changes are.

The plans that need no more than that are made here: for the statuses of CapacityBuffers, and for groups that are to want no more
nodes than there are, once their cloud has failed to deliver the others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agents.engine.turn import Decided
from agents.logic.guards import shared_guards
from agents.logic.nodes.autoscaler.cluster_state_registry import NodeReadiness
from agents.logic.nodes.autoscaler.group_backoff import ScaleUpFailure
from agents.logic.nodes.cluster import outdated_nodes
from agents.logic.nodes.cluster.capacity_buffers import BUFFER
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import (
    GROWTH,
    NO_TIMERS,
    SIZE,
    OpenNodePlan,
    SaidLast,
    StartedReplacement,
    lowers,
)
from agents.logic.nodes.removal.consolidation import CheaperNode
from agents.logic.nodes.removal.unneeded_nodes import UnneededNode
from agents.logic.nodes.scaler import scaling_plans, started_replacements
from agents.logic.nodes.scaler.decision_round import DecisionRound
from agents.logic.nodes.scaler.drain_limits import DrainLimits
from agents.logic.nodes.scaler.scaling_plans import PlanContext
from schemas import times
from schemas.decisions.node_updates import (
    BufferStatusPlanned,
    NodeRemovalPlanned,
    RemovalReason,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
)
from schemas.decisions.recommendations import Because
from schemas.names import Place
from schemas.policies.control import Mode


def acting(state: ScalerState, cluster: str) -> bool:
    """Whether plans of a cluster are carried out."""
    return shared_guards.mode(state.control.get(cluster)) is Mode.APPLY


def is_new(state: ScalerState, cluster: str, key: str, said: SaidLast, about: str = "") -> bool:
    """Whether to make a plan: always while plans are carried out, else only if it differs from the last one.

    `about`: the key of the last one, if that is not the plan's.
    """
    plan = state.plans.get(key)
    # A group whose growth was carried out may grow again before its source has seen that: it counts as being as large as that
    # plan made it.
    if plan is not None and not (plan.done and key.split("/", 2)[1] == "group"):
        return False
    fresh = acting(state, cluster) or state.said.get(about or key) != said
    if fresh:
        state.said.upsert(about or key, said)
    return fresh


def growth(state: ScalerState, context: PlanContext, plan: ScaleUpPlanned, *places: Place) -> Decided:
    """Open a plan for a group that grows."""
    key, now = f"{context.cluster}/group/{plan.group}", context.turn.number / 1000
    state.plans.upsert(key, OpenNodePlan(plan.id, plan.group, now, times.to_seconds(plan.expires), plan.after))
    return context.decided(plan, *places)


def removal(
    state: ScalerState,
    context: PlanContext,
    unneeded: UnneededNode,
    reason: RemovalReason | None = None,
    numbers: Because | None = None,
    *places: Place,
) -> Decided:
    """Open a plan for a node that goes; `numbers` are added to those of the node, `places` to those of node and group."""
    name = unneeded.node.name
    uids = state.ready_index().uids(f"{context.cluster}/{name}")
    plan = scaling_plans.removal(context, unneeded, uids, reason, numbers or {})
    place = context.view.nodes[name].place
    return planned(state, context, f"{context.cluster}/node/{name}", plan, place, *places, draining=not unneeded.empty)


def planned(
    state: ScalerState, context: PlanContext, key: str, plan: NodeRemovalPlanned, *places: Place, draining: bool = False
) -> Decided:
    """Open a plan for a node or an instance that goes."""
    now = context.turn.number / 1000
    state.plans.upsert(key, OpenNodePlan(plan.id, plan.group, now, times.to_seconds(plan.expires), draining=draining))
    return context.decided(plan, *places, context.view.groups[plan.group].place)


def buffer_statuses(state: ScalerState, look: DecisionRound) -> Iterator[Decided]:
    """A plan for the status of each buffer that does not show what the scaler makes of it, unless one is open."""
    context, auto, now = look.context, look.auto, look.now
    cluster = context.cluster
    for name, wanted in context.view.buffers.items():
        buffer = state.buffers.get(name)
        # A status that is right is not written again, whoever wrote it.
        if buffer is None or buffer.fact.shown == wanted:
            continue
        fact = buffer.fact
        about = f"{fact.namespace}/{fact.name}"
        key = f"{cluster}/{BUFFER}/{about}"
        hint = f"{wanted.replicas}: {wanted.message}{wanted.limited}"
        if auto.hint_repeats(f"status of {about}", hint, now) or not is_new(state, cluster, key, SaidLast(BUFFER, hint)):
            continue
        auto.hinted(f"status of {about}", hint, now)
        plan = BufferStatusPlanned(
            id=context.id(BUFFER, about),
            at=context.turn.at,
            expires=context.expires(),
            cluster=cluster,
            namespace=fact.namespace,
            name=fact.name,
            uid=fact.uid,
            ready=wanted.ready,
            replicas=wanted.replicas,
            template=wanted.template,
            template_generation=wanted.generation,
            message=wanted.message,
            because={"replicas": fact.replicas, "percentage": fact.percentage, "limits": dict(fact.limits or {})},
            limited=wanted.limited,
        )
        state.plans.upsert(key, OpenNodePlan(plan.id, "", now, times.to_seconds(plan.expires)))
        yield context.decided(plan, buffer.place)


def size_corrections(state: ScalerState, look: DecisionRound) -> Iterator[Decided]:
    """A plan for each group that wants more nodes than its cloud delivers; none while it grows, or after one was refused.

    A plan says what the facts show; the consumer lowers the size to the instances that there are then, and never below them.
    """
    context, auto, now = look.context, look.auto, look.now
    cluster = context.cluster
    for group in sorted({*auto.state.given_up, *(name for name, _delta in look.decisions.lower)}):
        seen, open_growth = context.view.sized[group], state.plans.get(f"{cluster}/group/{group}")
        after = max(auto.state.groups.get(group, NodeReadiness()).delivered, seen.least)
        grows = open_growth is not None and not open_growth.done
        # Left alone, the group would go on asking for nodes whose pods have gone elsewhere meanwhile.
        if after >= seen.target or grows or auto.kept_size.get(group, now) > now:
            continue
        key = f"{cluster}/{SIZE}/{group}"
        if is_new(state, cluster, key, SaidLast("lower", f"{seen.target} to {after}")):
            failure = auto.state.backoff.of(group, now)
            plan = _size_correction(context, group, after, failure)
            state.plans.upsert(key, OpenNodePlan(plan.id, group, now, times.to_seconds(plan.expires), after))
            yield context.decided(plan, context.view.groups[group].place)


def size_open(state: ScalerState, cluster: str, group: str) -> bool:
    """Whether such a plan of a group is not carried out yet; until then the group's size is about to change."""
    plan = state.plans.get(f"{cluster}/{SIZE}/{group}")
    return plan is not None and not plan.done


def lowered_groups(state: ScalerState, cluster: str) -> Iterator[str]:
    """The groups whose size a plan that was not forgotten yet lowers: for a node or an instance that goes, or by itself."""
    return (plan.group for key, plan in state.plans.items() if lowers(key) and key.startswith(f"{cluster}/"))


def _size_correction(context: PlanContext, group: str, after: int, failure: ScaleUpFailure | None) -> SizeCorrectionPlanned:
    """`failure`: why the cloud delivered no more, as far as it said so."""
    seen = context.view.sized[group]
    why: Because = {} if failure is None else {"failure": failure.code, "message": failure.message}
    return SizeCorrectionPlanned(
        id=context.id("correct-size", group),
        at=context.turn.at,
        expires=context.expires(),
        cluster=context.cluster,
        group=group,
        before=seen.target,
        after=after,
        because={"least": seen.least, "most": seen.most, **why},
    )


# Plans for nodes that are replaced: they go within the budgets, and where a group must grow first, it grows.


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
            if is_new(self.state, cluster, f"{cluster}/node/{name}", SaidLast("remove", reason.value)):
                room.take(node.group, ready=node.ready)
                look.auto.started([node.group], look.now)
                record = started_replacements.for_node(self.state, cluster, name)
                if record is None:
                    look.auto.replaced(node.group, look.now - outdated_nodes.began(view, name), look.now)
                came = record if record is not None and record.node in view.nodes else None
                numbers = {} if came is None else scaling_plans.replaced(came)
                places = () if came is None else (view.nodes[came.node].place, view.groups[came.group].place)
                yield removal(self.state, self.context, unneeded, reason, numbers, *places)

    def _same_group(self, room: DrainLimits) -> Iterator[Decided]:
        """Growth for nodes that are outdated, broken or to be given up."""
        context, cluster = self.context, self.context.cluster
        for group, name in self.look.decisions.outdated.start.items():
            reason = self.look.wanted[name]
            key, target = f"{cluster}/group/{group}", context.view.sized[group].target
            broken = reason is RemovalReason.BROKEN
            held = self.look.auto.state.upcoming(group, self.look.now) or room.objection(group, broken=broken) is not None
            if held or not is_new(self.state, cluster, key, SaidLast("grow", str(target)), self._about(name)):
                continue
            plan = scaling_plans.replacement(context, group, name, reason)
            age = self.look.now - outdated_nodes.began(context.view, name)
            self.look.auto.replaced(group, age, self.look.now)
            yield self._started(room, plan, StartedReplacement(plan.id, group, (name,), reason.value, self.look.now))

    def _cheaper(self, room: DrainLimits) -> Iterator[Decided]:
        """Growth for nodes that a cheaper one has been able to replace for long enough."""
        cluster, look = self.context.cluster, self.look
        for option in look.decisions.cheaper.options:
            if self.nothing_cheaper(room, option):
                continue
            key = f"{cluster}/group/{option.group}"
            said = SaidLast("grow", f"{option.group} to {self.context.view.sized[option.group].target + 1}")
            new = self.ripe(option) and is_new(self.state, cluster, key, said, self._about(option.names[0]))
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
        if acting(self.state, context.cluster):
            self.state.replacements.upsert(f"{context.cluster}/{record.names[0]}", record)
        nodes = [view.nodes[name].place for name in record.names]
        groups = dict.fromkeys((record.group, *(view.seen[name].group for name in record.names)))
        return growth(self.state, context, plan, *(view.groups[group].place for group in groups), *nodes)
