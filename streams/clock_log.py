"""Reads the topic `clock` of a log: what counts up to its end, up to a moment, or from a place on."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from schemas import times
from schemas.catalogue import CATALOGUE
from schemas.decisions import Decision
from streams import clock_rules
from streams.clock_rules import PARTITION, ClockRecord, Counted, Tick
from streams.log import log_port
from streams.log.log_port import Log, LogEnd, Record
from streams.topics import CLOCK, Topics

_STRETCH, _LONGEST = 256, 16_384
"""Records read at once when looking back for a full one, which a clock writes each minute."""
_DELIVERY = 0.05  # seconds in which a record comes that the log says it has; the last offsets may hold none
_READ_THROUGH = 1_000
"""Records that are read one by one in a search for a moment."""


def place(topics: Topics) -> tuple[str, int]:
    """Wire name and partition of the clock."""
    return topics.wire(CLOCK), PARTITION


def comes_after_its_tick(name: str) -> bool:
    """Whether stages write this topic (short name): what is decided in a turn stands behind the end that its tick says."""
    return name == "dead-letters" or any(kind.event in get_args(Decision) for kind in CATALOGUE.carried_by(name))


def ends_of(log: Log, topics: Topics, names: Collection[str]) -> dict[tuple[str, int], LogEnd]:
    """Where the partitions of these topics (short names) end in the log now, without those for which nobody answers."""
    places = {(topics.wire(name), p): (name, p) for name in names for p in range(topics.count(name))}
    return {places[at]: end for at, end in log_port.ends_of(log, places).items()}


def counted(log: Log, topics: Topics, *, before: int | None = None) -> Counted:
    """What counts, from a full record on that lies before this offset, or is the newest. The caller reads on from its `next`."""
    at = place(topics)
    begin, end = log.begin(*at), log.end(*at)
    start, stride = end if before is None else min(before + _STRETCH, end), _STRETCH
    records: list[Record] = []
    while start > begin:
        earlier = max(begin, start - stride)
        # A clock writes a full record each minute, so one stretch is nearly always enough.
        records = [*between(log, at, earlier, start), *records]
        start, stride = earlier, min(_LONGEST, stride * 4)
        state = clock_rules.begin_in_middle(records, before=before)
        if state is not None:
            return state
    return first_counted(log, topics)


def first_counted(log: Log, topics: Topics) -> Counted:
    """What counts from the earliest record on from which a reader can know it."""
    at = place(topics)
    begin, end = log.begin(*at), log.end(*at)
    if begin == 0:
        return Counted()
    records = list(between(log, at, begin, min(begin + _LONGEST, end)))
    for number, record in enumerate(records):
        state = Counted.at_full(record)
        if state is not None and clock_rules.begin_in_middle(records[number:], before=record.offset + 1) is not None:
            return state
    # From the first record on: either the chain begins there, or nothing counts until a full record is confirmed.
    return Counted(next=begin)


def between(log: Log, at: tuple[str, int], start: int, end: int) -> Iterator[Record]:
    """The records of a partition from `start` on and before `end`."""
    while start < end and (records := log.poll({at: start}, limit=min(end - start, 10_000))):
        yield from (record for record in records if record.offset < end)
        start = records[-1].offset + 1


@dataclass(frozen=True, slots=True)
class PlaceInClock:
    """Where the clock's topic begins and ends, and the record of a clock at one offset of it, if there is one."""

    begin: int
    end: int
    record: ClockRecord | None


def look_at(log: Log, topics: Topics, offset: int) -> PlaceInClock:
    """What the topic holds at an offset."""
    at = place(topics)
    begin, end = log.begin(*at), log.end(*at)
    records = log.poll({at: offset}, limit=1) if begin <= offset < end else ()
    record = ClockRecord.decode(records[0]) if records and records[0].offset == offset else None
    return PlaceInClock(begin, end, record)


class ClockReader:
    """Follows the clock of one log from its newest full record on, or from the state `start`. Reads nothing before `catch_up`."""

    def __init__(self, log: Log, topics: Topics, start: Counted | None = None) -> None:
        self._log, self._topics = log, topics
        self._counted, self._from_newest = start, start is None

    @property
    def counted(self) -> Counted:
        """What counts of what was read."""
        return self._counted or Counted()

    @property
    def at(self) -> datetime | None:
        """Event time: that of the last tick; None before the first."""
        return None if self.counted.number < 0 else times.from_ms(self.counted.number)

    def take(self, records: Sequence[Record]) -> list[Tick]:
        """Take in records that somebody else read, the first of them at the place up to which was read; the ticks among them."""
        return list(clock_rules.ticks(self.counted, records))

    def catch_up(self, *, wait: float = 0.0, most: int | None = None) -> list[Tick]:
        """Read to the end, or until there are `most` ticks; the ticks that came. Raises LogUnavailable.

        Who waits up to `wait` seconds for the next gets what is there when something comes, and asks again for more.
        """
        if self._counted is None or (self._from_newest and self._counted.last is None):
            before, self._counted = self.counted, counted(self._log, self._topics)
            # A topic from whose first record on everything is read needs no full one: the chain begins there.
            self._from_newest = self._counted.next > 0
            ticks = [self._counted.last] if self._counted.last is not None and before.last is None else []
        else:
            ticks = []
        at = place(self._topics)
        # Who does not wait asks where the topic ends, which costs less than to learn from the log that nothing comes.
        end = None if wait else log_port.all_ends_of(self._log, [at])[at]
        while most is None or len(ticks) < most:
            if end is not None and self._counted.next >= end:
                break
            records = self._log.poll({at: self._counted.next}, wait=wait or _DELIVERY)
            if not records:
                break
            if records[0].offset > self._counted.next < self._log.begin(*at):
                # Retention took what comes next, and what comes after that may only seem to come after what was read.
                self._counted = first_counted(self._log, self._topics)
                ticks += [] if self._counted.last is None else [self._counted.last]
                continue
            ticks += clock_rules.ticks(self._counted, records)
            if wait:
                break
        return ticks


def newest(log: Log, topics: Topics) -> Tick | None:
    """The last tick; None in a log that has none."""
    reader = ClockReader(log, topics)
    reader.catch_up()
    return reader.counted.last


def oldest(log: Log, topics: Topics) -> Tick | None:
    """The first tick that is kept; None in a log that has none."""
    state = first_counted(log, topics)
    if state.last is not None:
        return state.last
    return next(iter(ticks_from(log, topics, state)), None)


def ticks_from(log: Log, topics: Topics, start: Counted) -> Iterator[Tick]:
    """The ticks after what was counted, up to the end that the log has now. `start` is taken along."""
    at = place(topics)
    for record in between(log, at, start.next, log.end(*at)):
        tick = start.take(record)
        if tick is not None:
            yield tick


def counted_at(log: Log, topics: Topics, at: datetime) -> Counted:
    """What counted at a moment: up to the last tick that is not after it. Without one, nothing counts, and all ends are 0."""
    wanted, there = times.to_ms(at), place(topics)
    low, high = log.begin(*there), log.end(*there)
    while high - low > _READ_THROUGH:
        middle = (low + high) // 2

        number = next((tick.number for r in between(log, there, middle, high) if (tick := ClockRecord.decode(r))), wanted + 1)
        low, high = (middle, high) if number <= wanted else (low, middle)
    state = counted(log, topics, before=low)
    if state.number > wanted:
        return Counted()
    for record in between(log, there, state.next, log.end(*there)):
        tick = ClockRecord.decode(record)
        if tick is not None and tick.number > wanted and tick.after == state.place:
            break
        state.take(record)
    return state
