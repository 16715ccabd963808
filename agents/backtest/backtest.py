"""Runs the stages over a recording, as fast as it goes, and keeps the score.

The same stages take the same turns as live, but no event becomes bytes: a frame's facts go to the stages as they are, and so
does what the stages decide. It starts with an empty state, reads no clock, and the same recording gives the same card. Outcomes
of a recorded log are facts like any other, although they answer the decisions of that time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agents.backtest.event_runner import EventRunner, RoutedEvent
from agents.backtest.recording import SCORED_FACTS, Frame, Recording
from agents.backtest.score_card import ResourceScore, ScoreCard, Side, lines
from agents.backtest.scoring import Score
from agents.engine.stage import Stage
from agents.engine.turn import Decided, DeferredDecided
from agents.logic.vertical.decision_builder import DeferredRecommendation
from agents.pipeline import ticked_topics
from schemas import times
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import MetricsScraped
from streams.log.port import Log
from streams.sources.traces import Trace, TraceMoments
from streams.topics import Topics

__all__ = ["Backtest", "ResourceScore", "ScoreCard", "Side", "lines", "over_log", "over_trace"]

_STRETCH = 64
"""Frames of a trace after which a caller may look."""


@dataclass(slots=True)
class Backtest:
    """Stages and the score."""

    stages: Sequence[Stage]
    topics: Topics
    score: Score = field(default_factory=Score)
    _runner: EventRunner = field(init=False)

    def __post_init__(self) -> None:
        """Open every partition of every stage."""
        self._runner = EventRunner(self.stages, self.topics, ticked_topics())

    def apply(self, frame: Frame) -> None:
        """Score one frame with what was recommended before it, then take its turns."""
        self._score_facts(frame.events)
        for turn in self._runner.turn(frame.number, frame.events):
            self.score.turns += 1
            self.score.dead_letters += turn.dead_letters
            self._count(turn.decided)

    def card(self) -> ScoreCard:
        """The score so far."""
        return self.score.card()

    def _score_facts(self, events: Iterable[RoutedEvent]) -> None:
        """Changed pods first, then usage, then deleted pods: within a frame nothing else is known of the order.

        Facts that cannot be read are left out; the stages turn them into dead letters.
        """
        facts = [routed.event for routed in events if routed.topic in SCORED_FACTS]
        for event in facts:
            if isinstance(event, PodChanged):
                self.score.pod_changed(event)
        for event in facts:
            if isinstance(event, MetricsScraped):
                self.score.scrape(event)
        for event in facts:
            if isinstance(event, PodDeleted):
                self.score.pod_deleted(event)

    def _count(self, found: Iterable[Decided]) -> None:
        """Put recommendations in force and count plans. The copies by cluster say nothing new."""
        for decided in found:
            if decided.topic == "recommendations-by-cluster":
                continue
            if isinstance(decided, DeferredDecided) and isinstance(decided.deferred, DeferredRecommendation):
                self.score.recommend(decided.deferred.subject, decided.deferred.targets())
                continue
            event = decided.event
            if isinstance(event, RequestsRecommended):
                targets = ((each.container, each.target.cpu, each.target.memory) for each in event.containers)
                self.score.recommend(event.workload.key, targets)
            else:
                self.score.plans += isinstance(event, ResizePlanned | EvictionPlanned)
                self.score.refused += isinstance(event, UpdateRefused)


def over_log(log: Log, stages: Sequence[Stage], topics: Topics) -> ScoreCard:
    """The score of `stages` over everything that `log` holds."""
    backtest = Backtest(stages, topics)
    for frame in Recording(log, topics, stages).frames():
        backtest.apply(frame)
    return backtest.card()


def over_trace(trace: Trace, stages: Sequence[Stage], topics: Topics, *, cluster: str = "trace") -> Iterator[Backtest]:
    """The backtest while it goes through `trace`, now and then: ask it for its card, at the end for the last time.

    All workloads are in one partition, whatever `topics` says: partitions share work among processes, and workloads do not see
    one another, so the score is the same and a turn is taken for all of them at once.
    """
    alone = Topics(topics.prefix, 1)
    backtest = Backtest(stages, alone)
    events: list[RoutedEvent] = []
    frames = 0
    for moment in TraceMoments(trace, alone, cluster):
        events += [RoutedEvent(routed.fact, routed.topic, routed.partition) for routed in moment.facts]
        if moment.ends:
            backtest.apply(Frame(times.nearest_ms(moment.at), events))
            events, frames = [], frames + 1
            if frames % _STRETCH == 0:
                yield backtest
    yield backtest
