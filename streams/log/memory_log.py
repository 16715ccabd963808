"""The log in memory: for tests, simulations and a demo without a broker. Any number of threads may use it.

It forgets everything when the process ends and reads no clock: to have timestamps, pass one in.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from types import TracebackType
from typing import Self

from schemas.names import Place
from streams.log.log_port import MAX_RECORD_BYTES, NewRecord, Positions, Record, RecordsRefused, oversize, require_key_or_value
from streams.log.offset_index import OffsetIndex, fair_share


def unknown_time() -> int:
    """The timestamp of records in a log that has no clock."""
    return -1


class MemoryLog:
    """Topics are created with `create`. `now` gives the timestamps in milliseconds, `largest` the bytes of the largest record."""

    def __init__(self, now: Callable[[], int] = unknown_time, *, largest: int = MAX_RECORD_BYTES) -> None:
        self._now, self._largest = now, largest
        self._index: OffsetIndex[Record] = OffsetIndex("the log in memory")
        self._changed = threading.Condition()

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic; nothing happens when it exists already. Raises BadInput for another partition count."""
        with self._changed:
            self._index.create(topic, partitions)

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        """Append all, or none if one of them names an unknown partition."""
        batch = list(records)
        for record in batch:
            require_key_or_value(record)
        with self._changed:
            partitions = [self._index.at(r.topic, r.partition) for r in batch]
            places: list[Place | None] = []
            refused: list[tuple[NewRecord, str]] = []
            for new, index in zip(batch, partitions, strict=True):
                why = oversize(new, self._largest)
                if why is not None:
                    refused.append((new, why))
                    places.append(None)
                    continue
                taken = Record(new.topic, new.partition, index.end, new.key, new.value, new.headers, self._now())
                index.add(taken.offset, taken)
                places.append(taken.place)
            self._changed.notify_all()
        if refused:
            raise RecordsRefused(refused, places)
        return [place for place in places if place is not None]

    def import_records(self, records: Iterable[Record]) -> None:
        """Append records of another log with their offsets and timestamps, each after what its partition holds already."""
        batch = list(records)
        with self._changed:
            self._index.check_offsets(record.place for record in batch)
            for record in batch:
                self._index.at(record.topic, record.partition).add(record.offset, record)
            self._changed.notify_all()

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        """As the port says."""
        deadline = monotonic() + wait
        with self._changed:
            while True:
                records = self._read(positions, limit)
                remaining = deadline - monotonic()
                if records or remaining <= 0:
                    return records
                self._changed.wait(remaining)

    def _read(self, positions: Positions, limit: int) -> list[Record]:
        records: list[Record] = []
        for (topic, partition), position in positions.items():
            room = min(fair_share(len(positions), limit), limit - len(records))
            records += self._index.at(topic, partition).read(position, room)
        return records

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records before `offset`, as retention would."""
        with self._changed:
            self._index.at(topic, partition).truncate(offset)

    def begin(self, topic: str, partition: int) -> int:
        """The first kept offset."""
        with self._changed:
            return self._index.at(topic, partition).begin

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record."""
        with self._changed:
            return self._index.at(topic, partition).end

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has."""
        with self._changed:
            return self._index.count(topic)

    def close(self) -> None:
        """Nothing to close."""

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()
