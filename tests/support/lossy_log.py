"""Logs in memory that fail: one that is away for a while, and one that loses its newest records when a leader changes."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from schemas.names import Place
from streams.errors import LogUnavailable
from streams.log.log_port import UNKNOWN_EPOCH, LogEnd, NewRecord, Positions, Record, TopicAndPartition
from streams.log.memory_log import MemoryLog, unknown_time


class AwayLog(MemoryLog):
    """While `away`, it takes nothing."""

    away = False

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        self.require()
        return super().append(records)

    def require(self) -> None:
        """Raise LogUnavailable while it is away."""
        if self.away:
            raise LogUnavailable("the log in this test is away")


class LossyLog(MemoryLog):
    """Epochs are as Kafka has them: each record bears that of the leader that appended it, and a new one begins at an end."""

    def __init__(self, now: Callable[[], int] = unknown_time) -> None:
        super().__init__(now)
        self.silent: set[TopicAndPartition] = set()
        """Partitions without a leader that answers."""
        self._epochs: dict[TopicAndPartition, list[LogEnd]] = {}
        """Where each epoch of a partition begins, and which it is."""

    def _leaders(self, place: TopicAndPartition) -> list[LogEnd]:
        return self._epochs.setdefault(place, [LogEnd(0, 0)])

    def elect(self, topic: str, partition: int, *, losing: int = 0) -> None:
        """A new leader, which lacks this many of the newest records."""
        index, epochs = self._index.at(topic, partition), self._leaders((topic, partition))
        newest = epochs[-1].epoch
        index.end = max(index.begin, index.end - losing)
        while index.offsets and index.offsets[-1] >= index.end:
            index.offsets.pop()
            index.items.pop()
        epochs[:] = [epoch for epoch in epochs if epoch.offset < index.end] + [LogEnd(index.end, newest + 1)]

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        """As the port says, with the epochs of the records."""
        return [replace(r, epoch=self._epoch_at(r)) for r in super().poll(positions, wait=wait, limit=limit)]

    def _epoch_at(self, record: Record) -> int:
        epochs = self._leaders((record.topic, record.partition))
        return max(epoch.epoch for epoch in epochs if epoch.offset <= record.offset)

    def ends(self, places: Collection[TopicAndPartition]) -> Mapping[TopicAndPartition, LogEnd]:
        """As Kafka answers ListOffsets."""
        heard = [place for place in places if place not in self.silent]
        return {place: LogEnd(self.end(*place), self._leaders(place)[-1].epoch) for place in heard}

    def ends_of_epochs(self, epochs: Mapping[TopicAndPartition, int]) -> Mapping[TopicAndPartition, LogEnd]:
        """As Kafka answers OffsetForLeaderEpoch."""
        return {place: self._end_of(place, epoch) for place, epoch in epochs.items() if place not in self.silent}

    def _end_of(self, place: TopicAndPartition, asked: int) -> LogEnd:
        leaders = self._leaders(place)
        known = [leader.epoch for leader in leaders if leader.epoch <= asked]
        if not known or asked > leaders[-1].epoch:
            return LogEnd(-1, UNKNOWN_EPOCH)
        later = [leader.offset for leader in leaders if leader.epoch > asked]
        return LogEnd(min(later, default=self.end(*place)), max(known))
