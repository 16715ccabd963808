"""Runs the stages over a recording, as fast as it goes, and keeps the score.

The same stages take the same turns as live, but no event becomes bytes: a frame's facts go to the stages as they are, and so does
what the stages decide. Only one thing differs from the recording: where a recommendation in force would have killed a container,
the stages see its limit and a kill, as they would have live, and where it would not, they see no kill. It starts with an empty
state, reads no clock, and the same recording gives the same card. Outcomes of a recorded log are facts like any other, although
they answer the decisions of that time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from operator import sub

from agents.backtest.event_runner import (
    KILLS,
    SCORED_FACTS,
    ConcludedTurn,
    EventRunner,
    Frame,
    RecommenderRunner,
    Recording,
    RoutedEvent,
    covers,
)
from agents.backtest.recorded_containers import AdvisedAmounts, SimulatedUpdates
from agents.backtest.score_card import RequestsScore, ResourceScore, ScoreCard, lines
from agents.backtest.scoring import SampleRows, Score
from agents.backtest.workload_sums import ContainerSums
from agents.engine.stage import Stage
from agents.engine.turn import BatchDecided, Decided
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.vertical.decision_builder import RecommendationBatch
from agents.logic.vertical.recommender_stage import Conclusion
from agents.run.stage_topics import input_topics
from schemas import times
from schemas.catalogue import Event
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from streams.log.log_port import Log
from streams.sources.traces import Trace, TraceMoments
from streams.topics import Topics

__all__ = ["Backtest", "RequestsScore", "ResourceScore", "ScoreCard", "lines", "over_log", "over_trace"]

_UPDATES = UpdateSettings()
_STRETCH = 64
"""Frames of a trace after which a caller may look."""


class LastAnswer:
    """A check of events that caches its last answer, because the score and then the stage check the same event."""

    __slots__ = ("_answer", "_check", "_event")

    def __init__(self, check: Callable[[Event], str | None]) -> None:
        self._check = check
        self._event: Event | None = None
        self._answer: str | None = None

    def __call__(self, event: Event) -> str | None:
        """Why the event must not be taken in; None if it may be."""
        if event is not self._event:
            self._event, self._answer = event, self._check(event)
        return self._answer


@dataclass(slots=True)
class Backtest:
    """Stages and the score. `updates` are the thresholds by which recommendations come into force."""

    stages: Sequence[Stage]
    topics: Topics
    updates: UpdateSettings = _UPDATES
    score: Score = field(default_factory=Score)
    in_columns: bool = False
    """Only the recommender decides, and no decision is needed: see `event_runner.covers`."""
    in_place: bool = False
    """Changed pods go on as they are; otherwise each starts again."""
    _runner: EventRunner | RecommenderRunner = field(init=False)
    _updates: SimulatedUpdates = field(init=False)
    _refuse: Sequence[Callable[[Event], str | None]] = field(init=False)
    """The stages' checks of events; most are equal."""

    def __post_init__(self) -> None:
        """Open every partition of every stage."""
        # most stages share one check, which then is made once for an event
        checks = {stage.refuse: LastAnswer(stage.refuse) for stage in self.stages}
        self._refuse = list(checks.values())
        if self.in_columns:
            stages = [replace(stage, refuse=checks[stage.refuse]) for stage in self.stages]
            self._runner = RecommenderRunner(stages, self.topics)
        else:
            self._runner = EventRunner(self.stages, self.topics, input_topics())
        self._updates = SimulatedUpdates(self.score.containers, self.updates, in_place=self.in_place)

    def apply(self, frame: Frame) -> None:
        """Score one frame with what was recommended before it, then take its turns."""
        # before the decisions of this turn: usage must not meet a recommendation that was made from it
        taken = self._runner.turn(frame.number, self._score_facts(frame.events))
        if isinstance(taken, ConcludedTurn):
            self.score.turns += taken.stages
            self.score.dead_letters += taken.dead_letters
            self._conclude(taken.conclusion)
        else:
            for turn in taken:
                self.score.turns += 1
                self.score.dead_letters += turn.dead_letters
                self._count(turn.decided)
        # after them, so what is changed now counts from the next frame
        self.score.changes += self._updates.step(frame.number)

    def play(self, log: Log) -> None:
        """Apply everything that a log holds."""
        for frame in Recording(log, self.topics, self.stages).frames():
            self.apply(frame)

    def card(self) -> ScoreCard:
        """The score so far."""
        return self.score.card()

    def _score_facts(self, events: Sequence[RoutedEvent]) -> Sequence[RoutedEvent]:
        """Score changed pods first, then kills, usage and deleted pods; returns what the stages would have seen."""
        containers, answers = self.score.containers, dict[int, Sequence[Event]]()
        facts = [
            (i, routed.event) for i, routed in enumerate(events) if routed.topic in SCORED_FACTS and self._is_good(routed.event)
        ]
        # pods first, for kills and usage are measured by their requests
        for _, event in facts:
            if isinstance(event, PodChanged):
                containers.pod_changed(event)
        for i, event in facts:
            if isinstance(event, ContainerOOMKilled):
                kill = self.score.killed(event)
                answers[i] = () if kill is None else (kill,)
        for i, event in facts:
            if isinstance(event, MetricsScraped):
                kills, scrape = self.score.scrape(event)
                if scrape is not event:
                    answers[i] = (*kills, scrape)
        # last, so that the last samples of a pod still count
        for _, event in facts:
            if isinstance(event, PodDeleted):
                containers.pod_deleted(event)
        return list(self._seen(events, answers)) if answers else events

    def _is_good(self, event: Event | None) -> bool:
        # what cannot be believed is not scored; the stages turn it into a dead letter
        return event is not None and not any(refuse(event) for refuse in self._refuse)

    def _seen(self, events: Sequence[RoutedEvent], answers: Mapping[int, Sequence[Event]]) -> Iterator[RoutedEvent]:
        """The events, some of them replaced."""
        for i, routed in enumerate(events):
            for event in answers.get(i, (routed.event,)):
                if isinstance(event, ContainerOOMKilled) and routed.topic != KILLS:
                    # a kill that was not recorded comes before the scrape that shows it, as live
                    yield RoutedEvent(event, KILLS, self.topics.partition_of(event.workload.key))
                else:
                    yield replace(routed, event=event)

    def _count(self, decisions: Sequence[Decided]) -> None:
        """Put recommendations in force and count plans."""
        if isinstance(decisions, BatchDecided) and isinstance(decisions.batch, RecommendationBatch):
            self._advise(decisions.batch)
            decisions = decisions.others
        for decided in decisions:
            event = decided.event
            if isinstance(event, RequestsRecommended):
                # a decision goes to `recommendations-by-cluster`, too
                if decided.topic == "recommendations":
                    self.score.recommendations += 1
                    self.score.containers.restate([event.workload.key], [len(event.containers)])
                    advice = [_advice(container) for container in event.containers]
                    self.score.containers.advise(
                        [(event.workload.key, container.container) for container in event.containers], advice
                    )
            else:
                self.score.plans += isinstance(event, ResizePlanned | EvictionPlanned)
                self.score.refused += isinstance(event, UpdateRefused)

    def _conclude(self, conclusion: Conclusion | None) -> None:
        if conclusion is not None:
            self.score.recommendations += len(conclusion.withdrawn)
            for workload in conclusion.withdrawn:
                self.score.containers.withdraw(workload)
            if conclusion.batch is not None:
                self._advise(conclusion.batch)

    def _advise(self, batch: RecommendationBatch) -> None:
        self.score.recommendations += len(batch.subjects)
        self.score.containers.restate(batch.subjects, map(sub, batch.begins[1:], batch.begins))
        self.score.containers.advise_members(batch.done.of, batch.places, batch.amounts())


