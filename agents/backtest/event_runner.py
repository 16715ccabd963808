"""Runs stages on events in memory: no bytes, no log. Backtests use it; its turns, decisions and states are those of a log.

Each frame is one turn of every partition of every stage: what happened up to a tick, then what the stages decided on it, which
they read in the next frame. Places are those that a log in memory would give, so states come out equal, bit for bit, to those
of a runner over such a log.

`RecommenderRunner` runs only the recommender, and returns its conclusions as columns, without building decisions. It stands for
the whole pipeline where the other stages can have nothing to do: a usage trace has no policies, nodes or outcomes, so no stage
plans an update, a node or a replica, and conditions of VPA objects do not count in the score. Amounts, turns and dead letters are
the same either way.

`Recording` cuts any log into frames: a file, a stretch of Kafka, or memory that a source is still filling. Topics that the stages
write themselves are left out unless they are asked for, as a backtest makes its own decisions, and so are recorded rules, as it
tries rules of its own. One frame at a time is in memory, if the topics are read evenly.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agents.engine.stage import Stage
from agents.engine.turn import BatchDecided, Decided, DeferredRecords, Recorded, RecordsInParts, State, Turn
from agents.engine.turn_aligner import Aligner, TickEnds
from agents.logic.vertical.recommender_stage import Conclusion, Recommender
from agents.logic.vertical.vertical_settings import NAME
from agents.run.stage_topics import stage_names
from schemas.catalogue import Event
from schemas.names import Place
from schemas.policies.control import StageRulesChanged
from streams import clock_log
from streams.clock_log import ClockReader
from streams.clock_rules import FILL, Tick
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.log_port import Log, Record
from streams.topics import Topics


@dataclass(frozen=True, slots=True)
class RoutedEvent:
    """An event and where it goes: topic (short name) and partition. None is a record that cannot be read."""

    event: Event | None
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class StageTurn:
    """What one partition of one stage gave in one turn, and how many records it set aside."""

    decided: Sequence[Decided]
    dead_letters: int


_Waiting = Recorded | DeferredRecords | None
"""None is a record that cannot be read."""


class EventRunner:
    """All partitions of some stages, from an empty state. `read`: short names of the topics that some stage reads.

    Without `routes` the caller brings decisions to their readers, among the events of a turn.
    """

    def __init__(self, stages: Sequence[Stage], topics: Topics, read: Iterable[str], *, routes: bool = True) -> None:
        for stage in stages:
            stage.require(topics.partitions)
        self._topics, self._routes = topics, routes
        self._read = tuple(read)
        partitions = range(topics.partitions)
        self._states: list[tuple[Stage, int, State]] = [(stage, p, stage.open(p)) for stage in stages for p in partitions]
        self._offsets = {(topic, p): 0 for topic in self._read for p in partitions}
        self._waiting: dict[tuple[str, int], list[_Waiting]] = {place: [] for place in self._offsets}

    @property
    def states(self) -> Iterator[tuple[str, int, State]]:
        """Stage, partition and state of each."""
        return ((stage.name, partition, state) for stage, partition, state in self._states)

    def turn(self, number: int, events: Iterable[RoutedEvent]) -> list[StageTurn]:
        """Take the turn of this number in everywhere, with these events and what was decided in the turn before."""
        for routed in events:
            self._append(routed)
        waiting = self._waiting
        # taken away before the steps, so that what is decided now is read in the next turn
        self._waiting = {place: [] for place in self._offsets}
        done = [self._step(stage, partition, state, number, waiting) for stage, partition, state in self._states]
        for turn in done if self._routes else ():
            if isinstance(turn.decided, BatchDecided):
                self._append_batch(turn.decided)
            for decided in turn.decided.others if isinstance(turn.decided, BatchDecided) else turn.decided:
                self._append_decision(decided)
        return done

    def _append(self, routed: RoutedEvent) -> None:
        place = self._next_place(routed.topic, routed.partition)
        if place is not None:
            event = routed.event
            # what cannot be read has a place as well, else later places would differ from a log's
            self._waiting[routed.topic, routed.partition].append(None if event is None else Recorded(event, place))

    def _append_decision(self, decided: Decided) -> None:
        if decided.topic in self._read:
            self._append(RoutedEvent(decided.event, decided.topic, self._topics.partition_of(decided.key)))

    def _append_batch(self, decided: BatchDecided) -> None:
        """Append a batch to the topics that are read."""
        for topic, key in decided.routes.items():
            if topic not in self._read:
                continue
            numbers: dict[int, list[int]] = {}
            for number, subject in enumerate(decided.batch.subjects):
                numbers.setdefault(self._topics.partition_of(key(subject)), []).append(number)
            for partition, here in numbers.items():
                place = self._next_place(topic, partition, len(here))
                if place is not None:
                    self._waiting[topic, partition].append(DeferredRecords(decided.batch, here, place))

    def _next_place(self, topic: str, partition: int, count: int = 1) -> Place | None:
        """Where the next `count` records of a partition begin; None in a topic that no stage reads."""
        offset = self._offsets.get((topic, partition))
        if offset is None:
            return None
        self._offsets[topic, partition] = offset + count
        return Place(self._topics.wire(topic), partition, offset)

    def _step(
        self,
        stage: Stage,
        partition: int,
        state: State,
        number: int,
        waiting: dict[tuple[str, int], list[_Waiting]],
    ) -> StageTurn:
        dead = 0
        inputs: dict[str, Sequence[Recorded]] = {}
        for topic in stage.reads:
            records = waiting[topic, partition]
            accepted = [record for record in records if record is not None and _accepts(stage, record, number)]
            dead += len(records) - len(accepted)
            inputs[topic] = _in_parts(accepted)
        return StageTurn(state.step(Turn(number, inputs)), dead)


def _in_parts(accepted: list[Recorded | DeferredRecords]) -> Sequence[Recorded]:
    single = [record for record in accepted if isinstance(record, Recorded)]
    return single if len(single) == len(accepted) else RecordsInParts(accepted)


def _accepts(stage: Stage, recorded: Recorded | DeferredRecords, turn: int) -> bool:
    if isinstance(recorded, DeferredRecords):  # the stage that decided them has kept all bounds
        return True
    event = recorded.event
    return not (stage.refuse(event) or stage.ahead(event, turn))


TRACE_TOPICS = ("rules", "pod-changes", "pod-changes-by-cluster", "oom-events", "pod-metrics")
"""Where the facts of a trace go, and the policy that says how all of its pods are changed."""

_Check = tuple[Callable[[Event], str | None], Callable[[Event, int], str | None]]


@dataclass(frozen=True, slots=True)
class ConcludedTurn:
    """What all stages gave in one turn: one conclusion, and how many records they set aside."""

    stages: int
    conclusion: Conclusion | None
    dead_letters: int


def covers(stages: Sequence[Stage], topics: Topics) -> bool:
    """Whether these stages are the pipeline, whose score on a trace the recommender alone decides, in one partition."""
    return topics.partitions == 1 and tuple(stage.name for stage in stages) == stage_names()


class RecommenderRunner:
    """The recommender of one partition, from an empty state, in place of all `stages`."""

    def __init__(self, stages: Sequence[Stage], topics: Topics) -> None:
        [stage] = [stage for stage in stages if stage.name == NAME]
        stage.require(topics.partitions)
        state = stage.open(0)
        if not isinstance(state, Recommender):
            msg = f"the stage '{NAME}' has a state of another kind: {type(state).__name__}"
            raise TypeError(msg)
        self.state = state
        self._stages, self._checks = len(stages), {topic: _checks(stages, topic) for topic in TRACE_TOPICS}
        self._accept: dict[str, _Check] = dict.fromkeys(stage.reads, (stage.refuse, stage.ahead))
        self._wires = {topic: topics.wire(topic) for topic in TRACE_TOPICS}
        self._offsets = dict.fromkeys(TRACE_TOPICS, 0)

    def turn(self, number: int, events: Iterable[RoutedEvent]) -> ConcludedTurn:
        """Take the turn of this number in, with these events of a trace."""
        inputs: dict[str, list[Recorded]] = {}
        dead, last, answers = 0, None, dict[_Check, bool]()
        for routed in events:
            event, topic = routed.event, routed.topic
            place = Place(self._wires[topic], 0, self._offsets[topic])
            self._offsets[topic] += 1
            if event is None:
                # for each reader, as every stage sets it aside by itself
                dead += sum(readers for _, readers in self._checks[topic])
                continue
            if event is not last:  # an event that goes to two topics is checked once
                last, answers = event, {}
            answers.update((check, _passes(check, event, number)) for check, _ in self._checks[topic] if check not in answers)
            dead += sum(readers for check, readers in self._checks[topic] if not answers[check])
            if topic in self._accept and answers[self._accept[topic]]:
                inputs.setdefault(topic, []).append(Recorded(event, place))
        return ConcludedTurn(self._stages, self.state.conclude(Turn(number, inputs)), dead)


def _checks(stages: Sequence[Stage], topic: str) -> list[tuple[_Check, int]]:
    """The checks of a topic's readers, and how many readers share each."""
    readers: dict[_Check, int] = {}
    for stage in stages:
        if topic in stage.reads:
            # stages that share a check share its answer, and each counts a dead letter
            readers[stage.refuse, stage.ahead] = readers.get((stage.refuse, stage.ahead), 0) + 1
    return list(readers.items())


def _passes(check: _Check, event: Event, number: int) -> bool:
    refuse, ahead = check
    return not (refuse(event) or ahead(event, number))


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
