"""The newest records of a topic, a bounded number of each partition, so that the log's length does not matter.

Ticks are left out: between decisions there may be thousands, and a stretch without anything else is read quickly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas.times import to_ms
from streams import reverse_log_reader
from streams.codec.event_codec import header
from streams.log.log_port import Log, Record
from streams.log_range import event_time_ms

MOST = 500
"""Records of one partition that are looked at."""


@dataclass(frozen=True, slots=True)
class NewestRecords:
    """Records in the order of their partitions, each id once."""

    records: Sequence[Record]
    asked_ms: int
    """The event time since when they were requested."""
    complete_ms: int
    """The event time since when none was left out."""

    @property
    def newest_ms(self) -> int | None:
        """The event time of the newest; None when there is none."""
        return max(map(event_time_ms, self.records), default=None)

    def count(self, number: int | None = None) -> str:
        """The number, or how many records there are, with `over` before it when some were left out."""
        shown = len(self.records) if number is None else number
        return f"{shown}" if self.complete_ms <= self.asked_ms else f"over {shown}"


def read(log: Log, wire: str, since: datetime, *, most: int = MOST) -> NewestRecords:
    """The records of a topic since a moment, the newest `most` of each partition at most."""
    asked_ms = complete_ms = to_ms(since)
    by_id: dict[object, Record] = {}
    for records, whole in reverse_log_reader.newest(log, wire, since, most).values():
        if not whole:
            # records may be missing before the oldest that was read
            complete_ms = max(complete_ms, event_time_ms(records[0]))
        for record in records:
            # a record without an event time counts: nobody knows that it is old
            if not 0 <= event_time_ms(record) < asked_ms:
                by_id[header(record, "ce_id") or record.place] = record
    return NewestRecords(list(by_id.values()), asked_ms, complete_ms)