def _advice(of: ContainerRecommendation) -> AdvisedAmounts:
    cores = (amounts.cpu for amounts in (of.lower, of.target, of.upper))
    memory = (amounts.memory for amounts in (of.lower, of.target, of.upper))
    return tuple(nan if amount is None else float(amount) for amount in (*cores, *memory))


def over_log(log: Log, stages: Sequence[Stage], topics: Topics, *, updates: UpdateSettings = _UPDATES) -> ScoreCard:
    """The score of `stages` over everything that `log` holds."""
    backtest = Backtest(stages, topics, updates)
    backtest.play(log)
    return backtest.card()


def over_trace(  # noqa: PLR0913  # all by keyword but the three that every backtest has
    trace: Trace,
    stages: Sequence[Stage],
    topics: Topics,
    *,
    cluster: str = "trace",
    updates: UpdateSettings = _UPDATES,
    by_workload: bool = False,
    samples: SampleRows | None = None,
    in_columns: bool = True,
    mode: UpdateMode | None = None,
) -> Iterator[Backtest]:
    """Yields the backtest from time to time while it goes through `trace`, and at the end; its card has the score.

    `by_workload`: also keep sums by workload. `samples`: also keep each sample. `mode`: how a policy says that all pods are
    changed; without it they are changed as by Recreate, and decided about as if nobody said how.
    `in_columns`: where the recommender alone decides (`event_runner.covers`), no decision is built; the score is the same.
    """
    score = Score(sums=ContainerSums() if by_workload else None, samples=samples)
    in_columns = in_columns and covers(stages, topics)
    backtest = Backtest(stages, topics, updates, score, in_columns=in_columns, in_place=mode is UpdateMode.IN_PLACE)
    for number, frame in enumerate(frames_of(trace, topics, cluster, mode), start=1):
        backtest.apply(frame)
        if number % _STRETCH == 0:
            yield backtest
    yield backtest


def frames_of(trace: Trace, topics: Topics, cluster: str, mode: UpdateMode | None = None) -> Iterator[Frame]:
    """A trace as frames: one for each time of which it has a scrape, and one for its end. `mode` as in `over_trace`."""
    events: list[RoutedEvent] = []
    for moment in TraceMoments(trace, topics, cluster):
        if mode is not None:
            # once, ahead of the trace's first fact
            events.append(RoutedEvent(VerticalPolicyChanged(moment.at, "*", "backtest", mode), "rules", 0))
            mode = None
        events += [RoutedEvent(routed.fact, routed.topic, routed.partition) for routed in moment.facts]
        if moment.ends:
            yield Frame(times.nearest_ms(moment.at), events)
            events = []
