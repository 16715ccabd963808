"""A recorded stretch decided twice: by the rules that were in force, and by others.

Both runs take the same facts from the beginning of the recording, and read what they decide when that was read (see
`DecisionDelivery`); the other rules begin at `since`. Pods come and go as recorded, and the other run only sees outcomes of plans
that it made as well. So the first difference is exact. After that the recorded cluster follows the recorded decisions, and
figures are an estimate: only a simulated cluster closes the loop.

Other rules come in as events, the way an operator puts them into the log: at the first tick of the stretch the rules of each
stage, the vertical policies and the budget. Later records of the same policies are left out; later rules and switches count,
except for the changed parts.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import nan
from typing import NamedTuple

from agents.backtest.event_runner import EventRunner, Recording, RoutedEvent, StageTurn
from agents.engine.stage import Stage
from agents.engine.turn import BatchDecided
from agents.logic.vertical.decision_builder import RecommendationBatch
from agents.logic.vertical.recommended_amounts import AMOUNTS
from agents.run.stage_topics import input_topics
from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import RequestsRecommended
from schemas.decisions.replica_plans import ReplicasPlanned
from schemas.facts.usage import MetricsScraped
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies import Policy
from schemas.policies.control import ControlChanged, RuleValue, StageRulesChanged, rules_version
from schemas.policies.vertical import VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.times import from_ms
from schemas.units import Fraction
from streams.codec.event_codec import header
from streams.log_context import LogContext
from streams.log_range import has_topic, read_range
from streams.topics import Topics

_VERSION = "what-if"
_ABSENT = "not in the log"


@dataclass(frozen=True, slots=True)
class OtherRules:
    """`settings` of stages by name, `policies` by target, and the `budget` of every cluster; None leaves the recorded one."""

    settings: Mapping[str, Mapping[str, RuleValue]] = field(default_factory=dict)
    policies: Sequence[VerticalPolicyChanged] = ()
    budget: Fraction | None = None

    def __bool__(self) -> bool:
        """Whether anything differs from the recording."""
        return bool(self.settings or self.policies or self.budget is not None)


@dataclass(slots=True)
class RulesInForce:
    """Follows what is in force in a recording, and changes it to `other` from a moment on."""

    stages: Sequence[Stage]
    other: OtherRules
    partitions: int
    rules: dict[str, StageRulesChanged] = field(default_factory=dict)
    control: dict[str, ControlChanged] = field(default_factory=dict)
    replaced: dict[tuple[str, str], list[RuleValue]] = field(default_factory=dict)
    """By stage and setting, the values that stood in the log's rules and are replaced by another."""
    replaced_budgets: set[float] = field(default_factory=set)

    def observe(self, events: Iterable[RoutedEvent]) -> None:
        """Before the moment: remember."""
        for event in (routed.event for routed in events):
            if isinstance(event, StageRulesChanged):
                self.rules[event.stage] = event
            elif isinstance(event, ControlChanged):
                self.control[event.cluster] = event

    def opening(self, at: datetime) -> Iterator[RoutedEvent]:
        """At the moment: what puts the other rules in force, for every partition."""
        for name in self.other.settings:
            yield from self._everywhere("rules", self._rules(name, at))
        for policy in self.other.policies:
            yield from self._everywhere("rules", replace(policy, at=at, version=_VERSION))
        for control in self.control.values() if self.other.budget is not None else ():
            yield from self._everywhere("control", self._changed(control))

    def after(self, events: Iterable[RoutedEvent]) -> Iterator[RoutedEvent]:
        """From the moment on: the recorded events without what would undo the other rules."""
        targets = {policy.target for policy in self.other.policies}
        for routed in events:
            match routed.event:
                case StageRulesChanged(stage=name) as rules if name in self.other.settings:
                    yield replace(routed, event=self._merged(rules.at, name, rules.settings))
                case VerticalPolicyChanged(target=target) | VerticalPolicyRemoved(target=target) if target in targets:
                    continue
                case ControlChanged() as control if self.other.budget is not None:
                    yield replace(routed, event=self._changed(control))
                case _:
                    yield routed

    def _everywhere(self, topic: str, event: Policy) -> Iterator[RoutedEvent]:
        yield from (RoutedEvent(event, topic, partition) for partition in range(self.partitions))

    def _rules(self, name: str, at: datetime) -> StageRulesChanged:
        """The rules in force with the other settings; before any stand in the log, those of this program."""
        before = self.rules.get(name)
        if before is None:
            ours = self._stage(name).rules
            return self._merged(
                at, name, {setting: ours[setting] for setting in ours if setting not in self.other.settings[name]}
            )
        return self._merged(at, name, before.settings)

    def _merged(self, at: datetime, name: str, before: Mapping[str, RuleValue]) -> StageRulesChanged:
        ours, program = self.other.settings[name], self._stage(name).program
        for setting, value in ours.items():
            recorded = before.get(setting, _ABSENT)
            if recorded != value and recorded not in self.replaced.setdefault((name, setting), []):
                self.replaced[name, setting].append(recorded)
        merged = {**before, **ours}
        return StageRulesChanged(at, name, program, merged, rules_version(name, program, merged))

    def _stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    def _changed(self, control: ControlChanged) -> ControlChanged:
        if self.other.budget is None or control.budget == self.other.budget:
            return control
        self.replaced_budgets.add(control.budget)
        return replace(control, budget=self.other.budget)


