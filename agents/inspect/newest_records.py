"""The newest records of a topic, within a bound: so many of each partition at most, so that a question takes as long as it does.

Ticks are left out: between decisions there may be thousands, and a stretch that holds nothing else is read in no time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas.times import to_ms
from streams.codec.event_codec import header, tick_number
from streams.log.log_port import Log, Record
from streams.log_range import event_time_ms, has_topic, offset_at

MOST = 500
"""Records of one partition that are looked at."""
_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class NewestRecords:
    """Records in the order of their partitions, each id once; `all_of_them`: none of the time asked for was left out."""

    records: Sequence[Record]
    all_of_them: bool

    @property
    def newest_ms(self) -> int | None:
        """The event time of the newest; None when there is none."""
        return max(map(event_time_ms, self.records), default=None)

    def count(self, number: int | None = None) -> str:
        """The number, or how many records there are, with `over` before it when some were left out."""
        shown = len(self.records) if number is None else number
        return f"{shown}" if self.all_of_them else f"over {shown}"


def read(log: Log, wire: str, since: datetime, *, most: int = MOST) -> NewestRecords:
    """The records of a topic since a moment, the newest `most` of each partition at most."""
    found: dict[object, Record] = {}
    complete = True
    for partition in range(log.partitions(wire)) if has_topic(log, wire) else ():
        end = log.end(wire, partition)
        position = max(log.begin(wire, partition), end - most)
        if position < end and _is_since(log, wire, partition, position, since):
            complete = complete and position == log.begin(wire, partition)
        elif position < end:
            position = max(position, offset_at(log, wire, partition, since))
        while position < end and (records := log.poll({(wire, partition): position}, wait=_WAIT)):
            for record in records:
                if record.offset < end and tick_number(record) is None:
                    found[header(record, "ce_id") or record.place] = record
            position = records[-1].offset + 1
    return NewestRecords(list(found.values()), complete)


def _is_since(log: Log, wire: str, partition: int, position: int, since: datetime) -> bool:
    """Whether the record at a position is of that time already, so that what is before it may be, too."""
    first = log.poll({(wire, partition): position}, limit=1)
    return bool(first) and event_time_ms(first[0]) >= to_ms(since)
