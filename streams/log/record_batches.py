"""Makes Kafka's two Python clients read batches with our code, which sets aside what a hostile writer made unreadable.

`guard` installs it in a client; `FetchedRecords` builds our records in one step, and can leave out those that lack certain bytes.
"""

import struct
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.util import calc_crc32c

from streams.log import record_format
from streams.log.log_port import Record
from streams.log.record_format import BatchRecord

_PLACE, _BEFORE = struct.Struct(">qii"), 12
"""A batch's first offset, length and leader epoch; and the bytes that its length does not count."""
_SUMMED_FROM = 21
"""Where the bytes begin that a batch's checksum is about."""


def guard(fetcher: ModuleType) -> None:
    """Install our reader in the module of a client that parses fetched batches."""
    plain: Any = fetcher
    plain.MemoryRecords = guarded(plain.MemoryRecords)


def guarded(records: Any) -> "_Guarded":
    """A client's class of fetched records, with batches read by our code."""
    return records if isinstance(records, _Guarded) else _Guarded(records)


class _Guarded:
    """Stands for a client's class of fetched records."""

    def __init__(self, records: Callable[[bytes], Any]) -> None:
        self._records = records

    def __call__(self, buffer: bytes) -> "_Records":
        return _Records(self._records(buffer), buffer)


class _Records:
    """The fetched bytes, batch by batch."""

    def __init__(self, records: Any, buffer: bytes) -> None:
        self._records, self._buffer, self._at = records, buffer, 0

    @property
    def fetched(self) -> bytes:
        """All of it, as it came."""
        return bytes(self._buffer)

    def next_batch(self) -> "_Batch | None":
        batch, at = self._records.next_batch(), self._at
        if batch is None:
            return None
        end = self._at = record_format.end_of_batch(self._buffer, at)
        return _Batch(batch, lambda: bytes(self._buffer[at:end]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)


class _Batch:
    """One batch: the client's attributes, and records that our code reads."""

    def __init__(self, batch: Any, as_fetched: Callable[[], bytes]) -> None:
        self._batch, self._as_fetched = batch, as_fetched

    def __iter__(self) -> Iterator[BatchRecord]:
        return record_format.records(self._as_fetched())

    def __next__(self) -> Any:
        return next(self._batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)


# The clients build several objects for every record, which costs more than everything that a command does with it.
class FetchedRecords(Fetcher.PartitionRecords):  # type: ignore[misc]  # the client ships no types
    """The fetched records of a partition, as ours. Most of those that lack the bytes `containing` are left out."""

    containing = b""

    def _unpack_records(self, tp: Any, records: Any, *_: object) -> Iterator[Record]:
        buffer, at, last = records.fetched, 0, len(records.fetched) - record_format.HEAD.size
        while at <= last:
            base, size, epoch = _PLACE.unpack_from(buffer, at)
            end = at + _BEFORE + size
            if end > len(buffer) or size <= 0:
                break
            head = record_format.HEAD.unpack_from(buffer, at)
            # A position is an offset with the epoch of the batch before it. If only the offset moves on, the client asks the
            # broker whether an older epoch ever reached that far, and takes the answer for a truncated log.
            if head[3] == record_format.VERSION:
                self.leader_epoch = epoch
            for record in self._of_batch(tp, buffer[at:end], head):
                self.next_fetch_offset = record.offset + 1
                yield record
            self.next_fetch_offset = base + (head[6] if head[3] == record_format.VERSION else 0) + 1
            self.bytes_read += end - at  # the client turns to another partition after one that gave something
            at = end
        self.drain()

    def _of_batch(self, tp: Any, batch: bytes, head: tuple[int, ...]) -> Iterator[Record]:
        base, version, checksum, attributes = head[0], head[3], head[4], head[5]
        if version == record_format.VERSION:
            if attributes & record_format.CONTROL:
                return
            if calc_crc32c(memoryview(batch)[_SUMMED_FROM:]) != checksum:
                raise CorruptRecordError(f"the batch at offset {base} of {tp.topic}:{tp.partition} is not as it was written")
        for offset, at, key, value, headers in record_format.fields(batch, self.containing):
            yield Record(tp.topic, tp.partition, offset, key, value, headers, at)
