"""The newest valid tick of a partition, found from its end: how far its readers can get.

Readers from the beginning ignore a tick that lies implausibly far ahead, and so does this module.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter

from streams.codec.event_codec import is_implausible, tick_number
from streams.log.log_port import Log, Record

FIRST_STRIDE, _LONGEST_STRIDE = 256, 16_384
"""Records read at once when going backwards: few at first, because what is wanted is mostly near the end."""
_LOOKED_AT = 16
"""Ticks that are compared, for a second clock may be behind."""


def newest_tick(log: Log, topic: str, partition: int, *, most: int | None = None, read: Sequence[Record] = ()) -> Record | None:
    """The newest valid tick; None if there is none, or none among the last `most` records.

    `read` are the last records of the partition, in order, if they have been read already.
    """
    before = _backwards(log, (topic, partition), most, end=read[0].offset if read else None)
    return newest_of(chain(reversed(read), before))


def newest_of(backwards: Iterable[Record]) -> Record | None:
    """The newest valid tick among records in order from newest to oldest; None if there is none."""
    found: list[tuple[int, Record]] = []
    for record in backwards:
        number = tick_number(record)
        if number is not None and not is_implausible(record, number):
            found.append((number, record))
            if len(found) == _LOOKED_AT:
                break
    return max(reversed(found), key=itemgetter(0))[1] if found else None


def _backwards(log: Log, place: tuple[str, int], most: int | None, *, end: int | None = None) -> Iterator[Record]:
    end, stride = log.end(*place) if end is None else end, FIRST_STRIDE
    begin = log.begin(*place) if most is None else max(log.begin(*place), end - most)
    while end > begin:
        start = max(begin, end - stride)
        yield from reversed(list(records_between(log, place, start, end)))
        end, stride = start, min(_LONGEST_STRIDE, stride * 4)


def records_between(log: Log, place: tuple[str, int], start: int, end: int) -> Iterator[Record]:
    """The records of a partition from `start` on and before `end`."""
    while start < end and (records := log.poll({place: start})):
        yield from (record for record in records if record.offset < end)
        start = records[-1].offset + 1