_NEXT = 1
"""Ticks until a decision is read where the log does not show how many: a worker that keeps up is read at the next one."""


class _Route(NamedTuple):
    """From which of a run's partitions of stages, by its number, to which topic and partition."""

    source: int
    topic: str
    partition: int


class _Waiting(NamedTuple):
    """A decision that nobody has read yet: its id, the number of the frame that it was made in, and where it goes."""

    id: str
    frame: int
    routed: RoutedEvent


def made_and_read(stages: Sequence[Stage]) -> frozenset[str]:
    """The topics (short names) that one stage writes and another reads."""
    return frozenset(name for stage in stages for name in stage.writes) & {name for stage in stages for name in stage.reads}


def published(context: LogContext, names: Collection[str]) -> frozenset[tuple[str, str]]:
    """Topic and id of every decision in these topics of the log."""
    # a log may be older than a topic
    wires = {context.topics.wire(name): name for name in names if has_topic(context.log, context.topics.wire(name))}
    return frozenset((wires[record.topic], header(record, "ce_id") or "") for record in read_range(context.log, list(wires)))


@dataclass(slots=True)
class DecisionDelivery:
    """Keeps the decisions of one run until their readers get them. `read`: the topics of which somebody reads decisions.

    A live worker's recommendation is read when it has reached the log, which may be some ticks after the one that it was made at.
    A decision that is made again reaches its readers at the same tick as the recorded one with its id, and one that the log does
    not have after as many ticks as the last one that it has. What one partition of a stage writes is read in the order in which
    it was written; partitions may overtake one another, for different workers may have them.
    """

    topics: Topics
    read: Collection[str]
    published: Collection[tuple[str, str]]
    _frame: int = 0
    _delivered: set[tuple[str, str]] = field(default_factory=set)
    _waiting: dict[_Route, deque[_Waiting]] = field(default_factory=dict)
    _lags: dict[_Route, int] = field(default_factory=dict)
    """In frames."""

    def hold(self, turns: Sequence[StageTurn]) -> None:
        """Keep what was decided in the turns of a frame."""
        for source, turn in enumerate(turns):
            for decided in (decided for decided in turn.decided if decided.topic in self.read):
                route = _Route(source, decided.topic, self.topics.partition_of(decided.key))
                waiting = _Waiting(decided.event.id, self._frame, RoutedEvent(decided.event, route.topic, route.partition))
                self._waiting.setdefault(route, deque()).append(waiting)

    def due(self, recorded: Sequence[RoutedEvent]) -> Iterator[RoutedEvent]:
        """What is read in the next frame, in which these recorded decisions were read."""
        self._frame += 1
        self._delivered.update((routed.topic, routed.event.id) for routed in recorded if routed.event is not None)  # type: ignore[union-attr]  # decisions have ids
        for route, waiting in self._waiting.items():
            while waiting and self._is_due(route, waiting[0]):
                yield waiting.popleft().routed

    def _is_due(self, route: _Route, first: _Waiting) -> bool:
        decision, ticks = (route.topic, first.id), self._frame - first.frame
        if decision not in self.published:
            # the log does not have it, so as late as the last one from there that it has
            return ticks >= self._lags.get(route, _NEXT)
        # not by ticks: it is read exactly when the recorded one was
        if decision not in self._delivered:
            return False
        self._delivered.discard(decision)
        self._lags[route] = ticks
        return True


