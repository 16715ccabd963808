"""Reads a stretch of the log in an order that follows from the log alone: the base of tap, replay, verify and export.

Time here is event time: the number of a tick, else what `ce_time` says, else when the log took the record. A merged stretch keeps
the order of each partition: a record that is earlier than what stands before it comes right after that. Nothing here reads a
clock, decodes a value or changes a log that it reads.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from streams.codec.event_codec import header, tick_number
from streams.log.port import Log, Record

Partition = tuple[str, int]
Bound = datetime | Mapping[Partition, int] | None
"""A moment of event time, an offset for each partition (those left out: all there is), or all there is."""

AT_ONCE = 2_000
"""Records asked for in one poll, and held of one partition while another one is behind."""
LOOK_AGAIN = 1.0
"""Seconds that one look for new records waits while following."""


class Keeper(Protocol):
    """A log that can take in records with the places they had elsewhere: memory and file."""

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic if it is not there."""

    def import_records(self, records: Sequence[Record]) -> None:
        """Take records in with their offsets."""

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record."""


@dataclass(slots=True)
class Lane:
    """One partition of a stretch: what is still to be read, and what has been read ahead."""

    topic: str
    partition: int
    rank: int
    position: int
    end: int
    ahead: deque[Record] = field(default_factory=deque)

    @property
    def hungry(self) -> bool:
        """Whether there may be more to read."""
        return self.position < self.end and len(self.ahead) < AT_ONCE

    def take(self, record: Record) -> None:
        """Remember a record that was read. One beyond the end says that the stretch has been read."""
        if record.offset < self.end:
            self.ahead.append(record)
        self.position = record.offset + 1


def when(record: Record) -> int:
    """The event time of a record in milliseconds since the epoch; -1 when nothing says it."""
    number = tick_number(record)
    if number is not None:
        return number
    said = header(record, "ce_time")
    try:
        at = datetime.fromisoformat(said) if said else None
    except ValueError:
        at = None
    return record.timestamp_ms if at is None or at.tzinfo is None else milliseconds(at)


def milliseconds(at: datetime) -> int:
    """Milliseconds since the epoch, rounded down."""
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def stretch(
    log: Log, topics: Sequence[str], *, since: Bound = None, until: Bound = None, merged: bool = False
) -> Iterator[Record]:
    """The records of these topics (wire names) from `since` up to, but without, `until`; never more than there is now.

    In the order of the topics, partition after partition; or merged by event time, ties in that same order. Raises BadInput for
    an unknown topic.
    """
    yield from _read(log, _lanes(log, topics, since, until), merged=merged)


def follow(log: Log, topics: Sequence[str], *, since: Bound = None, merged: bool = False) -> Iterator[Record]:
    """As `stretch` up to now, and then for ever what is appended, as it comes; nothing is left out or given twice in between."""
    lanes = _lanes(log, topics, since, None)
    positions = {(lane.topic, lane.partition): lane.end for lane in lanes}
    yield from _read(log, lanes, merged=merged)
    while True:
        for record in log.poll(positions, wait=LOOK_AGAIN):
            positions[record.topic, record.partition] = record.offset + 1
            yield record


def position(log: Log, topic: str, partition: int, at: datetime) -> int:
    """The offset of the first record that is not before this moment of event time; the end when there is none.

    Found by halving: in a partition whose times go back, it is the place where they last pass the moment, give or take those.
    """
    wanted = milliseconds(at)
    low, high = log.begin(topic, partition), log.end(topic, partition)
    while low < high:
        middle = (low + high) // 2
        record = _first_with_time(log, topic, partition, middle, high)
        if record is None or when(record) >= wanted:
            high = middle
        else:
            low = record.offset + 1
    return low


def export(log: Log, to: Keeper, topics: Sequence[str], *, since: Bound = None, until: Bound = None) -> Mapping[str, int]:
    """Copy a stretch with its places and times; gives how many records of each topic were copied.

    What `to` holds already is not copied again, so repeating it adds what is new.
    """
    for topic in topics:
        to.create(topic, log.partitions(topic))
    lanes = _lanes(log, topics, since, until)
    for lane in lanes:
        lane.position = max(lane.position, to.end(lane.topic, lane.partition))
    copied = dict.fromkeys(topics, 0)
    for lane in lanes:
        while lane.position < lane.end:
            _fill(log, [lane])
            batch = list(lane.ahead)
            lane.ahead.clear()
            to.import_records(batch)
            copied[lane.topic] += len(batch)
    return copied


def _lanes(log: Log, topics: Sequence[str], since: Bound, until: Bound) -> list[Lane]:
    lanes: list[Lane] = []
    for topic in topics:
        for partition in range(log.partitions(topic)):
            begin, end = log.begin(topic, partition), log.end(topic, partition)
            start = _offset(log, topic, partition, since, begin)
            stop = min(end, _offset(log, topic, partition, until, end))
            lanes.append(Lane(topic, partition, len(lanes), start, stop))
    return lanes


def _offset(log: Log, topic: str, partition: int, bound: Bound, otherwise: int) -> int:
    if isinstance(bound, datetime):
        return position(log, topic, partition, bound)
    return otherwise if bound is None else bound.get((topic, partition), otherwise)


def _first_with_time(log: Log, topic: str, partition: int, start: int, end: int) -> Record | None:
    """The first record in [start, end) whose time is known."""
    while start < end:
        records = log.poll({(topic, partition): start}, limit=1)
        if not records or records[0].offset >= end:
            return None
        if when(records[0]) >= 0:
            return records[0]
        start = records[0].offset + 1
    return None


def _read(log: Log, lanes: Sequence[Lane], *, merged: bool) -> Iterator[Record]:
    return _merge(log, lanes) if merged else _one_after_another(log, lanes)


def _one_after_another(log: Log, lanes: Sequence[Lane]) -> Iterator[Record]:
    for lane in lanes:
        while lane.position < lane.end:
            _fill(log, [lane])
            while lane.ahead:
                yield lane.ahead.popleft()


def _merge(log: Log, lanes: Sequence[Lane]) -> Iterator[Record]:
    heads: list[tuple[int, int]] = []
    by_rank = {lane.rank: lane for lane in lanes}
    waiting = list(lanes)
    while True:
        for lane in waiting:
            while not lane.ahead and lane.position < lane.end:
                _fill(log, lanes)
            if lane.ahead:
                heapq.heappush(heads, (when(lane.ahead[0]), lane.rank))
        if not heads:
            return
        _, rank = heapq.heappop(heads)
        yield by_rank[rank].ahead.popleft()
        waiting = [by_rank[rank]]


def _fill(log: Log, lanes: Sequence[Lane]) -> None:
    """Read on wherever there is room. An empty answer means that the log has no more there, whatever its end says."""
    hungry = {(lane.topic, lane.partition): lane for lane in lanes if lane.hungry}
    records = log.poll({key: lane.position for key, lane in hungry.items()}, limit=AT_ONCE)
    for record in records:
        hungry[record.topic, record.partition].take(record)
    if not records:
        for lane in hungry.values():
            lane.position = lane.end
