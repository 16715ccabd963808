"""Reads ranges of Kafka's partitions once, quickly, without the records of one key, for commands that look back from the end.

All partitions of all ranges are fetched at the same time by one consumer of its own, which belongs to no group. As everywhere, it
is an error, not an empty answer, if Kafka holds a record and does not deliver it.
"""

from collections.abc import Iterator, Mapping
from time import monotonic
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_reader import PATIENCE, SLICE_MS, open_consumer
from streams.log.log_port import Record
from streams.log.record_batches import RecordsWithoutKey

OffsetRanges = Mapping[tuple[str, int], tuple[int, int]]
"""(topic, partition) to the first offset and the one after the last."""


class RangeReader:
    """One consumer, opened when first used, that leaves out the records of one key."""

    def __init__(self, where: KafkaConnection, left_out: bytes) -> None:
        self._where = where
        self._left_out = left_out
        self._consumer: Any = None

    def read(self, ranges: OffsetRanges, containing: bytes = b"") -> Iterator[Record]:
        """The records of these ranges, in order within a partition. The first of each fetch is there whatever its key is.

        Most records without the bytes `containing` are left out.
        """
        consumer = self._open(containing)
        ends = {TopicPartition(*place): end for place, (start, end) in ranges.items() if start < end}
        consumer.assign(list(ends))
        for place, (start, end) in ranges.items():
            if start < end:
                consumer.seek(TopicPartition(*place), start)
        until = monotonic() + PATIENCE
        while ends:
            found = consumer.poll(timeout_ms=SLICE_MS)
            for tp, records in found.items():
                yield from (record for record in records if record.offset < ends[tp])
            done = [tp for tp, end in ends.items() if consumer.position(tp) >= end]
            for tp in done:
                del ends[tp]
            if done:
                consumer.assign(list(ends))
            if found or done:
                until = monotonic() + PATIENCE
            elif monotonic() > until:
                raise KafkaTimeoutError(f"nothing came for {PATIENCE:.0f} s, though there is more in {sorted(ends)}")

    def _open(self, containing: bytes) -> Any:
        if self._consumer is None:
            self._consumer = open_consumer(self._where, max_poll_records=5_000)
        said = {"left_out": self._left_out, "containing": containing}
        fetcher = self._consumer._fetcher  # noqa: SLF001  # the client has no other way to say how
        fetcher.PartitionRecords = type("_Records", (RecordsWithoutKey,), said)
        fetcher._next_partition_records = None  # noqa: SLF001  # half read for other bytes, by an iteration that was left
        return self._consumer

    def close(self) -> None:
        """Close the connection."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False)
            self._consumer = None