_CPU, _MEMORY = AMOUNTS.index("target_cpu"), AMOUNTS.index("target_memory")
ContainerKey = tuple[str, str]
"""Workload key and container name."""
UpdateKey = tuple[str, Action, int]
"""A pod's uid, what is planned, and how many such plans there were for the pod before: it may be resized in place many times."""


@dataclass(frozen=True, slots=True)
class PlannedUpdate:
    """A plan about a pod in the stretch. Its id has the turn, so the same plan made at another moment has another id."""

    id: str
    at: datetime
    action: Action
    workload: str
    pod: str
    uid: str


@dataclass(slots=True)
class StretchDecisions:
    """What one run decided in the stretch.

    `updates`: every plan about a pod. `refused`: by guard, how many refusals. `targets` are CPU in cores and memory in bytes as
    last recommended, NaN for none. `over`: containers whose memory went over the memory that was recommended at that moment.
    """

    updates: dict[UpdateKey, PlannedUpdate] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    targets: dict[ContainerKey, tuple[float, float]] = field(default_factory=dict)
    over: set[ContainerKey] = field(default_factory=set)
    others: Counter[type[Event]] = field(default_factory=Counter)
    """Decisions about nodes and replicas, by kind."""
    _planned: Counter[tuple[str, Action]] = field(default_factory=Counter)
    _copied: set[str] = field(default_factory=set)
    """Decisions of this turn that lie in two topics; they are counted once."""

    def take(self, turns: Sequence[StageTurn], *, counted: bool) -> None:
        """Take in the decisions of a turn. Before the stretch (not `counted`) only what is recommended matters."""
        self._copied.clear()
        for turn in turns:
            decided = turn.decided
            if isinstance(decided, BatchDecided):
                if isinstance(decided.batch, RecommendationBatch):
                    self._recommended(decided.batch)
                decided = decided.others
            for event in (decision.event for decision in decided):
                if isinstance(event, RequestsRecommended):
                    for container in event.containers:
                        target = container.target
                        amounts = (nan if target.cpu is None else target.cpu, nan if target.memory is None else target.memory)
                        self.targets[event.workload.key, container.container] = amounts
                elif counted:
                    self._count(event)

    def _recommended(self, batch: RecommendationBatch) -> None:
        for container, amounts in zip(batch.containers, batch.amounts().tolist(), strict=True):
            workload, name = container
            self.targets[workload, name] = (amounts[_CPU], amounts[_MEMORY])

    def _count(self, event: Event) -> None:
        match event:
            case ResizePlanned() | EvictionPlanned():
                action = Action.RESIZE if isinstance(event, ResizePlanned) else Action.EVICT
                pod = f"{event.pod.namespace}/{event.pod.name}"
                before = self._planned[event.pod.uid, action]
                self._planned[event.pod.uid, action] += 1
                self.updates[event.pod.uid, action, before] = PlannedUpdate(
                    event.id, event.at, action, event.workload.key, pod, event.pod.uid
                )
            case UpdateRefused():
                self.refused[event.guard] += 1
            case NodeRemovalPlanned() | ScaleUpPlanned() | ReplicasPlanned() if event.id not in self._copied:
                self._copied.add(event.id)
                self.others[type(event)] += 1
            case _:
                pass

    def watch(self, events: Sequence[RoutedEvent]) -> None:
        """Find containers whose memory in use is over the recommendation."""
        for event in (routed.event for routed in events):
            if isinstance(event, MetricsScraped):
                highest = event.memory_max if len(event.memory_max) else event.memory
                for workload, container, used in zip(event.workloads, event.containers, highest, strict=True):
                    if used > self.targets.get((workload, container), (nan, nan))[1]:
                        self.over.add((workload, container))


