"""Reads Kafka from positions that the caller keeps: one consumer, assigned by hand, that seeks only when its position differs.

It commits nothing and belongs to no group. If Kafka holds a record and does not deliver it for `PATIENCE` seconds, it raises an
error instead of returning nothing. A second consumer reads ranges once, all at the same time, for commands that look back.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import kafka.consumer.fetcher
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaTimeoutError, LogTruncationError, OffsetOutOfRangeError

from streams.log import record_batches
from streams.log.kafka_connection import REQUEST_MS, KafkaConnection
from streams.log.leader_questions import EARLIEST, LATEST
from streams.log.log_port import MAX_RECORD_BYTES, Positions, Record, TopicAndPartition
from streams.log.record_batches import FetchedRecords

record_batches.guard(kafka.consumer.fetcher)

Offsets = Callable[[Collection[TopicAndPartition], int], Mapping[TopicAndPartition, int]]

LOG_CHANGED = (OffsetOutOfRangeError, LogTruncationError)
"""What the client raises at a position that the log does not have any more: retention, another leader or a new topic took it."""
PATIENCE = 30.0
# How long to wait for data before asking whether there should be some, and for how long the broker may hold back a fetch that has
# none. It answers one request of a connection after the other, so the first fetch of the next partitions waits as long; a caller
# that does not wait therefore lets the broker not wait either.
SLICE_MS = 250
BRIEFLY_MS = 10
"""The same for a caller that does not wait, in further rounds. Not 0, or they would ask in a tight loop."""


class KafkaReader:
    """One consumer behind a lock. `_at` is where it stands or stood last in each partition, where the log had that position."""

    def __init__(self, where: KafkaConnection, offsets: Offsets) -> None:
        """`offsets` uses another connection: on the consumer's own it would queue behind a fetch that waits for data."""
        self._where, self._offsets = where, offsets
        self._lock = threading.Lock()
        self._consumer: KafkaConsumer | None = None
        self._at: dict[TopicPartition, int] = {}

    def poll(self, positions: Positions, *, until: float, limit: int) -> Sequence[Record]:
        """Records at or after the positions; waits for the first until the monotonic clock says `until`."""
        if not positions:
            return []
        # Who does not wait gets what is there, if need be in a second round, and reads something else then.
        hold_ms = SLICE_MS if until > monotonic() else BRIEFLY_MS
        patience = max(until, monotonic()) + PATIENCE
        with self._lock:
            consumer = self._open()
            while True:
                ahead = self._seek_to(consumer, positions)
                slice_ms = min(SLICE_MS, max(0, int((until - monotonic()) * 1000)))
                records = self._poll(consumer, slice_ms, limit, hold_ms)
                if records:
                    return records
                if monotonic() < until:
                    continue
                if not self._behind(consumer, ahead):  # an empty answer must mean that there is nothing
                    return []
                if monotonic() > patience:
                    raise KafkaTimeoutError(f"nothing came for {PATIENCE:.0f} s, though there is more after {positions}")
                until = monotonic() + SLICE_MS / 1000

    def _open(self) -> KafkaConsumer:
        if self._consumer is None:
            self._consumer = open_consumer(self._where)
        return self._consumer

    def _seek_to(self, consumer: KafkaConsumer, positions: Positions) -> set[TopicPartition]:
        """Assign, and seek where the position differs. Returns the partitions that end before the wanted position."""
        wanted = {TopicPartition(*tp): position for tp, position in positions.items()}
        if set(wanted) != consumer.assignment():
            kept = consumer.assignment() & set(wanted)
            consumer.assign(list(wanted))
            for tp, position in wanted.items():  # where it has read before, it need not ask where the partition begins and ends
                if tp not in kept and self._at.get(tp) == position:
                    consumer.seek(tp, position)
        moved = {tp: position for tp, position in wanted.items() if self._at.get(tp) != position}
        return self._seek(consumer, moved) if moved else set()

    def _seek(self, consumer: KafkaConsumer, moved: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        begins, ends = self._offsets(moved, EARLIEST), self._offsets(moved, LATEST)
        ahead = {tp for tp, position in moved.items() if position > ends[tp]}
        for tp, position in moved.items():
            consumer.seek(tp, min(max(position, begins[tp]), ends[tp]))
            if tp in ahead:  # a fetch beyond the end is an error to Kafka, and to the port only nothing yet
                self._at.pop(tp, None)
                consumer.pause(tp)
            else:
                self._at[tp] = position
                consumer.resume(tp)
        return ahead

    def _poll(self, consumer: KafkaConsumer, timeout_ms: int, limit: int, hold_ms: int) -> Sequence[Record]:
        consumer._fetcher.config["fetch_max_wait_ms"] = min(timeout_ms, hold_ms)  # noqa: SLF001  # see there
        try:
            fetched = consumer.poll(timeout_ms=timeout_ms, max_records=limit)
        except LOG_CHANGED:  # since the seek: ask again where the log begins and ends
            self._at.clear()
            return []
        for tp, records in fetched.items():
            self._at[tp] = records[-1].offset + 1
        return [_record(record) for records in fetched.values() for record in records]

    def _behind(self, consumer: KafkaConsumer, ahead: set[TopicPartition]) -> bool:
        """Whether Kafka holds a record that it has not delivered yet. A gap at the end of a partition does not count."""
        there = [tp for tp in consumer.assignment() if tp not in ahead]
        ends = self._offsets(there, LATEST) if there else {}
        try:
            return any(consumer.position(tp, timeout_ms=REQUEST_MS) < ends[tp] for tp in there)
        except LOG_CHANGED:
            self._at.clear()
            return True

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._consumer is not None:
                self._consumer.close(autocommit=False)
                self._consumer = None
            self._at = {}


def _record(raw: ConsumerRecord) -> Record:
    return Record(raw.topic, raw.partition, raw.offset, raw.key, raw.value, raw.headers, raw.timestamp, raw.leader_epoch)


_RETRY_MS = 10  # between two questions about a partition's leader; each first look at a topic would wait for the default, 100
_CONSUMER: Mapping[str, object] = {
    "group_id": None,
    "enable_auto_commit": False,
    "auto_offset_reset": "none",
    "allow_auto_create_topics": False,
    "max_partition_fetch_bytes": MAX_RECORD_BYTES,
    "retry_backoff_ms": _RETRY_MS,
    "metrics_enabled": False,  # nobody reads them, and they took a seventh of reading much
}


def open_consumer(where: KafkaConnection, **options: object) -> KafkaConsumer:
    """A consumer that belongs to no group and is assigned by hand; `options` of the client override ours."""
    consumer = KafkaConsumer(**where.options(), **{**_CONSUMER, **options})
    consumer._cluster.config["retry_backoff_ms"] = _RETRY_MS  # noqa: SLF001  # the client does not hand its option on to there
    return consumer


OffsetRanges = Mapping[tuple[str, int], tuple[int, int]]
"""(topic, partition) to the first offset and the one after the last."""


class RangeReader:
    """Iterations that are under way at one time have a consumer each; who comes later takes one that is free."""

    def __init__(self, where: KafkaConnection, offsets: Offsets) -> None:
        self._where, self._offsets = where, offsets
        self._consumers: list[Any] = []
        self._free: list[Any] = []

    def read(self, ranges: OffsetRanges, containing: bytes = b"") -> Iterator[Record]:
        """The records of these ranges, in order within a partition, without most of those that lack the bytes `containing`."""
        consumer = self._open(containing)
        try:
            yield from self._read(consumer, ranges)
        finally:
            if consumer in self._consumers:
                self._free.append(consumer)

    def _read(self, consumer: Any, ranges: OffsetRanges) -> Iterator[Record]:
        starts = {TopicPartition(*place): start for place, (start, end) in ranges.items() if start < end}
        ends = {tp: ranges[tp.topic, tp.partition][1] for tp in starts}
        consumer.assign(list(ends))
        for tp, start in starts.items():
            consumer.seek(tp, start)
        until = monotonic() + PATIENCE
        while ends:
            fetched: Mapping[TopicPartition, list[Record]] = {}
            with self._changes_passed_over(consumer, starts, ends):
                fetched = consumer.poll(timeout_ms=SLICE_MS)
            for tp, records in fetched.items():
                starts[tp] = records[-1].offset + 1
                yield from (record for record in records if record.offset < ends[tp])
            done: list[TopicPartition] = []
            with self._changes_passed_over(consumer, starts, ends):
                done = [tp for tp, end in ends.items() if consumer.position(tp, timeout_ms=REQUEST_MS) >= end]
            for tp in done:
                del ends[tp]
            if done:
                consumer.assign(list(ends))
            if fetched or done:
                until = monotonic() + PATIENCE
            elif monotonic() > until:
                raise KafkaTimeoutError(f"nothing came for {PATIENCE:.0f} s, though there is more in {sorted(ends)}")

    @contextmanager
    def _changes_passed_over(
        self, consumer: Any, starts: Mapping[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> Iterator[None]:
        """If the log changed under our positions, go on with what it has now."""
        try:
            yield
        except LOG_CHANGED:
            begins, lasts = self._offsets(ends, EARLIEST), self._offsets(ends, LATEST)
            for tp, end in ends.items():  # what retention or a truncation took meanwhile is left out
                ends[tp] = min(end, lasts[tp])
                consumer.seek(tp, max(starts[tp], begins[tp]))

    def _open(self, containing: bytes) -> Any:
        if self._free:
            consumer = self._free.pop()
        else:
            consumer = open_consumer(self._where, max_poll_records=5_000)
            self._consumers.append(consumer)
        fetcher = consumer._fetcher  # noqa: SLF001  # the client has no other way to say how
        fetcher.PartitionRecords = type("_Records", (FetchedRecords,), {"containing": containing})
        fetcher._next_partition_records = None  # noqa: SLF001  # half read for other bytes, by an iteration that was left
        return consumer

    def close(self) -> None:
        """Close the connections, also those of iterations that were left."""
        consumers, self._consumers, self._free = self._consumers, [], []
        for consumer in consumers:
            consumer.close(autocommit=False)
