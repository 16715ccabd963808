"""Reads a range of the log in an order that follows from the log alone: the base of tap, replay, verify and export.

Time here is event time: the number of a tick, else `ce_time`, else the time at which the record was appended. A merged range
keeps the order of each partition, so a record that is earlier than its predecessor comes right after it. Nothing here reads a
clock, decodes a value or changes a log that it reads.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median_low
from typing import Protocol, TypeVar, runtime_checkable

from schemas import bounds
from schemas.times import from_ms, to_ms
from streams.clock_rules import FILL, ClockRecord
from streams.codec.event_codec import header
from streams.errors import BadInput
from streams.log import log_port
from streams.log.log_port import Log, Record, TopicAndPartition

_AT_ONCE = 500
"""Records that `last_records` reads at a time."""

Item = TypeVar("Item")
Bound = datetime | Mapping[TopicAndPartition, int] | None
"""A moment of event time, an offset for each partition (those left out: all there is), or all there is."""

AT_ONCE = 2_000
"""Records in one poll, and records of one partition that are kept while another one is behind."""
FOLLOW_WAIT = 1.0
"""Seconds for which one poll waits for new records while following."""
LOOKED_THROUGH = 200  # records at the end of a search that are read at once: on Kafka one read costs as much as hundreds of them
_SAMPLED = 15  # records whose median time decides at one place of a search: one of them may say anything
_NEWEST = 9
"""Records at the end of a partition that are asked how far it got."""


def batches(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """These in their order, at most so many at a time."""
    rest = iter(items)
    while batch := list(itertools.islice(rest, most)):
        yield batch


@runtime_checkable
class OffsetsByTime(Protocol):
    """A log that says where many partitions were at a time in one answer."""

    def offsets_taken_at(self, places: Collection[TopicAndPartition], at_ms: int) -> Mapping[TopicAndPartition, int]:
        """The first offset appended at or after a time, in milliseconds, of the partitions that have one.

        Raises LogUnavailable.
        """


class RecordImporter(Protocol):
    """A log that takes in records with the places they had elsewhere: memory and file."""

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic if it does not exist."""

    def import_records(self, records: Sequence[Record]) -> None:
        """Append records with their offsets."""

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record."""


@dataclass(slots=True)
class _PartitionRange:
    """One partition of a range: the offsets that are still to be read, and the records that were read ahead."""

    topic: str
    partition: int
    rank: int
    position: int
    end: int
    ahead: deque[Record] = field(default_factory=deque)

    @property
    def has_room(self) -> bool:
        """Whether there may be more to read, and room for it."""
        return self.position < self.end and len(self.ahead) < AT_ONCE

    def add(self, record: Record) -> None:
        """Add a record that was read. One beyond the end shows that the range has been read."""
        if record.offset < self.end:
            self.ahead.append(record)
        self.position = record.offset + 1


def event_time_ms(record: Record) -> int:
    """The event time of a record in milliseconds since the epoch; -1 when it is unknown or out of bounds."""
    tick = ClockRecord.decode(record)
    if tick is not None:
        return tick.number
    text = header(record, "ce_time")
    try:
        at = datetime.fromisoformat(text) if text else None
    except ValueError:
        at = None
    claimed = -1 if at is None or at.tzinfo is None else to_ms(at)
    return claimed if 0 <= claimed < bounds.LAST_SECOND * 1000 else taken_ms(record)


def taken_ms(record: Record) -> int:
    """When the log took a record; -1 when that is unknown, or a time that only a producer can have made up."""
    return record.timestamp_ms if 0 <= record.timestamp_ms < bounds.LAST_SECOND * 1000 else -1


def read_range(
    log: Log, topics: Sequence[str], *, since: Bound = None, until: Bound = None, merged: bool = False
) -> Iterator[Record]:
    """The records of these topics (wire names) from `since` up to, but without, `until`; never more than the log holds now.

    In the order of the topics, partition after partition; or merged by event time, ties in that same order. Raises BadInput for
    an unknown topic.
    """
    yield from _read(log, _partition_ranges(log, topics, since, until), merged=merged)


def follow(log: Log, topics: Sequence[str], *, since: Bound = None, merged: bool = False) -> Iterator[Record]:
    """As `read_range` up to now, then every appended record, without end; no record is skipped or repeated."""
    ranges = _partition_ranges(log, topics, since, None)
    positions = {(span.topic, span.partition): span.end for span in ranges}
    yield from _read(log, ranges, merged=merged)
    while True:
        for record in log.poll(positions, wait=FOLLOW_WAIT):
            positions[record.topic, record.partition] = record.offset + 1
            yield record


def offset_at(log: Log, topic: str, partition: int, at: datetime) -> int:
    """An offset from which on no record is before this moment of event time; records without a time go with the one after them.

    In a partition whose times sometimes go back, it is the place that puts the fewest records on the wrong side, so one record
    with an odd time moves nothing.
    """
    wanted = to_ms(at)
    low, high = log.begin(topic, partition), log.end(topic, partition)
    while high - low > LOOKED_THROUGH:
        middle = (low + high) // 2
        sample = _sample(log, topic, partition, middle, high)
        if not sample:
            high = middle
        elif median_low(map(event_time_ms, sample)) < wanted:
            low = sample[0].offset + 1
        else:
            high = sample[-1].offset if sample[-1].offset < high - LOOKED_THROUGH // 4 else middle
    timed = [
        (time, record.offset) for record in _between(log, topic, partition, low, high) if (time := event_time_ms(record)) >= 0
    ]
    first = _best_split([time < wanted for time, _ in timed])
    return timed[first - 1][1] + 1 if first else low


def offset_before_end(log: Log, topic: str, partition: int, span: timedelta) -> int:
    """An offset from which all of the last `span` of event time in a partition is read, counted from its newest records.

    For readers that must miss nothing and may read too much.
    """
    begin, end = log.begin(topic, partition), log.end(topic, partition)
    last = list(_between(log, topic, partition, max(begin, end - _NEWEST), end))
    taken = max((record.timestamp_ms for record in last), default=-1)
    # No single record decides how far the partition got: of several the lowest time counts, each capped by its append time.
    times = [time for record in last if (time := _bounded_time_ms(record)) >= 0]
    if not times:
        return begin
    start = offset_at(log, topic, partition, from_ms(min(times)) - span)
    if taken < 0:
        return start
    # Nothing that the log appended within `span` is left out, whatever times the records claim.
    return min(start, _offset_taken_at(log, (topic, partition), taken - span // timedelta(milliseconds=1)))


def _bounded_time_ms(record: Record) -> int:
    """The event time of a record, but no later than its append time."""
    claimed = event_time_ms(record)
    return claimed if record.timestamp_ms < 0 else min(claimed, record.timestamp_ms)


def offsets_taken_at(log: Log, places: Collection[TopicAndPartition], at_ms: int) -> Mapping[TopicAndPartition, int]:
    """Offsets before which all records were appended before this moment; those without later records may be left out.

    Raises LogUnavailable.
    """
    if isinstance(log, OffsetsByTime):
        return log.offsets_taken_at(places, at_ms)
    return {place: _offset_taken_at(log, place, at_ms) for place in places}


def _offset_taken_at(log: Log, place: TopicAndPartition, wanted: int) -> int:
    """An offset before which all records were appended before this moment; append times never go back."""
    low, high = log.begin(*place), log.end(*place)
    while high - low > LOOKED_THROUGH:
        middle = (low + high) // 2
        record = next(iter(log.poll({place: middle}, limit=1)), None)
        if record is None or record.offset >= high or record.timestamp_ms >= wanted:
            high = middle
        else:
            low = record.offset + 1
    earlier = itertools.takewhile(lambda record: record.timestamp_ms < wanted, _between(log, *place, low, high))
    return max((record.offset + 1 for record in earlier), default=low)


def _best_split(before: Sequence[bool]) -> int:
    """The position of the split with the fewest times on the wrong side; the first of several such positions."""
    best, wrong, fewest = 0, 0, 0
    for number, is_before in enumerate(before, start=1):
        wrong += -1 if is_before else 1
        if wrong < fewest:
            best, fewest = number, wrong
    return best


def _between(log: Log, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
    while start < end and (records := log.poll({(topic, partition): start}, limit=end - start)):
        yield from (record for record in records if record.offset < end)
        start = records[-1].offset + 1


def copy_range(
    log: Log, to: RecordImporter, topics: Sequence[str], *, since: Bound = None, until: Bound = None
) -> Mapping[str, int]:
    """Copy a range with its places and times; returns how many records of each topic were copied.

    It begins where `to` ends, so that repeating it adds what is new.
    """
    for topic in topics:
        to.create(topic, log.partitions(topic))
    ranges = _partition_ranges(log, topics, since, until)
    for span in ranges:
        span.position = max(span.position, to.end(span.topic, span.partition))
    copied = dict.fromkeys(topics, 0)
    for span in ranges:
        while span.position < span.end:
            _fill(log, [span])
            batch = list(span.ahead)
            span.ahead.clear()
            to.import_records(batch)
            copied[span.topic] += len(batch)
        if to.end(span.topic, span.partition) < span.end:  # nothing readable stands before the end, which the clock may name
            to.import_records([Record(span.topic, span.partition, span.end - 1, FILL, b"")])
    return copied


def _partition_ranges(log: Log, topics: Sequence[str], since: Bound, until: Bound) -> list[_PartitionRange]:
    ranges: list[_PartitionRange] = []
    for topic in topics:
        for partition in range(log.partitions(topic)):
            begin, end = log.begin(topic, partition), log.end(topic, partition)
            start = _offset(log, topic, partition, since, begin)
            stop = min(end, _offset(log, topic, partition, until, end))
            ranges.append(_PartitionRange(topic, partition, len(ranges), start, stop))
    return ranges


def _offset(log: Log, topic: str, partition: int, bound: Bound, otherwise: int) -> int:
    if isinstance(bound, datetime):
        return offset_at(log, topic, partition, bound)
    return otherwise if bound is None else bound.get((topic, partition), otherwise)


def _sample(log: Log, topic: str, partition: int, start: int, end: int) -> list[Record]:
    """The next records in [start, end) whose time is known, a few of them; none if there is none."""
    while start < end and (records := log.poll({(topic, partition): start}, limit=_SAMPLED)):
        timed = [record for record in records if record.offset < end and event_time_ms(record) >= 0]
        if timed:
            return timed
        start = records[-1].offset + 1
    return []


def _read(log: Log, ranges: Sequence[_PartitionRange], *, merged: bool) -> Iterator[Record]:
    return _merge(log, ranges) if merged else _one_after_another(log, ranges)


def _one_after_another(log: Log, ranges: Sequence[_PartitionRange]) -> Iterator[Record]:
    for span in ranges:
        while span.position < span.end:
            _fill(log, [span])
            while span.ahead:
                yield span.ahead.popleft()


def _merge(log: Log, ranges: Sequence[_PartitionRange]) -> Iterator[Record]:
    heads: list[tuple[int, int]] = []
    by_rank = {span.rank: span for span in ranges}
    waiting = list(ranges)
    while True:
        for span in waiting:
            while not span.ahead and span.position < span.end:
                _fill(log, ranges)
            if span.ahead:
                heapq.heappush(heads, (event_time_ms(span.ahead[0]), span.rank))
        if not heads:
            return
        _, rank = heapq.heappop(heads)
        yield by_rank[rank].ahead.popleft()
        waiting = [by_rank[rank]]


def _fill(log: Log, ranges: Sequence[_PartitionRange]) -> None:
    """Read on where there is room. An empty answer means that the log has no more there, whatever its end offset is."""
    open_ranges = {(span.topic, span.partition): span for span in ranges if span.has_room}
    records = log.poll({key: span.position for key, span in open_ranges.items()}, limit=AT_ONCE)
    for record in records:
        open_ranges[record.topic, record.partition].add(record)
    if not records:
        for span in open_ranges.values():
            span.position = span.end


def has_topic(log: Log, topic: str) -> bool:
    """Whether a log has a topic (wire name). One that an older version wrote lacks those that came later."""
    try:
        log.partitions(topic)
    except BadInput:
        return False
    return True


def last_records(
    log: Log, topic: str, partition: int, *, keep: Callable[[bytes, bytes | None], bytes | None] = lambda _, value: value
) -> dict[bytes, bytes | None]:
    """The last record of each key of a partition, as compaction would leave it. `keep` selects what to keep of a value."""
    last: dict[bytes, bytes | None] = {}
    position, end = log.begin(topic, partition), log.end(topic, partition)
    while position < end and (records := log.poll({(topic, partition): position}, limit=_AT_ONCE)):
        for record in records:
            key = record.key or b""
            last[key] = keep(key, record.value)
        position = records[-1].offset + 1
    return last


class Cursor:
    """Positions in (topic, partition) pairs: from the first record that the log still has, or from the offsets in a mapping."""

    def __init__(self, log: Log, places: Iterable[tuple[str, int]] | Mapping[tuple[str, int], int]) -> None:
        self._log, self._places = log, tuple(places)
        self._next = dict(places) if isinstance(places, Mapping) else {}

    def go_to(self, places: Mapping[tuple[str, int], int]) -> None:
        """Read on from these offsets instead, in partitions that this cursor reads."""
        self._next |= places

    def has_more(self, *, besides: TopicAndPartition | None = None) -> bool:
        """Whether the log has anything beyond what was read, in another place than this one. Raises LogUnavailable."""
        ends = log_port.all_ends_of(self._log, [place for place in self._places if place != besides])
        return not self._next or any(self._next[place] < end for place, end in ends.items())

    def catch_up(self) -> Iterator[Record]:
        """The records up to the ends that the log has now, in offset order within a partition. Raises LogUnavailable."""
        if not self._next:
            self._next = {place: self._log.begin(*place) for place in self._places}
        ends = log_port.all_ends_of(self._log, self._places)
        while behind := {place: self._next[place] for place, end in ends.items() if self._next[place] < end}:
            records = self._log.poll(behind)
            if not records:
                # No record is left before the end: the last offsets are the end of a transaction, or what retention or compaction
                # took.
                self._next |= {place: ends[place] for place in behind}
            for record in records:
                self._next[record.topic, record.partition] = record.offset + 1
                yield record
