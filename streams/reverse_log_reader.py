"""Reads a topic from its end backwards, a stretch at a time and without what a clock filled up, for commands that look back.

A log that can read ranges of many partitions at once does so; any other is read as always. Nothing is decoded, and no moment is
searched for by halving: one stretch after the other is read until its reader has enough, or until it begins before the time that
is asked for.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from schemas.times import to_ms
from streams.codec.event_codec import is_of_a_clock
from streams.log.log_port import Log, Record
from streams.log_range import event_time_ms, has_topic, offset_at

_FIRST, _LONGEST = 12_000, 100_000
"""Records of a partition in the first stretch, and in the longest: each is twice as long as the one after it."""
_HELD = 2_500
"""Records of a partition that are held at one time to be turned around."""
_Ranges = Mapping[tuple[str, int], tuple[int, int]]
"""(topic, partition) to the first offset and the one after the last."""


@runtime_checkable
class ReadsRanges(Protocol):
    """A log that reads ranges of many partitions at once, and can leave out what lacks certain bytes, which is faster."""

    def read_ranges(self, ranges: _Ranges, containing: bytes = b"") -> Iterator[Record]:
        """The records of these ranges, in order within a partition. Some without those bytes may be there."""

    def bounds(self, places: Collection[tuple[str, int]]) -> _Ranges:
        """The first kept offset of each partition, and the one after its last record."""


def between(log: Log, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
    """The records of a partition from `start` on and before `end`, but a clock's. Raises LogUnavailable."""
    return (record for record in _read(log, {(topic, partition): (start, end)}) if not is_of_a_clock(record))


def last(log: Log, places: Collection[tuple[str, int]], count: int) -> Mapping[tuple[str, int], Sequence[Record]]:
    """The last records of each partition, a clock's among them, at most `count` of each; asked at once where the log can."""
    records_of: dict[tuple[str, int], list[Record]] = {place: [] for place in places}
    ranges = {place: (max(begin, end - count), end) for place, (begin, end) in _bounds(log, places).items()}
    for record in _read(log, ranges):
        records_of[record.topic, record.partition].append(record)
    return records_of


def newest(log: Log, topic: str, at: datetime, most: int) -> Mapping[tuple[str, int], tuple[Sequence[Record], bool]]:
    """The newest records of each partition but a clock's, in order, and whether these are all since a moment of event time.

    If so, there may be older ones among them; if not, they are `most`. Nothing for a missing topic.
    """
    places = [(topic, partition) for partition in range(log.partitions(topic))] if has_topic(log, topic) else []
    newest_of: dict[tuple[str, int], tuple[list[Record], bool]] = {place: ([], True) for place in places}
    unread, length = _bounds(log, places), most
    while unread := {place: (begin, end) for place, (begin, end) in unread.items() if begin < end}:
        ranges = {place: (max(begin, end - length), end) for place, (begin, end) in unread.items()}
        stretch: dict[tuple[str, int], list[Record]] = {place: [] for place in ranges}
        for record in _read(log, ranges):
            stretch[record.topic, record.partition].append(record)
        for place, records in stretch.items():
            (begin, _), (start, _) = unread.pop(place), ranges[place]
            reached = start == begin or (bool(records) and 0 <= event_time_ms(records[0]) < to_ms(at))
            records_kept = [*(record for record in records if not is_of_a_clock(record)), *newest_of[place][0]]
            newest_of[place] = records_kept[-most:], reached and len(records_kept) <= most
            if not reached and len(records_kept) < most:
                unread[place] = begin, start
        # Fillers alone may fill the first stretches, so each is longer than the one after it.
        length = min(_LONGEST, 4 * length)
    return newest_of


def since(log: Log, topic: str, at: datetime) -> Iterator[Sequence[Record]]:
    """The records of a topic (wire name) in stretches, the newest first; the last of them begins before a moment of event time.

    So there may be older records among them. A stretch has its partitions' records in their order. None for a missing topic.
    """
    if not has_topic(log, topic):
        return
    places = [(topic, partition) for partition in range(log.partitions(topic))]
    unread, length = _bounds(log, places), _FIRST
    while unread := {place: (begin, end) for place, (begin, end) in unread.items() if begin < end}:
        ranges = {place: (max(begin, end - length), end) for place, (begin, end) in unread.items()}
        records = list(_read(log, ranges))
        yield [record for record in records if not is_of_a_clock(record)]
        first: dict[tuple[str, int], int] = {}
        for record in records:
            first.setdefault((record.topic, record.partition), event_time_ms(record))
        unread = {
            place: (unread[place][0], start) for place, (start, _) in ranges.items() if not 0 <= first.get(place, -1) < to_ms(at)
        }
        length = min(_LONGEST, 2 * length)


def forwards(log: Log, topic: str, since: datetime | None = None, *, containing: bytes = b"") -> Iterator[Record]:
    """Every record of a topic but a clock's, from event time `since` on: in order within a partition, of partitions in no order.

    A log that can leave out records whose value does not hold the bytes `containing` does so with most of them.

    One reader of a log serves one such iteration at a time: a later one ends those before it. Nothing for a missing topic. Raises
    LogUnavailable.
    """
    if not has_topic(log, topic):
        return
    ranges = _bounds(log, [(topic, partition) for partition in range(log.partitions(topic))])
    if since is not None:
        ranges = {place: (offset_at(log, *place, since), end) for place, (_, end) in ranges.items()}
    yield from (record for record in _read(log, ranges, containing=containing) if not is_of_a_clock(record))


def backwards(log: Log, ranges: _Ranges) -> Iterator[Record]:
    """All records of these ranges, a clock's among them, the newest of each partition first."""
    # For callers that want the newest record of each key and need not decode older ones.
    unread = dict(ranges)
    while unread := {place: (begin, end) for place, (begin, end) in unread.items() if begin < end}:
        yield from reversed(list(_read(log, {place: (max(begin, end - _HELD), end) for place, (begin, end) in unread.items()})))
        unread = {place: (begin, end - _HELD) for place, (begin, end) in unread.items()}


def _bounds(log: Log, places: Collection[tuple[str, int]]) -> _Ranges:
    if isinstance(log, ReadsRanges):
        return log.bounds(places)
    return {place: (log.begin(*place), log.end(*place)) for place in places}


def _read(log: Log, ranges: _Ranges, containing: bytes = b"") -> Iterator[Record]:
    if isinstance(log, ReadsRanges):
        yield from log.read_ranges(ranges, containing)
        return
    for place, (start, end) in ranges.items():
        yield from all_between(log, place, start, end)


def all_between(log: Log, place: tuple[str, int], start: int, end: int) -> Iterator[Record]:
    """Every record of these offsets that the log still has. Raises LogUnavailable."""
    # An empty answer means that there is none, though the offsets go on: a transaction's end has one, and so has each record that
    # compaction took. A log that has records and does not deliver them raises an error.
    while start < end and (records := log.poll({place: start})):
        yield from (record for record in records if record.offset < end)
        start = records[-1].offset + 1
