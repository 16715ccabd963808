"""The records of the topic `clock`, the rules by which everybody decides which of them count, and event time. Pure.

A tick is one record: its time, the record that it comes after, and the end of each partition that moved. Turn n of a partition
has of each input the records from the end in force before up to the end in force with tick n. So a turn follows from the log
alone.

A record counts if and only if it can be read; its number is above the last that counted; it lies at most five minutes after its
own append time; `after` is place and name of the last record that counted; and no end is below the one in force. Numbers alone
would not do, as a clock that was frozen between asking for ends and appending would write old ends after a newer clock's. Nor
would offsets alone, because they come again after a log has lost its end. Whether a record counts never depends on where a log
ends now: a reader that comes later, when the log has grown, must not take what another one refused.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import orjson

from streams import typed_json
from streams.log.log_port import NewRecord, Record

PARTITION = 0
TICK, PROBE, FILL = b"tick", b"probe", b"fill"
"""Keys of what a clock writes: a tick, a question for the log's time, and what fills up a partition that lost its end."""
LAST_NUMBER = 253_402_300_800_000  # milliseconds of the year 10000, which no datetime can hold
MOST_AHEAD = 300_000  # milliseconds after the log took a tick: far more than clocks that are kept differ
MOST_ENDS = 100_000  # partitions in one record, so that nobody's record fills the memory of all readers
_NAME_LENGTH = 64

Ends = Mapping[tuple[str, int], int]
"""(short topic name, partition) to the offset after its last record."""


class _Fields(msgspec.Struct):
    at: int
    name: str
    ends: dict[str, dict[str, int]]
    after: tuple[int, str] | None = None
    full: bool = False
    more: bool = False


_read = typed_json.decoder(_Fields).decode


@dataclass(frozen=True, slots=True)
class ClockRecord:
    """One record of the clock. `ends` holds what moved; a `full` one holds all partitions. `after` is None for the first.

    `more`: the next follows at once, because a clock makes up for ticks. So event time is not yet what it should be.
    """

    number: int
    name: str
    after: tuple[int, str] | None
    ends: Ends
    full: bool = False
    more: bool = False

    def encode(self, wire: str) -> NewRecord:
        """The record for the topic of this wire name."""
        ends: dict[str, dict[str, int]] = {}
        for (topic, partition), end in self.ends.items():
            ends.setdefault(topic, {})[str(partition)] = end
        body = {"at": self.number, "name": self.name, "after": self.after, "full": self.full, "ends": ends}
        if self.more:
            body["more"] = True
        return NewRecord(wire, PARTITION, TICK, orjson.dumps(body))

    @staticmethod
    def decode(record: Record | NewRecord) -> "ClockRecord | None":
        """The record of a clock in a record of the log; None if it is none."""
        if record.key != TICK or record.value is None:
            return None
        try:
            read = _read(record.value)
            ends = {(topic, _partition(p)): end for topic, parts in read.ends.items() for p, end in parts.items()}
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        if not 0 <= read.at < LAST_NUMBER or not 0 < len(read.name) <= _NAME_LENGTH or len(ends) > MOST_ENDS:
            return None
        if any(not 0 <= end < 1 << 63 for end in ends.values()):
            return None
        return ClockRecord(read.at, read.name, read.after, ends, read.full, read.more)


def _partition(text: str) -> int:
    """Raises ValueError unless this is how a partition is written."""
    if not text.isdecimal() or not text.isascii() or str(int(text)) != text:
        msg = f"'{text}' is no partition"
        raise ValueError(msg)
    return int(text)


@dataclass(frozen=True, slots=True)
class Tick:
    """A record that counts: its place and number, the ends that it sets in force, when the log took it, and under which leader.

    `taken_ms` and `epoch` are -1 where a log does not say them. `more`: the next follows at once.
    """

    offset: int
    number: int
    name: str
    moved: Ends
    taken_ms: int = -1
    epoch: int = -1
    more: bool = False

    @property
    def place(self) -> tuple[int, str]:
        """What the next record that counts says in `after`."""
        return self.offset, self.name


