"""The newest records of a topic, within a bound: so many of each partition at most, so that a question takes as long as it does.

Ticks are left out: between decisions there may be thousands, and a stretch that holds nothing else is read in no time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas.times import to_ms
from streams import reverse_log_reader
from streams.codec.event_codec import header, tick_number
from streams.log.log_port import Log, Record
from streams.log_range import event_time_ms, has_topic

MOST = 500
"""Records of one partition that are looked at."""


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
    places = [(wire, partition) for partition in range(log.partitions(wire))] if has_topic(log, wire) else []
    for records in reverse_log_reader.last(log, places, most).values():
        if records and event_time_ms(records[0]) >= to_ms(since) and records[0].offset > log.begin(wire, records[0].partition):
            complete = False
        for record in records:
            if tick_number(record) is None and not 0 <= event_time_ms(record) < to_ms(since):
                found[header(record, "ce_id") or record.place] = record
    return NewestRecords(list(found.values()), complete)
