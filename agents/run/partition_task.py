"""A task: one partition of one stage at work. Records go in; each complete turn gives encoded decisions and dead letters.

All drivers host the same task, so live, backtest and verification cannot drift apart. A task does no I/O and reads no clock: the
driver feeds it records, and appends the results of its turns.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agents.engine.input_digest import Epochs, EpochsRead, InputDigests, record_digest
from agents.engine.stage import Stage
from agents.engine.turn import Decided, Recorded, State, Turn
from agents.engine.turn_aligner import Aligner, TickEnds, TurnRecords
from schemas.catalogue import Event
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.usage import MetricsScraped
from schemas.ids import TaskSource
from schemas.names import Place
from schemas.plain_json import JsonObject
from schemas.policies.control import StageRulesChanged
from streams.clock_rules import FILL, Tick
from streams.codec.event_codec import Codec
from streams.codec.plan_attestations import attested
from streams.errors import BadRecord
from streams.log.log_port import NewRecord, Record, size_of
from streams.topics import CLOCK, Topics

# Decisions on their way through the log, for a worker that reads its own back: compared by their bytes, not decoded again.
# Most of what a worker takes in while it catches up are recommendations that its own recommender has just decided. A record that
# is byte for byte the one that was published says the event that was published, so this changes nothing but the time that a turn
# takes. Bounded in bytes.

MOST_BYTES = 64 << 20
"""Bytes of all that is kept."""
_EVENT_BYTES = 1500
"""About what an event takes beside the bytes of its record."""

Refuse = Callable[[Event], str | None]


@dataclass(slots=True)
class _Published:
    """A record, its event, the check that accepts it, and about how many bytes all of it takes."""

    record: NewRecord
    event: Event
    refuse: Refuse
    size: int


class OwnDecisionCache:
    """What one process has published and not read back, for the partitions that it reads."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        """Follows no partition yet."""
        self._most, self.size = most, 0  # `size` in bytes
        self._partitions: dict[tuple[str, int], OrderedDict[bytes, _Published]] = {}

    def follow(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions (wire name and number) and no others from now on; what was in flight is forgotten."""
        self._partitions = {partition: OrderedDict() for partition in partitions}
        self.size = 0

    def follows(self, record: NewRecord) -> bool:
        """Whether the partition of a record is read, and there is room."""
        # What came first is read back first, so a full memory is more useful if it keeps what it has.
        return (record.topic, record.partition) in self._partitions and self.size < self._most

    def publish(self, record: NewRecord, event: Event, refuse: Refuse) -> None:
        """Keep an event that reading `record` would give, and that `refuse` accepts, of a partition that is followed."""
        flying, value = self._partitions[record.topic, record.partition], record.value
        because = event.because if isinstance(event, RequestsRecommended) else None
        # A JsonObject is the text that stands in the record, so that reading the record gives no other `because`.
        if value is None or value in flying or not isinstance(because, JsonObject):
            return
        size = size_of(record) + len(because.text) + _EVENT_BYTES
        self.size += size
        flying[value] = _Published(record, event, refuse, size)

    def land(self, record: Record, refuse: Refuse) -> Event | None:
        """The event in a record that is one of ours to the last byte of key, value and headers; None for any other."""
        flying = self._partitions.get((record.topic, record.partition))
        flying_record = flying.get(record.value) if flying and record.value is not None else None
        if flying is None or flying_record is None:
            return None
        published = flying_record.record
        if record.key != published.key or record.headers != published.headers or flying_record.refuse is not refuse:
            return None
        # A partition keeps its order, so records published before this one will not come any more.
        gone = None
        while gone is not flying_record:
            _, gone = flying.popitem(last=False)
            self.size -= gone.size
        return flying_record.event


@dataclass(frozen=True, slots=True)
class RecordedRulesChange:
    """Rules that took effect at a turn, and their place in the log."""

    rules: StageRulesChanged
    place: Place


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The result of one turn: decisions in order, dead letters, and how many records and samples of usage went in.

    `rules` is the newest record about the stage's rules that went in, if any. `attestations` vouch for the plans among the
    decisions, and follow from them.
    """

    turn: int
    decisions: Sequence[NewRecord]
    dead: Sequence[NewRecord]
    records: int
    samples: int
    rules: RecordedRulesChange | None = None
    attestations: Sequence[NewRecord] = ()

    @property
    def published(self) -> Sequence[NewRecord]:
        """All that a driver appends, as one unit."""
        # The attestations come first, so that no consumer waits for one.
        return [*self.attestations, *self.decisions, *self.dead]


class SharedRecord(Record):
    """A record that several stages of a process may read: the first reader caches event and digest in it for the others.

    It keeps the event as long as some stage has the record, so the stages' buffer bounds limit this, too.
    """

    __slots__ = ("digest", "reading")
    digest: bytes
    reading: "_Reading | None"

    def __init__(self, *parts: Any) -> None:
        """`parts` are those of a `Record`, in their order. Nobody has read it yet."""
        super().__init__(*parts)
        object.__setattr__(self, "reading", None)
        object.__setattr__(self, "digest", b"")

    @staticmethod
    def of(record: Record) -> "SharedRecord":
        """The same record, for several readers."""
        fields = record.topic, record.partition, record.offset, record.key, record.value, record.headers
        return SharedRecord(*fields, record.timestamp_ms, record.epoch)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The result of reading a record: an event, or why it is none. `refuse` is the check that was applied."""

    refuse: Callable[[Event], str | None]
    event: Event | None = None
    fault: BadRecord | None = None


