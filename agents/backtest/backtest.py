"""Runs the stages over a recording, as fast as it goes, and keeps the score.

The same stages take the same kind of turns as live: a frame's facts are appended to a log in memory, then its tick to every
input, then all turns are taken. The log forgets frames that are done, so that any length of recording fits. It starts with
an empty state, reads no clock, and the same recording gives the same card. Outcomes of a recorded log are facts like any
other, although they answer the decisions of that time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agents.backtest.recording import SCORED_FACTS, Frame, Recording
from agents.backtest.score_card import ScoreCard, Side, Spread, lines
from agents.backtest.scoring import Score
from agents.engine.stage import Stage
from agents.engine.turn import Event
from agents.pipeline import ticked_topics
from agents.runner import Runner
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import MetricsScraped
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.memory_log import MemoryLog
from streams.log.port import Log, NewRecord, Positions, Record
from streams.log_context import LogContext
from streams.sources import clock
from streams.sources.traces import Trace, TracePlayer
from streams.topics import TOPICS, Topics

__all__ = ["Backtest", "ScoreCard", "Side", "Spread", "lines", "over_log", "over_trace"]

FORGET_EACH = 64
"""Frames that the log in memory keeps at most."""
SCORED_DECISIONS = ("recommendations", "pod-updates")


@dataclass(slots=True)
class Backtest:
    """Stages, a log in memory that forgets, and the score."""

    stages: Sequence[Stage]
    topics: Topics
    score: Score = field(default_factory=Score)
    _frames: int = 0
    _codec: Codec = field(init=False)
    _log: MemoryLog = field(init=False)
    _runner: Runner = field(init=False)
    _short: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Make the log and open the tasks."""
        self._codec, self._log = Codec(self.topics), _all_topics(self.topics)
        self._runner = Runner(self.stages, LogContext(self._log, self.topics, self._codec))
        self._short = {self.topics.wire(name): name for name in (*SCORED_FACTS, *SCORED_DECISIONS)}

    def take(self, frame: Frame) -> None:
        """One frame: weigh it with what was recommended before it, then take its turns."""
        self._weigh([record for record in frame.records if self._short.get(record.topic) in SCORED_FACTS])
        self._log.append(frame.records)
        self._log.append(clock.ticks(self.topics, ticked_topics(), frame.number))
        for taken in self._runner.run():
            self.score.turns += 1
            self.score.dead_letters += len(taken.dead)
            self._hear(taken.decisions)
        self._frames += 1
        if self._frames % FORGET_EACH == 0:
            _forget(self._log, self.topics)

    def card(self) -> ScoreCard:
        """The score so far."""
        return self.score.card()

    def _weigh(self, records: Iterable[NewRecord]) -> None:
        """Pods as they are, then what they used, then who is gone: within a frame the topics say no more of the order."""
        events = list(self._readable(records))
        for event in events:
            if isinstance(event, PodChanged):
                self.score.pod(event)
        for event in events:
            if isinstance(event, MetricsScraped):
                self.score.scrape(event)
        for event in events:
            if isinstance(event, PodDeleted):
                self.score.gone(event)

    def _readable(self, records: Iterable[NewRecord]) -> Iterator[Event]:
        """Facts that cannot be read are the tasks' business: they end as dead letters."""
        for record in records:
            try:
                yield self._codec.decode(_read(record))
            except BadRecord:
                continue

    def _hear(self, decisions: Iterable[NewRecord]) -> None:
        for record in decisions:
            if self._short.get(record.topic) not in SCORED_DECISIONS:
                continue
            event = self._codec.decode(_read(record))
            if isinstance(event, RequestsRecommended):
                self.score.recommend(event)
            self.score.plans += isinstance(event, ResizePlanned | EvictionPlanned)
            self.score.refused += isinstance(event, UpdateRefused)


def over_log(log: Log, stages: Sequence[Stage], topics: Topics) -> ScoreCard:
    """The score of `stages` over everything that `log` holds."""
    backtest = Backtest(stages, topics)
    for frame in Recording(log, topics, stages).frames():
        backtest.take(frame)
    return backtest.card()


def over_trace(trace: Trace, stages: Sequence[Stage], topics: Topics, *, cluster: str = "trace") -> Iterator[Backtest]:
    """The backtest while it goes through `trace`, after each stretch: ask it for its card, at the end for the last time."""
    tape = _all_topics(topics)
    backtest, recording = Backtest(stages, topics), Recording(tape, topics, stages)
    for _ in TracePlayer(trace, LogContext.of(tape, topics, cluster), ticked=ticked_topics()).play():
        for frame in recording.frames():
            backtest.take(frame)
        _forget(tape, topics, keep=recording.positions)
        yield backtest


def _read(record: NewRecord) -> Record:
    return Record(record.topic, record.partition, -1, record.key, record.value, record.headers)


def _all_topics(topics: Topics) -> MemoryLog:
    log = MemoryLog()
    for topic in TOPICS:
        log.create(topics.wire(topic.name), topics.partitions)
    return log


def _forget(log: MemoryLog, topics: Topics, keep: Positions | None = None) -> None:
    """Forget everything, but from the offsets in `keep` on."""
    places = [(topics.wire(topic.name), p) for topic in TOPICS for p in range(topics.partitions)]
    for place in places:
        log.truncate(*place, log.end(*place) if keep is None else keep.get(place, log.end(*place)))