@dataclass(slots=True)
class Counted:
    """What counts of the topic, read in order: the same for everybody who has read as far. `ends` are those in force."""

    last: Tick | None = None
    next: int = 0
    """The offset after the last record that was read."""
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Of each epoch of the topic's leaders, up to where its records were read, whether they count or not."""

    @property
    def number(self) -> int:
        """The number of the last record that counts; -1 before the first."""
        return -1 if self.last is None else self.last.number

    @property
    def place(self) -> tuple[int, str] | None:
        """What the next record has to say in `after`."""
        return None if self.last is None else self.last.place

    def take(self, record: Record) -> Tick | None:
        """The tick in this record if it counts. Records have to come in the order of their offsets; older ones are ignored."""
        if record.offset < self.next:
            return None
        self.next = record.last_offset + 1
        if record.epoch >= 0:
            if self.epochs and self.epochs[-1][0] == record.epoch:
                del self.epochs[-1]
            self.epochs.append((record.epoch, self.next))
        tick = ClockRecord.decode(record)
        if tick is None or tick.number <= self.number or tick.after != self.place or _is_ahead(record, tick.number):
            return None
        if any(end < self.ends.get(place, 0) for place, end in tick.ends.items()):
            return None
        self.last = Tick(record.offset, tick.number, tick.name, tick.ends, record.timestamp_ms, record.epoch, tick.more)
        self.ends.update(tick.ends)
        return self.last

    def end(self, topic: str, partition: int) -> int:
        """The end in force of a partition; 0 for one that no tick has named yet."""
        return self.ends.get((topic, partition), 0)

    @staticmethod
    def at_full(record: Record) -> "Counted | None":
        """Begin at a record in the middle of the topic; None unless it is full. Only a later record shows that it counts."""
        full = ClockRecord.decode(record)
        if full is None or not full.full or _is_ahead(record, full.number):
            return None
        tick = Tick(record.offset, full.number, full.name, full.ends, record.timestamp_ms, record.epoch, full.more)
        after = record.last_offset + 1
        return Counted(tick, after, dict(full.ends), [(record.epoch, after)] if record.epoch >= 0 else [])


def _is_ahead(record: Record, number: int) -> bool:
    """Whether a tick lies too far after its append time. A log without times (-1) refuses none."""
    return record.timestamp_ms >= 0 and number - record.timestamp_ms > MOST_AHEAD


def begin_in_middle(records: Sequence[Record], *, before: int | None = None) -> Counted | None:
    """What counts up to the last full record of a stretch that a later one of it confirms; None if it has none.

    A full record may be one that never counted, so a reader that begins there waits for one that follows it and would count.
    `before`: the full record has to lie before this offset.
    """
    followers: defaultdict[tuple[int, str] | None, list[Record]] = defaultdict(list)
    for record in records:
        if (tick := ClockRecord.decode(record)) is not None:
            followers[tick.after].append(record)
    for record in reversed(records):
        if before is not None and record.offset >= before:
            continue
        counted = Counted.at_full(record)
        if counted is None or counted.place not in followers:
            continue
        # To be named is not enough: of two full records after the same one, the one that never counted may be named by a record
        # that does not count either, such as one with old ends. Who began there would be alone for ever.
        trial = replace(counted, ends=dict(counted.ends), epochs=list(counted.epochs))
        if any(map(trial.take, followers[counted.place])):
            return counted
    return None


def ticks(counted: Counted, records: Sequence[Record]) -> Iterator[Tick]:
    """The ticks among records that follow what was counted."""
    for record in records:
        tick = counted.take(record)
        if tick is not None:
            yield tick


@dataclass(frozen=True, slots=True)
class TimeBase:
    """Event time from wall time: `origin + (wall - anchor) * speed`, in milliseconds. By default both are the same."""

    origin: int = 0
    anchor: int = 0
    speed: float = 1.0

    def event(self, wall: int) -> int:
        """Event time at a wall time."""
        return self.origin + int((wall - self.anchor) * self.speed)

    def wall(self, event: int) -> float:
        """The wall time of an event time."""
        return self.anchor + (event - self.origin) / self.speed