class Task:
    """One partition of one stage. `positions` maps the short name of each input to its end in `turn`."""

    def __init__(  # noqa: PLR0913  # a task is wired once, in one place, by keyword
        self,
        stage: Stage,
        partition: int,
        *,
        topics: Topics,
        codec: Codec,
        positions: Mapping[str, int],
        turn: int = -1,
        tick: tuple[int, str] | None = None,
        state: State | None = None,
        inputs: InputDigests | None = None,
        epochs: Epochs | None = None,
        in_flight: OwnDecisionCache | None = None,
    ) -> None:
        """Begin after `turn`, whose tick has the place `tick`, with `state`, or with an empty one.

        `inputs`: digests of what was read up to there, `epochs`: under which leaders; if known.

        `in_flight`: what the tasks of this process publish and read back, where that saves reading.
        """
        self.stage, self.partition = stage, partition
        self.topics, self.codec, self.in_flight = topics, codec, in_flight
        self.state = stage.open(partition) if state is None else state
        self.aligner: Aligner[Record] = Aligner({name: positions[name] for name in stage.reads}, turn, tick)
        self.inputs, self.epochs = self._continued(inputs, turn), EpochsRead(epochs)
        self._name = TaskSource(stage.name, partition)
        self.source = str(self._name)
        self._vouched: tuple[Event | None, bool] = None, False

    @property
    def turn(self) -> int:
        """The last turn taken."""
        return self.aligner.turn

    @property
    def positions(self) -> Mapping[str, int]:
        """For each input, its end in the last turn taken."""
        return dict(self.aligner.positions)

    @property
    def tick(self) -> tuple[int, str] | None:
        """Where the tick of the last turn taken stands in the clock's topic, and its name; None before the first turn."""
        return self.aligner.tick

    def resume(
        self,
        turn: int,
        *,
        positions: Mapping[str, int],
        tick: tuple[int, str] | None,
        inputs: InputDigests | None,
        epochs: Epochs | None = None,
    ) -> None:
        """Go on after `turn`, whose state was loaded; drop what was fed before."""
        self.aligner = Aligner({name: positions[name] for name in self.stage.reads}, turn, tick)
        self.inputs, self.epochs = self._continued(inputs, turn), EpochsRead(epochs)

    def _continued(self, inputs: InputDigests | None, turn: int) -> InputDigests:
        """The digests to go on with. Digests of inputs that the stage no longer reads do not count."""
        if inputs is None or inputs.chains.keys() != set(self.stage.reads):
            # A stage that reads another topic than before has no chain of it, so all of them begin anew.
            return InputDigests.begin(self.stage.reads, since=turn)
        return inputs

    def feed(self, name: str, record: Record) -> None:
        """Take in one record of the input `name`. Offsets must rise; gaps are allowed, and older records are ignored."""
        source = self.aligner.inputs[name]
        if record.key == FILL:
            # A filler takes the place of a record that a broker lost: it says nothing, and the offset counts as read.
            source.skip_to(record.offset + 1)
            self.epochs.take(name, record.epoch, record.offset + 1)
        else:
            source.add(record.offset, record, record.size, last=record.last_offset)

    def take_tick(self, tick: Tick) -> None:
        """Take in a tick that counts."""
        moved = {name: tick.moved[name, self.partition] for name in self.stage.reads if (name, self.partition) in tick.moved}
        ends = TickEnds(tick.number, tick.place, moved, tick.epoch) if moved else _unmoved(tick.number, tick.place, tick.epoch)
        self.aligner.take_tick(ends)

    def next_turn(self) -> TurnResult | None:
        """Take the next turn: apply its records to the state and return the result. None while no turn is complete."""
        cut = self.aligner.next_turn()
        if cut is None:
            return None
        dead: list[NewRecord] = []
        inputs: dict[str, list[Recorded]] = {}
        # Most turns of a quiet log have nothing in them.
        if any(cut.records.values()):
            self._note_epochs(cut)
            self.inputs = self.inputs.after(
                cut.number, {name: list(map(_digest, of_input)) for name, of_input in cut.records.items()}
            )
            inputs = self._decode(cut, dead)
        if self.tick is not None:
            self.epochs.take(CLOCK, cut.epoch, self.tick[0] + 1)
        turn = Turn(cut.number, inputs)
        decisions = [self._encode(decided) for decided in self.state.step(turn)]
        count = sum(map(len, inputs.values()))
        # Only a turn can say which plans it made; a consumer cannot recompute it.
        vouched = attested(decisions, task=self._name, turn=cut.number, topics=self.topics, codec=self.codec)
        return TurnResult(cut.number, decisions, dead, count, _samples(turn), self._rules(turn), vouched)

    def _note_epochs(self, cut: TurnRecords[Record]) -> None:
        """Note under which leaders the records of a turn were read."""
        for name, records in cut.records.items():
            # Within one leader's time the last record says it all.
            alike = len(records) > 0 and records[0].epoch == records[-1].epoch
            for record in records[-1:] if alike else records:
                self.epochs.take(name, record.epoch, record.last_offset + 1)

    def _encode(self, decided: Decided) -> NewRecord:
        topic, key, partition = decided.topic, decided.key, self.topics.partition_of(decided.key)
        record = self.codec.encode(
            decided.written, topic=topic, key=key, partition=partition, source=self.source, cause=decided.cause
        )
        in_flight = self.in_flight
        if in_flight is not None and in_flight.follows(record):
            event = decided.event
            if event is not self._vouched[0]:  # one that goes to two topics is looked at once
                self._vouched = event, self.stage.vouches(event)
            if self._vouched[1]:
                in_flight.publish(record, event, self.stage.refuse)
        return record

    def _rules(self, turn: Turn) -> RecordedRulesChange | None:
        newest = None
        for recorded in turn.of("rules"):
            event = recorded.event
            if isinstance(event, StageRulesChanged) and event.stage == self.stage.name:
                newest = RecordedRulesChange(event, recorded.place)
        return newest

    def _decode(self, cut: TurnRecords[Record], dead: list[NewRecord]) -> dict[str, list[Recorded]]:
        inputs: dict[str, list[Recorded]] = {}
        for name, records in cut.records.items():
            inputs[name] = []
            for record in records:
                try:
                    event = self._read(record, cut.number)
                except BadRecord as error:
                    dead.append(self.codec.dead_letter(record, error, by=self.source))
                else:
                    inputs[name].append(Recorded(event, record.place))
        return inputs

    def _read(self, record: Record, turn: int) -> Event:
        event = self._shared(record) if isinstance(record, SharedRecord) else self._accepted(record)
        reason = self.stage.ahead(event, turn)
        if reason is not None:
            raise BadRecord(reason)
        return event

    def _accepted(self, record: Record) -> Event:
        ours = None if self.in_flight is None else self.in_flight.land(record, self.stage.refuse)
        if ours is not None:
            return ours
        event = self.codec.decode(record)
        reason = self.stage.refuse(event)
        if reason is not None:
            raise BadRecord(reason)
        return event

    def _shared(self, record: SharedRecord) -> Event:
        """The event that another stage has read from the same record and by the same check, else read now."""
        reading = record.reading
        # Another stage's check may let pass what this one refuses.
        if reading is None or reading.refuse is not self.stage.refuse:
            try:
                reading = _Reading(self.stage.refuse, event=self._accepted(record))
            except BadRecord as fault:
                # A traceback holds the frames, and so all records of the turn, for as long as the record is buffered.
                reading = _Reading(self.stage.refuse, fault=fault.with_traceback(None))
            object.__setattr__(record, "reading", reading)
        if reading.event is None:
            raise reading.fault or BadRecord("nothing is in the record")
        return reading.event


@lru_cache(maxsize=8)
def _unmoved(number: int, place: tuple[int, str], epoch: int) -> TickEnds:
    """A tick in which nothing came for a task: one object for all tasks of a worker."""
    # Those that are a day behind hold the day's ticks, which were 660 MiB for 20 tasks, and are 91.
    return TickEnds(number, place, {}, epoch)


def _digest(record: Record) -> bytes:
    if not isinstance(record, SharedRecord):
        return record_digest(record)
    if not record.digest:
        object.__setattr__(record, "digest", record_digest(record))
    return record.digest


def _samples(turn: Turn) -> int:
    """Rows of scrapes in this turn."""
    return sum(len(r.event.pods) for r in turn.of("pod-metrics") if isinstance(r.event, MetricsScraped))
