"""The scaler: facts about nodes, pods and node groups in; plans to grow a group or remove a node, and refusals out.

It decides when there is a reason: when no further waiting pods came for a moment, when something that they waited for happened,
and once in each interval, because timers run. It never lowers a group's size as such. It decides nothing until sources report
that they see the cluster. It touches neither the cluster nor its cloud.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from agents.engine.tables.chunked_state import PartedState
from agents.engine.turn import Decided, Turn
from agents.logic.guards import shared_guards
from agents.logic.guards.shared_guards import Objection
from agents.logic.nodes import (
    autoscaler_memory,
    cluster_view,
    decision_round,
    decision_settings,
    expanders,
    group_faults,
    open_plans,
    outdated_nodes,
    planned_replicas,
    scaling_plans,
    started_replacements,
)
from agents.logic.nodes.decision_round import DecisionRound
from agents.logic.nodes.expanders import Expander
from agents.logic.nodes.group_backoff import ScaleUpFailure
from agents.logic.nodes.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.node_decision_values import NodeDecisions
from agents.logic.nodes.replacement_plans import ReplacementPlanner
from agents.logic.nodes.scaler_settings import NAME, ScalerProfile, ScalerSettings
from agents.logic.nodes.scaler_state import GROWTH, SOFT, ScalerState
from agents.logic.nodes.scaler_table_values import NO_ATTENTION, NO_TIMERS, Attention, OpenNodePlan, SaidLast
from agents.logic.nodes.scaling_plans import PlanContext
from agents.logic.nodes.unneeded_nodes import StayReason
from agents.logic.stage_rules import StageRules
from schemas import times
from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.node_updates import ScaleRefused
from schemas.names import Place
from schemas.outcomes import ActionFinished, OutcomeDetail, Result

MOST_REFUSALS = 500
"""Things that one decision says it leaves alone; the others are said by the next ones."""
MOST_EXPLAINED = 20
"""Natures of waiting pods that one decision explains."""
SEEN_LATE = 300.0
"""Seconds for which a plan that was carried out is believed although no fact shows it."""
BUDGET = "budget"
"""The code of a refusal whose sentence counts, so that it is news only once."""
MISCONFIGURED = "GroupMisconfigured"
PAUSED = "paused"
_LASTING = frozenset((OutcomeDetail.AT_LIMIT, OutcomeDetail.NOT_FOUND, OutcomeDetail.INVALID, OutcomeDetail.FORBIDDEN))
"""What a refusal may come down to that the next facts need not show: bounds of AWS beyond ours, a group that is gone."""
FAULTS = "faults"
"""What refusals with that code are remembered under, because a group may be refused growth as well."""
QUIET = frozenset((StayReason.RECENT, StayReason.DELETING, StayReason.OTHER, StayReason.NO_TURN, StayReason.COMING))
"""Reasons that say nothing new about a node."""


class Scaler(PartedState):
    """The state of one partition. `owns` says whether a cluster belongs to it."""

    def __init__(self, settings: ScalerSettings, partition: int, owns: Callable[[str], bool]) -> None:
        self.partition, self._own, self._owns = partition, settings, owns
        self._build(settings)

    def _build(self, settings: ScalerSettings) -> None:
        """Make the empty state that decides by these settings."""
        self.settings, self._core = settings, decision_settings.of(settings)
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
        self._expire(now)
        self._learn(now)
        decided: list[Decided] = []
        for cluster in sorted({key.split("/", 1)[0] for key in state.groups}):
            known = state.attention.get(cluster) or NO_ATTENTION
            look = now - known.looked >= self.settings.interval
            if (look or self._urgent(known, now)) and state.blind(cluster, now) is None:
                state.attention.upsert(cluster, Attention(None, known.last, now if look else known.looked))
                decided += self._decide(turn, cluster, look=look)
        return decided

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        super().load(chunk, data)
        self.clusters.loaded()

    def _follow_rules(self, turn: Turn) -> None:
        """Decide by the rules that the log has from this turn on."""
        self.rules.ingest(turn.of("policies"))
        settings = self.rules.settings
        if settings != self.settings:
            self.rebuild(partial(self._build, settings))

    def _urgent(self, known: Attention, now: float) -> bool:
        """Whether news has come, and has been collected for long enough."""
        if known.first is None or self.settings.profile == ScalerProfile.UPSTREAM:
            return False
        return now - known.last >= self.settings.batch_idle or now - known.first >= self.settings.batch_most

    # Results of plans

    def _expire(self, now: float) -> None:
        """Forget plans that were not carried out in time, and those whose result never showed."""
        for key, plan in list(self.clusters.plans.items()):
            if now > plan.expires + (SEEN_LATE if plan.done else 0.0):
                self.clusters.plans.remove(key)
        planned_replicas.expire(self.clusters, now)

    def _learn(self, now: float) -> None:
        """Let failed activities and failed plans count."""
        state = self.clusters
        touched = {event.cluster for event in state.failures} | {event.subject.cluster for _, _, event in state.finished}
        for cluster in sorted(touched):
            auto = autoscaler_memory.recall(state.memory.get(cluster), self._core, now)
            for failure in state.failures:
                if failure.cluster == cluster:
                    at = min(now, times.to_seconds(failure.at))
                    what = ScaleUpFailure("OutOfResources", failure.code, failure.message[:500])
                    auto.failed_to_grow(failure.group, what, at)
                    auto.state.requests.pop(failure.group, None)
                    if failure.instance_type and failure.zone:
                        auto.failed_to_grow(cluster_view.capacity_key(failure.instance_type, failure.zone), what, at)
            for key, plan, outcome in state.finished:
                if outcome.subject.cluster == cluster:
                    self._failed(auto, key, plan, outcome, now)
            state.memory.upsert(cluster, autoscaler_memory.remember(auto))

    @staticmethod
    def _failed(auto: NodeAutoscaler, key: str, plan: OpenNodePlan, outcome: ActionFinished, now: float) -> None:
        """A plan was not carried out. A failure, or a refusal that a retry would not mend, delays the next plan for a while.

        Any other refusal means that the facts were outdated, which the next facts will mend.
        """
        _cluster, kind, name = key.split("/", 2)
        if kind == SOFT:
            return
        failed = outcome.result is Result.FAILED
        held = failed or (outcome.result is Result.REFUSED and outcome.detail in _LASTING)
        if kind == "group":
            auto.state.requests.pop(plan.group, None)
            if held:
                detail = outcome.detail.value or "failed"
                auto.failed_to_grow(plan.group, ScaleUpFailure("Other", detail, outcome.reason[:500]), now)
            return
        auto.state.since.pop(name, None)  # the timer of an instance without a node starts again
        if held:
            auto.scale_down.failed[name] = now + auto.settings.scale_down.recheck
        if failed:
            auto.failed_to_start(now)

    # Deciding

    def _decide(self, turn: Turn, cluster: str, *, look: bool) -> list[Decided]:
        state, now = self.clusters, turn.number / 1000
        context = decision_round.picture(state, turn, self.partition, cluster, self.settings)
        view = context.view
        released = started_replacements.settle(state, cluster, view, self.settings, now) if look else []
        taken = decision_round.take(state, context, shrink=look, explain=MOST_EXPLAINED)
        found, auto = taken.found, taken.auto
        if taken.request.cheaper is not None:
            timers = state.consolidation.get(cluster) or NO_TIMERS
            state.consolidation.upsert(cluster, started_replacements.next_timers(timers, found, view, self.settings, now))
        control = state.control.get(cluster)
        pause = shared_guards.paused(control)
        decided: list[Decided] = []
        refusals: list[ScaleRefused] = []
        if pause is None:
            decided += self._growth(context, found, auto)
            decided += self._removals(taken, refusals)
            if refusals and len(refusals) == len(found.delete.empty) + len(found.delete.drain):
                auto.soft_taints(view.inputs, found)
            decided += self._interrupted(context)
            decided += ReplacementPlanner(state, taken).plans()
            decided += self._soft_taints(context, found)
        elif found.grow or found.delete.empty or found.delete.drain:
            refusals.append(self._about_cluster(context, PAUSED, pause))
        refusals += self._refusals(context, found, auto, look=look)
        refusals += [scaling_plans.released(context, record, why) for record, why in released]
        state.memory.upsert(cluster, autoscaler_memory.remember(auto))
        places = () if control is None else (control.place,)
        return [*decided, *self._new_refusals(context, refusals, look=look, places=places)]

    def _about_cluster(self, context: PlanContext, code: str, reason: str) -> ScaleRefused:
        subject = Subject.of_object(context.cluster, "Cluster", "", context.cluster)
        return scaling_plans.refusal(context, subject, Objection(code, reason), {}, len(context.view.inputs.waiting))

    def _growth(self, context: PlanContext, found: NodeDecisions, auto: NodeAutoscaler) -> Iterator[Decided]:
        """Plans for the groups that grow; a group grows no further while its last plan is open."""
        state, cluster, now = self.clusters, context.cluster, context.turn.number / 1000
        if not found.grow:
            return
        index = state.ready_index()
        keys = index.waiting_keys(cluster)
        left = found.scale_up.triggered
        by_place = dict(zip(left, found.triggered, strict=True))
        for one in found.grow:
            key = f"{cluster}/group/{one.group}"
            if not open_plans.is_new(state, cluster, key, SaidLast("grow", f"{one.before} to {one.after}")):
                continue
            pods = [by_place[place] for place in one.pods]
            plan = scaling_plans.growth(context, one, pods, found)
            auto.grew(one.group, one.after - one.before, now)
            waiting = [state.pods.get(keys[pod.key]) for pod in pods[:3] if pod.key in keys]
            places = [pod.place for pod in waiting if pod is not None and pod.place is not None]
            places += dict.fromkeys(context.view.planned[pod.key] for pod in pods if pod.key in context.view.planned)
            places += [context.view.groups[one.group].place, *self._priorities_place(context)]
            yield open_plans.growth(state, context, plan, *places)

    def _priorities_place(self, context: PlanContext) -> tuple[Place, ...]:
        """The place of the groups' priorities, if they were used."""
        known = context.view.priorities
        asked = Expander.PRIORITY in self._core.scale_up.expanders
        return () if known is None or not asked else (known.place,)

    def _removals(self, look: DecisionRound, refusals: list[ScaleRefused]) -> Iterator[Decided]:
        """Plans for the nodes that go, as far as the budget lets them, and for instances that never became nodes."""
        context, state = look.context, self.clusters
        cluster = context.cluster
        for _group, names in look.found.remove:
            for name in names:
                instance, key = context.view.unregistered.get(name), f"{cluster}/node/{name}"
                if instance is not None and open_plans.is_new(state, cluster, key, SaidLast("remove", "unregistered")):
                    yield open_plans.planned(state, context, key, scaling_plans.abandoned(context, instance))
        for one, objection in look.going():
            name, key = one.node.name, f"{cluster}/node/{one.node.name}"
            if objection is not None:
                subject = Subject.of_node(cluster, name, context.view.nodes[name].fact.uid)
                numbers = {"budget": look.budget.share}
                refusals.append(scaling_plans.refusal(context, subject, Objection(BUDGET, objection), numbers))
            elif open_plans.is_new(state, cluster, key, SaidLast("remove", "empty" if one.empty else "unneeded")):
                yield open_plans.removal(state, context, one)
                look.auto.started([one.node.group], look.now)
                context.headcount.acting += one.node.ready

    def _interrupted(self, context: PlanContext) -> Iterator[Decided]:
        """Plans for nodes whose instances the cloud takes away: they are drained while there is time.

        No budget holds them back, because they go in any case, but they count in it. Their pods count as waiting from then on, so
        groups grow for them.
        """
        state, cluster, now, settings = self.clusters, context.cluster, context.turn.number / 1000, self.settings
        for name, notice in outdated_nodes.interrupted(context.view, state.notices.get, settings):
            key = f"{cluster}/node/{name}"
            if not open_plans.is_new(state, cluster, key, SaidLast("remove", "interrupted")):
                continue
            uids = state.ready_index().uids(f"{cluster}/{name}")
            plan = scaling_plans.interruption(context, name, notice.fact, uids)
            state.call(cluster, now)
            context.headcount.acting += context.view.seen[name].ready
            place = context.view.nodes[name].place
            yield open_plans.planned(state, context, key, plan, notice.place, place, draining=True)

    def _soft_taints(self, context: PlanContext, found: NodeDecisions) -> Iterator[Decided]:
        """Plans for nodes that the scheduler should avoid, and for those that it may use again."""
        state, cluster, now = self.clusters, context.cluster, context.turn.number / 1000
        for name, tainted in (*((name, False) for name in found.untaint), *((name, True) for name in found.taint)):
            key, known = f"{cluster}/{SOFT}/{name}", context.view.nodes[name]
            if open_plans.is_new(state, cluster, key, SaidLast("soft-taint", str(tainted))):
                plan = scaling_plans.soft_taint(context, name, tainted=tainted)
                group = context.view.seen[name].group
                state.plans.upsert(key, OpenNodePlan(plan.id, group, now, times.to_seconds(plan.expires), int(tainted)))
                yield context.decided(plan, known.place)

    def _refusals(self, context: PlanContext, found: NodeDecisions, auto: NodeAutoscaler, *, look: bool) -> list[ScaleRefused]:
        """Everything that is not changed, and why."""
        said: list[ScaleRefused] = []
        if look:
            said += self._misconfigured(context)
        if found.halted:
            return [*said, self._about_cluster(context, "halted", found.halted)]
        if found.postponed:
            said.append(self._about_cluster(context, "postponed", scaling_plans.POSTPONED))
        if found.scale_up.refused:
            said.append(self._about_cluster(context, "limited", found.scale_up.refused))
        if context.view.inputs.waiting and not found.grow:
            said += [scaling_plans.skipped_group(context, *one) for one in sorted(found.scale_up.skipped.items())]
        if context.view.inputs.waiting and Expander.PRIORITY in self._core.scale_up.expanders:
            priorities = cluster_view.priorities_of(context.view.priorities)
            said += [scaling_plans.no_priorities(context, priorities)] if isinstance(priorities, str) else []
        index = self.clusters.ready_index()
        for pods in found.helpless:
            shape = index.shape_of(pods.pod)
            owner, name = index.shape(shape).owner, shape.split("/", 1)[1]
            what = (owner.kind, owner.name) if owner is not None else ("Pod", pods.pod.name)
            subject = Subject.of_object(context.cluster, what[0], pods.pod.namespace, what[1], name)
            said.append(scaling_plans.helpless(context, pods, name, subject))
        if look:
            said += self._staying(context, found, auto)
        return said

    def _misconfigured(self, context: PlanContext) -> Iterator[ScaleRefused]:
        """Groups whose bounds contradict each other or whose tags cannot be read."""
        for name, known in sorted(context.view.groups.items()):
            fault = group_faults.sentence(known.fact)
            if fault:
                subject = Subject.of_node_group(context.cluster, name)
                yield scaling_plans.refusal(context, subject, Objection(MISCONFIGURED, fault), {})

    def _staying(self, context: PlanContext, found: NodeDecisions, auto: NodeAutoscaler) -> list[ScaleRefused]:
        """The nodes whose reason to stay has changed since the last refusal; the first of them, in the order of names."""
        stay = {**auto.scale_down.stays, **found.delete.waiting, **found.outdated.kept}
        fresh: list[ScaleRefused] = []
        for name in sorted(stay):
            one = stay[name]
            if one.reason in QUIET or len(fresh) >= MOST_REFUSALS:
                continue
            known = self.clusters.said.get(f"{context.cluster}/said/node/{name}")
            if known is None or known.code != one.reason.value or (one.pod and one.pod not in known.reason):
                fresh.append(scaling_plans.stays(context, name, one))
        return fresh

    def _new_refusals(
        self, context: PlanContext, refusals: Sequence[ScaleRefused], *, look: bool, places: tuple[Place, ...]
    ) -> Iterator[Decided]:
        """New refusals. Refusals that no longer hold are forgotten once in each look."""
        said, held = self.clusters.said, set[str]()
        for event in refusals:
            kind = FAULTS if event.code == MISCONFIGURED else event.subject.kind.value
            key = f"{context.cluster}/said/{kind}/{_name(event.subject)}"
            held.add(key)
            current = SaidLast(event.code, "" if event.code == BUDGET else event.reason)
            if said.get(key) != current:
                said.upsert(key, current)
                yield context.decided(event, *self._place(context, event), *places)
        if look:
            self._forget(context, held)

    def _place(self, context: PlanContext, event: ScaleRefused) -> tuple[Place, ...]:
        """The place of the fact that a refusal is about."""
        priorities = context.view.priorities
        if event.code == expanders.INVALID:
            return () if priorities is None else (priorities.place,)
        if event.subject.kind is SubjectKind.NODE:
            return (context.view.nodes[event.subject.name].place,)
        known = context.view.groups.get(event.subject.name)
        return () if known is None else (known.place,)

    def _forget(self, context: PlanContext, held: set[str]) -> None:
        """Forget refusals about things that are gone, and about pods and groups once no pod waits.

        `held` are those that still hold; a pause stays as long as it lasts, even if it holds nothing back.
        """
        cluster, state = context.cluster, self.clusters
        waiting = bool(context.view.inputs.waiting)
        paused = shared_guards.paused(state.control.get(cluster)) is not None
        for key in [key for key in state.said if key.startswith(f"{cluster}/")]:
            parts = key.split("/", 3)
            about = parts[-1] if parts[1] == "said" else key.split("/", 2)[2]
            kind = parts[2] if parts[1] == "said" else parts[1]
            known = (
                about in context.view.nodes or about in context.view.unregistered if kind in ("node", GROWTH, SOFT) else waiting
            )
            if kind == FAULTS:
                group = context.view.groups.get(about)
                known = group is not None and bool(group_faults.sentence(group.fact))
            if not known and key not in held and not (paused and _is_pause(state.said.get(key))):
                state.said.remove(key)


def _is_pause(said: SaidLast | None) -> bool:
    return said is not None and said.code == PAUSED


def _name(subject: Subject) -> str:
    return subject.name if subject.kind in (SubjectKind.NODE, SubjectKind.NODE_GROUP) else subject.id
