"""The log in memory: for tests, simulations and a demo without a broker. Any number of threads may use it.

It forgets everything when the process ends and reads no clock: to have timestamps, pass one in. Its index, which the file log
shares, knows which offsets each partition holds: so unknown topics, deleted offsets and holes mean the same in both.
"""

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Generic, Self, TypeVar

from schemas.names import Place
from streams.errors import BadInput
from streams.log.log_port import MAX_RECORD_BYTES, NewRecord, Positions, Record, RecordsRefused, oversize, require_key_or_value

T = TypeVar("T")


@dataclass(slots=True)
class PartitionIndex(Generic[T]):
    """One partition."""

    # Offsets rise, but with holes: a copy of a compacted log has them.
    begin: int = 0
    end: int = 0
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    items: list[T] = field(default_factory=list)

    def add(self, offset: int, item: T) -> None:
        """Add the item at an offset at or after `end`. The first one of an empty partition sets `begin`."""
        if not self.offsets:
            self.begin = offset
        self.offsets.append(offset)
        self.items.append(item)
        self.end = offset + 1

    def read(self, position: int, limit: int) -> Sequence[T]:
        """At most `limit` items at or after `position`."""
        start = bisect_left(self.offsets, position)
        return self.items[start : start + limit]

    def truncate(self, offset: int) -> None:
        """Forget everything before `offset`, as retention does. Never beyond the end, never backwards."""
        self.begin = max(self.begin, min(offset, self.end))
        cut = bisect_left(self.offsets, self.begin)
        del self.offsets[:cut]
        del self.items[:cut]


class OffsetIndex(Generic[T]):
    """The partitions of all topics of one log; raises BadInput with a sentence when there is no such topic or partition."""

    def __init__(self, log: str) -> None:
        """`log` names the log in those sentences."""
        self.log = log
        self.topics: dict[str, list[PartitionIndex[T]]] = {}

    def create(self, topic: str, partitions: int) -> bool:
        """Create the topic; False when it exists with as many partitions. Raises BadInput for another count or one below 1."""
        if partitions < 1:
            raise BadInput(f"topic '{topic}' was to get {partitions} partitions in {self.log}, but needs at least one")
        if topic in self.topics:
            if len(self.topics[topic]) != partitions:
                raise BadInput(f"topic '{topic}' has {len(self.topics[topic])} partitions in {self.log}, not {partitions}")
            return False
        self.topics[topic] = [PartitionIndex() for _ in range(partitions)]
        return True

    def count(self, topic: str) -> int:
        """How many partitions the topic has. Raises BadInput when there is no such topic."""
        if topic not in self.topics:
            raise BadInput(f"there is no topic '{topic}' in {self.log}; create it first")
        return len(self.topics[topic])

    def at(self, topic: str, partition: int) -> PartitionIndex[T]:
        """The index of one partition. Raises BadInput when there is none."""
        count = self.count(topic)
        if not 0 <= partition < count:
            raise BadInput(f"topic '{topic}' in {self.log} has the partitions 0 to {count - 1}, not {partition}")
        return self.topics[topic][partition]

    def check_offsets(self, places: Iterable[Place]) -> None:
        """Raises BadInput when records cannot be added at these places, in this order, because a partition is past one."""
        ends: dict[tuple[str, int], int] = {}
        for place in places:
            key = place.topic, place.partition
            end = ends.get(key, self.at(*key).end)
            if place.offset < end:
                raise BadInput(f"{place} cannot be put into {self.log}: that partition is already at {end}")
            ends[key] = place.offset + 1


def fair_share(partitions: int, limit: int) -> int:
    """How many records one poll takes from each partition, so that a long one does not starve the others."""
    return max(1, limit // max(1, partitions))


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
            # All are looked up before the first is added: an unknown partition refuses the whole append.
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
