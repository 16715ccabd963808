"""The index of a log that keeps its records itself: which offsets each partition holds, and where each record is.

The memory log and the file log share it, so that unknown topics, deleted offsets and holes mean the same in both. It knows
offsets and items, not bytes, and takes no locks.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from schemas.names import Place
from streams.errors import BadInput

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
