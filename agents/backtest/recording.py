"""Cuts a recording into frames: everything that happened between two ticks of the clock.

A recording is any log: a file, a stretch of Kafka, or memory that a source is still filling. Topics that the stages write
themselves are left out unless they are asked for, as a backtest makes its own decisions, and so are recorded rules, as it tries
rules of its own. One frame at a time is in memory, if the topics are read evenly.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from agents.backtest.event_runner import RoutedEvent
from agents.engine.stage import Stage
from agents.engine.turn_aligner import Aligner, TickEnds
from schemas.policies.control import StageRulesChanged
from streams import clock_log
from streams.clock_log import ClockReader
from streams.clock_rules import FILL, Tick
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.log_port import Log, Record
from streams.topics import Topics

STRETCH = 2_000
"""Records in one poll."""
KILLS = "oom-events"
SCORED_FACTS = ("pod-metrics", "pod-changes", KILLS)
"""What the score rests on; read also when no stage does."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The records between two ticks, by topic, partition and offset; `number` is the later tick.

    `decisions` are those of topics that one stage writes and another reads, if they were asked for.
    """

    number: int
    events: Sequence[RoutedEvent]
    decisions: Sequence[RoutedEvent] = ()


@dataclass(slots=True)
class Recording:
    """A log to be cut into frames. `frames` may be called again when the log has grown."""

    log: Log
    topics: Topics
    stages: Sequence[Stage]
    with_rules: bool = False
    decisions: Collection[str] = ()
    """Topics (short names) of decisions that are cut, too."""
    _aligner: Aligner[Record] = field(init=False)
    _clock: ClockReader = field(init=False)
    _codec: Codec = field(init=False)
    _places: dict[str, tuple[str, int]] = field(init=False)

    def __post_init__(self) -> None:
        """Begin at the first kept offsets."""
        self._codec = Codec(self.topics)
        made = {name for stage in self.stages for name in stage.writes}
        reads = [*SCORED_FACTS, *(name for stage in self.stages for name in stage.reads)]
        read = dict.fromkeys(name for name in reads if name not in made or name in self.decisions)
        parts = [(self.topics.wire(name), p) for name in read for p in range(self.topics.partitions)]
        self._places = {f"{wire}:{p}": (wire, p) for wire, p in parts}
        self._aligner = Aligner({name: self.log.begin(*place) for name, place in self._places.items()})
        start = clock_log.first_counted(self.log, self.topics)
        self._clock = ClockReader(self.log, self.topics, start)
        if start.last is not None:
            self._take(start.last)

    def frames(self) -> Iterator[Frame]:
        """Every frame that is complete by the end of the log."""
        while True:
            while (cut := self._aligner.next_turn()) is not None:
                routed = [self._routed(record) for records in cut.records.values() for record in records if record.key != FILL]
                events = [r for r in routed if r.topic not in self.decisions]
                events = events if self.with_rules else [r for r in events if not isinstance(r.event, StageRulesChanged)]
                yield Frame(cut.number, events, [r for r in routed if r.topic in self.decisions])
            if not self._read():
                return

    def _read(self) -> bool:
        """Read ticks, or records that the next frame waits for. False when the log has no further frame."""
        if not self._aligner.ticks:
            for tick in self._clock.catch_up(most=STRETCH):
                self._take(tick)
        wanted = {self._places[name]: self._aligner.inputs[name].next for name in self._aligner.lacking}
        records = self.log.poll(wanted, limit=STRETCH) if wanted else ()
        for record in records:
            source = self._aligner.inputs[f"{record.topic}:{record.partition}"]
            source.add(record.offset, record, record.size, last=record.last_offset)
        if wanted and not records:
            for name in self._aligner.lacking:
                self._aligner.inputs[name].skip_to(min(self._aligner.wanted(name), self.log.end(*self._places[name])))
        return bool(self._aligner.ticks) and (bool(records) or not self._aligner.lacking)

    def _take(self, tick: Tick) -> None:
        names = {(self.topics.short(wire), p): name for name, (wire, p) in self._places.items()}
        moved = {names[place]: end for place, end in tick.moved.items() if place in names}
        self._aligner.take_tick(TickEnds(tick.number, tick.place, moved))

    def _routed(self, record: Record) -> RoutedEvent:
        try:
            event = self._codec.decode(record)
        # a dead letter for its readers, which still has its place
        except BadRecord:
            event = None
        return RoutedEvent(event, self.topics.short(record.topic), record.partition)
