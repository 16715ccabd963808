"""Reads ranges of Kafka's partitions once, quickly, for commands that look back from the end.

All partitions of all ranges are fetched at the same time by a consumer that belongs to no group and serves one iteration at a
time. As everywhere, it is an error, not an empty answer, if Kafka holds a record and does not deliver it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from streams.log.kafka_connection import REQUEST_MS, KafkaConnection
from streams.log.kafka_reader import LOG_CHANGED, PATIENCE, SLICE_MS, Offsets, open_consumer
from streams.log.leader_questions import EARLIEST, LATEST
from streams.log.log_port import Record
from streams.log.record_batches import FetchedRecords

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