@dataclass(slots=True)
class WhatIf:
    """Both runs of a stretch. `turns` counts its ticks, `first` and `last` are the first and the last of them."""

    recorded: StretchDecisions = field(default_factory=StretchDecisions)
    other: StretchDecisions = field(default_factory=StretchDecisions)
    carried_out: Counter[Action] = field(default_factory=Counter)
    """What consumers did in the stretch, by the recorded outcomes."""
    turns: int = 0
    first: datetime | None = None
    last: datetime | None = None
    replaced: Mapping[tuple[str, str], Sequence[RuleValue]] = field(default_factory=dict)
    """By stage and setting, the values that stood in the log's rules and that the other rules took the place of."""
    replaced_budgets: Collection[float] = ()

    def only_recorded(self) -> list[PlannedUpdate]:
        """Updates that the other rules do not plan."""
        return [u for key, u in self.recorded.updates.items() if key not in self.other.updates]

    def only_other(self) -> list[PlannedUpdate]:
        """Updates that only the other rules plan."""
        return [u for key, u in self.other.updates.items() if key not in self.recorded.updates]

    def moved(self) -> list[tuple[PlannedUpdate, PlannedUpdate]]:
        """Updates that both plan at different times: as recorded, and by the other rules."""
        pairs = ((u, self.other.updates[key]) for key, u in self.recorded.updates.items() if key in self.other.updates)
        return [(ours, theirs) for ours, theirs in pairs if ours.at != theirs.at]


def what_if(
    context: LogContext, stages: Sequence[Stage], rules: OtherRules, since: datetime, until: datetime
) -> Iterator[WhatIf]:
    """The comparison as it grows, after each tick up to `until`."""
    partitions, read = context.topics.partitions, made_and_read(stages)
    # the same stages twice: whatever has changed since the recording is in both runs, and cancels out
    runs = [EventRunner(stages, context.topics, input_topics(), routes=False) for _ in range(2)]
    recorded = published(context, read)
    deliveries = [DecisionDelivery(context.topics, read, recorded) for _ in runs]
    in_force = RulesInForce(stages, rules, partitions)
    outcome = WhatIf(replaced=in_force.replaced, replaced_budgets=in_force.replaced_budgets)
    for frame in Recording(context.log, context.topics, stages, with_rules=True, decisions=read).frames():
        at = from_ms(frame.number)
        if at > until:
            # frames are in order, so all others are later
            return
        counted = at >= since
        events: Sequence[RoutedEvent] = frame.events
        if counted:
            first, outcome.first, outcome.last = outcome.first is None, outcome.first or at, at
            outcome.turns += 1
            _carried_out(outcome, events)
            for decisions in (outcome.recorded, outcome.other):
                decisions.watch(events)
            # before the first frame of the stretch is changed, what it says of rules has to be known
            if first:
                in_force.observe(frame.events)
            events = [*_without_avoided(in_force.after(events), outcome), *(in_force.opening(at) if first else ())]
        else:
            in_force.observe(events)
        sides = zip(runs, deliveries, (outcome.recorded, outcome.other), (frame.events, events), strict=True)
        for run, delivery, decisions, facts in sides:
            turns = run.turn(frame.number, [*facts, *delivery.due(frame.decisions)])
            delivery.hold(turns)
            decisions.take(turns, counted=counted)
        yield outcome


def _carried_out(outcome: WhatIf, events: Sequence[RoutedEvent]) -> None:
    for event in (routed.event for routed in events):
        if isinstance(event, ActionFinished) and event.result is Result.DONE:
            outcome.carried_out[event.action] += 1


def _without_avoided(events: Iterator[RoutedEvent], outcome: WhatIf) -> Iterator[RoutedEvent]:
    """Without outcomes of plans that only the recorded rules made in the stretch."""
    avoided = {update.id for update in outcome.only_recorded()}
    for routed in events:
        event = routed.event
        # a plan that does not exist has no outcome
        if not isinstance(event, ActionFinished) or event.decision not in avoided:
            yield routed
