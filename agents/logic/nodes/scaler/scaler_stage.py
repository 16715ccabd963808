"""The scaler: facts about nodes, pods and node groups in; plans to grow a group or remove a node, and refusals out.

It decides when there is a reason: when no further waiting pods came for a moment, when something that they waited for happened,
and once in each interval, because timers run. It lowers a size only to the nodes that exist. It decides nothing until sources
report that they see the cluster. It touches neither the cluster nor its cloud.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from agents.engine.tables.chunked_state import PartedState
from agents.engine.turn import Decided, Turn
from agents.logic.guards import shared_guards
from agents.logic.guards.shared_guards import Objection
from agents.logic.nodes.autoscaler import decision_steps, node_autoscaler
from agents.logic.nodes.autoscaler.group_backoff import ScaleUpFailure
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisions
from agents.logic.nodes.aws import group_options
from agents.logic.nodes.cluster import capacity_buffers, outdated_nodes, planned_replicas
from agents.logic.nodes.cluster.capacity_buffers import BUFFER
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import NO_ATTENTION, NO_TIMERS, SIZE, SOFT, Attention, OpenNodePlan, SaidLast
from agents.logic.nodes.growth.expanders import Expander
from agents.logic.nodes.scaler import (
    decision_round,
    expander_asks,
    group_troubles,
    open_plans,
    scaling_plans,
    scaling_refusals,
    started_replacements,
)
from agents.logic.nodes.scaler.decision_round import DecisionRound
from agents.logic.nodes.scaler.open_plans import ReplacementPlanner
from agents.logic.nodes.scaler.scaling_plans import PlanContext
from agents.logic.nodes.scaler_settings import NAME, ScalerProfile, ScalerSettings
from agents.logic.stage_rules import StageRules
from schemas import times
from schemas.decision_subjects import Subject
from schemas.decisions.node_updates import RefusalCode, ScaleRefused
from schemas.names import Place
from schemas.outcomes import ActionFinished, OutcomeDetail, Result

MOST_EXPLAINED = 20
"""Natures of waiting pods that one decision explains."""
SEEN_LATE = 300.0
"""Seconds for which a plan that was carried out is believed although no fact shows it."""
ANSWERED_LATE = 10.0
"""Seconds for which the outcome of a plan that expired is awaited: it says why the plan was not carried out."""
TAKEN_WITHIN = 300.0
"""Seconds after the notice of an interruption in which the cloud takes the instance; AWS says two minutes."""
_LASTING = frozenset((OutcomeDetail.AT_LIMIT, OutcomeDetail.NOT_FOUND, OutcomeDetail.INVALID, OutcomeDetail.FORBIDDEN))
"""What a refusal may come down to that the next facts need not show: bounds of AWS beyond ours, a group that is gone."""
_HELD_UP = frozenset((OutcomeDetail.THROTTLED, OutcomeDetail.SERVER_ERROR, OutcomeDetail.IN_PROGRESS, OutcomeDetail.NO_ANSWER))
"""What the last try of a plan that expired may have met: the cloud put it off, or answered nobody."""


class Scaler(PartedState):
    """The state of one partition. `owns` says whether a cluster belongs to it."""

    def __init__(self, settings: ScalerSettings, partition: int, owns: Callable[[str], bool]) -> None:
        self.partition, self._own, self._owns = partition, settings, owns
        self._build(settings)

    def _build(self, settings: ScalerSettings) -> None:
        """Make the empty state that decides by these settings."""
        self.settings, self._core = settings, decision_round.autoscaler_settings(settings)
        self.rules = StageRules(NAME, self._own)
        self.clusters = ScalerState(self._owns)
        super().__init__(*self.clusters.tables(), self.rules.table)

    def step(self, turn: Turn) -> Sequence[Decided]:
        """Take a turn in; decide about the clusters for which it is time."""
        self.scatter(turn)
        self._follow_rules(turn)
        state, now = self.clusters, turn.number / 1000
        state.ingest(turn)
        if self.settings.planned_replicas:
            planned_replicas.ingest(state, turn.of(planned_replicas.TOPIC), now)
        capacity_buffers.ingest(state, turn.of(capacity_buffers.TOPIC), now)
        expander_asks.ingest(state, turn.of("outcomes"), now)
        self._expire(now)
        self._learn(now)
        decided: list[Decided] = []
        for cluster in sorted({key.split("/", 1)[0] for key in state.groups}):
            attention = state.attention.get(cluster) or NO_ATTENTION
            look = now - attention.looked >= self.settings.interval
            if (look or self._urgent(attention, now)) and state.blind(cluster, now) is None:
                state.attention.upsert(cluster, Attention(None, attention.last, now if look else attention.looked))
                decided += self._decide(turn, cluster, look=look)
        return decided

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        super().load(chunk, data)
        self.clusters.loaded()

    def _follow_rules(self, turn: Turn) -> None:
        """Decide by the rules that the log has from this turn on."""
        self.rules.ingest(turn.of("rules"))
        settings = self.rules.settings
        if settings != self.settings:
            self.rebuild(partial(self._build, settings))

    def _urgent(self, attention: Attention, now: float) -> bool:
        """Whether news has come, and has been collected for long enough."""
        if attention.first is None or self.settings.profile == ScalerProfile.UPSTREAM:
            return False
        return now - attention.last >= self.settings.batch_idle or now - attention.first >= self.settings.batch_most

    # Results of plans

    def _expire(self, now: float) -> None:
        """Forget plans that were not carried out in time, and those whose result never showed."""
        for key, plan in list(self.clusters.plans.items()):
            if now > plan.expires + (SEEN_LATE if plan.done else ANSWERED_LATE):
                self.clusters.plans.remove(key)
        planned_replicas.expire(self.clusters, now)
        expander_asks.expire(self.clusters, now)

    def _learn(self, now: float) -> None:
        """Let failed activities and failed plans count."""
        state = self.clusters
        touched = {event.cluster for event in state.failures} | {event.cluster for event, _ in state.resized}
        touched |= {cluster for cluster, _, _ in state.carried_out}
        touched |= {event.subject.cluster for _, _, event in state.finished}
        for cluster in sorted(touched):
            auto = node_autoscaler.recall(state.memory.get(cluster), self._core, now)
            for failure in state.failures:
                if failure.cluster == cluster:
                    # The cloud's clock may be ahead of ours, and a backoff must not begin in the future.
                    at = min(now, times.to_seconds(failure.at))
                    what = ScaleUpFailure("OutOfResources", failure.code, failure.message[:500])
                    auto.failed_to_grow(failure.group, what, at)
                    auto.state.requests.pop(failure.group, None)
                    group = state.groups.get(f"{cluster}/{failure.group}")
                    for pool in group_options.empty_pools(failure, spot=group is not None and group.fact.spot):
                        auto.failed_to_grow(pool, what, at)
            auto.carried_out([(kind, group) for where, kind, group in state.carried_out if where == cluster], now)
            for event, before in state.resized:
                if event.cluster == cluster:
                    auto.resized(event.group, before, event.desired, now)
            for key, plan, outcome in state.finished:
                if outcome.subject.cluster == cluster:
                    self._failed(auto, key, plan, outcome, now)
            state.memory.upsert(cluster, node_autoscaler.remember(auto))

    @staticmethod
    def _failed(auto: NodeAutoscaler, key: str, plan: OpenNodePlan, outcome: ActionFinished, now: float) -> None:
        """A plan was not carried out."""
        _cluster, kind, name = key.split("/", 2)
        if kind in (SOFT, BUFFER):
            return
        failed = outcome.result is Result.FAILED
        # A failure, or a refusal that a retry would not mend, delays the next plan for a while. Any other refusal means that the
        # facts were outdated, which the next facts will mend.
        held = failed or (outcome.result is Result.REFUSED and outcome.detail in _LASTING)
        # So does what its cloud put off until it expired: another group may serve the pods meanwhile.
        held = held or (outcome.result is Result.EXPIRED and outcome.detail in _HELD_UP)
        if kind == "group":
            auto.state.requests.pop(plan.group, None)
            if held:
                detail = outcome.detail.value or "failed"
                auto.failed_to_grow(plan.group, ScaleUpFailure("Other", detail, outcome.reason[:500]), now)
            elif outcome.detail is OutcomeDetail.MOVED:
                auto.refused_as_moved(plan.group, outcome.reason[:500], now)
            return
        if kind == SIZE:
            if held:
                auto.failed_to_lower(plan.group, now)
            return
        # The timer of an instance without a node starts again.
        auto.state.since.pop(name, None)
        # Whatever keeps a node may keep it for ever, and each try may have evicted some of its pods: somebody takes marks off, or
        # a pod comes back whenever it was evicted. Only what the control record forbids says nothing of the node.
        if outcome.detail is not OutcomeDetail.NOT_ALLOWED:
            auto.failed_to_leave(name, ScaleUpFailure("Other", outcome.detail.value or "failed", outcome.reason[:500]), now)
        if failed:
            auto.failed_to_start(plan.group, now)

    # Deciding

    def _decide(self, turn: Turn, cluster: str, *, look: bool) -> list[Decided]:
        state, now = self.clusters, turn.number / 1000
        context = decision_round.picture(state, turn, self.partition, cluster, self.settings)
        view = context.view
        for group, pattern in view.patterns.items():
            if state.patterns.get(f"{cluster}/{group}") != pattern:
                state.patterns.upsert(f"{cluster}/{group}", pattern)
        released = started_replacements.settle(state, cluster, view, self.settings, now) if look else []
        taken = decision_round.take(state, context, shrink=look, explain=MOST_EXPLAINED)
        decisions, auto = taken.decisions, taken.auto
        if taken.request.cheaper is not None:
            timers = state.consolidation.get(cluster) or NO_TIMERS
            state.consolidation.upsert(cluster, started_replacements.next_timers(timers, decisions, view, self.settings, now))
        control = state.control.get(cluster)
        pause = shared_guards.paused(control)
        decided: list[Decided] = []
        refusals: list[ScaleRefused] = []
        if pause is None:
            decided += open_plans.size_corrections(state, taken)
            decided += self._growth(context, decisions, auto)
            decided += expander_asks.plans(state, context, decisions.scale_up, decisions.pending)
            decided += self._removals(taken, refusals)
            if refusals and len(refusals) == len(decisions.delete.empty) + len(decisions.delete.drain):
                # The budget lets none of them go, so that they want their soft taints as if none had been chosen.
                decisions = decision_steps.soft_taints(auto, view.inputs, decisions)
            decided += self._interrupted(context, auto)
            decided += ReplacementPlanner(state, taken).plans()
            decided += self._soft_taints(context, decisions, auto)
            decided += open_plans.buffer_statuses(state, taken)
        elif decisions.grow or decisions.scale_up.question or decisions.delete.empty or decisions.delete.drain:
            refusals.append(scaling_refusals.about_cluster(context, RefusalCode.PAUSED, pause))
        decided += group_troubles.reports(state, taken) if look else ()
        refusals += scaling_refusals.all_of(state, taken, decisions, look_at_nodes=look)
        refusals += [scaling_plans.released(context, record, why) for record, why in released]
        auto.lowering(open_plans.lowered_groups(state, cluster), now)
        state.memory.upsert(cluster, node_autoscaler.remember(auto))
        places = () if control is None else (control.place,)
        return [*decided, *scaling_refusals.news(state, context, refusals, look_at_nodes=look, places=places)]

    def _growth(self, context: PlanContext, decisions: NodeDecisions, auto: NodeAutoscaler) -> Iterator[Decided]:
        """Plans for the groups that grow; a group grows no further while its last plan is open."""
        state, cluster, now = self.clusters, context.cluster, context.turn.number / 1000
        if not decisions.grow:
            return
        index = state.ready_index()
        keys = index.waiting_keys(cluster)
        left = decisions.scale_up.triggered
        by_place = dict(zip(left, decisions.triggered, strict=True))
        for increase in decisions.grow:
            key = f"{cluster}/group/{increase.group}"
            waits = open_plans.size_open(state, cluster, increase.group)
            if waits or not open_plans.is_new(state, cluster, key, SaidLast("grow", f"{increase.before} to {increase.after}")):
                continue
            pods = [by_place[place] for place in increase.pods]
            plan = scaling_plans.growth(context, increase, pods, decisions)
            auto.grew(increase.group, increase.after - increase.before, now)
            waiting = [state.pods.get(keys[pod.key]) for pod in pods[:3] if pod.key in keys]
            places = [pod.place for pod in waiting if pod is not None and pod.place is not None]
            places += dict.fromkeys(context.view.planned[pod.key] for pod in pods if pod.key in context.view.planned)
            places += [context.view.groups[increase.group].place, *self._expander_places(context)]
            yield open_plans.growth(state, context, plan, *places)

    def _expander_places(self, context: PlanContext) -> tuple[Place, ...]:
        """The places of what the expanders went by: the groups' priorities, and somebody else's answer."""
        priorities = context.view.priorities if Expander.PRIORITY in self._core.scale_up.expanders else None
        places = [] if priorities is None else [priorities.place]
        answered = context.asked
        return (*places, *((answered.place,) if answered is not None and answered.place is not None else ()))

    def _removals(self, look: DecisionRound, refusals: list[ScaleRefused]) -> Iterator[Decided]:
        """Plans for the nodes that go, as far as the budget lets them, and for instances that never became nodes."""
        context, state = look.context, self.clusters
        cluster = context.cluster
        for _group, names in look.decisions.remove:
            for name in names:
                instance, key = context.view.unregistered.get(name), f"{cluster}/node/{name}"
                if instance is not None and open_plans.is_new(state, cluster, key, SaidLast("remove", "unregistered")):
                    yield open_plans.planned(state, context, key, scaling_plans.abandoned(context, instance))
        for unneeded, objection in look.going():
            node, key = unneeded.node, f"{cluster}/node/{unneeded.node.name}"
            if objection is not None:
                subject = Subject.of_node(cluster, node.name, context.view.nodes[node.name].fact.uid)
                numbers = {"budget": look.budget.share}
                refusals.append(scaling_plans.refusal(context, subject, Objection(RefusalCode.BUDGET, objection), numbers))
            elif open_plans.is_new(state, cluster, key, SaidLast("remove", "empty" if unneeded.empty else "unneeded")):
                yield open_plans.removal(state, context, unneeded)
                look.auto.started([node.group], look.now)
                if node.ready:
                    context.headcount.acts(node.group)

    def _interrupted(self, context: PlanContext, auto: NodeAutoscaler) -> Iterator[Decided]:
        """Plans for nodes whose instances the cloud takes away: they are drained while there is time."""
        state, cluster, now, settings = self.clusters, context.cluster, context.turn.number / 1000, self.settings
        for name, notice in outdated_nodes.interrupted(context.view, state.notices.get, settings):
            key, fact = f"{cluster}/node/{name}", notice.fact
            # Until the cloud takes it each try counts. A node that is still there has time to wait like any other.
            overdue = now - times.to_seconds(fact.noticed or fact.at) > TAKEN_WITHIN
            if overdue and auto.stays_for_now(name, now):
                continue
            if not open_plans.is_new(state, cluster, key, SaidLast("remove", "interrupted")):
                continue
            uids = state.ready_index().uids(f"{cluster}/{name}")
            plan = scaling_plans.interruption(context, name, fact, uids)
            # Their pods count as waiting from now on, so that groups grow for them.
            state.call(cluster, now)
            if context.view.seen[name].ready:
                # No budget holds them back, because they go in any case, but they count in it.
                context.headcount.acts(context.view.seen[name].group)
            place = context.view.nodes[name].place
            yield open_plans.planned(state, context, key, plan, notice.place, place, draining=True)

    def _soft_taints(self, context: PlanContext, decisions: NodeDecisions, auto: NodeAutoscaler) -> Iterator[Decided]:
        """Plans for nodes that the scheduler should avoid, and for those that it may use again."""
        state, cluster, now = self.clusters, context.cluster, context.turn.number / 1000
        for name, tainted in (*((name, False) for name in decisions.untaint), *((name, True) for name in decisions.taint)):
            key, node = f"{cluster}/{SOFT}/{name}", context.view.nodes[name]
            about = f"{'' if tainted else 'no '}soft taint of {name}"
            if auto.hint_repeats(about, "", now):
                continue
            if open_plans.is_new(state, cluster, key, SaidLast("soft-taint", str(tainted))):
                auto.hinted(about, "", now)
                plan = scaling_plans.soft_taint(context, name, tainted=tainted)
                group = context.view.seen[name].group
                state.plans.upsert(key, OpenNodePlan(plan.id, group, now, times.to_seconds(plan.expires), int(tainted)))
                yield context.decided(plan, node.place)
