"""Makes Kafka's two Python clients read batches with our code, which can leave out the records of one key, such as ticks.

`guard` installs it in a client. The clients build several objects for every record, which costs more than everything that a
command does with it; `RecordsWithoutKey` builds our records in one step, and skips batches that are a single tick.
"""

import re
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
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
_SUMMED_FROM, _CODEC_AT, _LAST_AT, _COUNT_AT, _ZERO, _ONE = 21, 22, 23, 57, b"\0\0\0\0", b"\0\0\0\1"
_ALIKE = ((8, 12), (16, 17), (_SUMMED_FROM, 27), (_COUNT_AT, record_format.HEAD.size))
"""Where batches of one size say their length, version, attributes, last offset and count."""


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


@lru_cache(maxsize=64)
def _alike(size: int, *same: tuple[int, bytes]) -> re.Pattern[bytes]:
    """Batches of `size` bytes, one after the other, that have the `same` bytes at these places of theirs."""
    pattern, at = b"", 0
    for place, found in same:
        pattern += b".{%d}%s" % (place - at, re.escape(found))
        at = place + len(found)
    return re.compile(b"(?s)(?:%s.{%d})++" % (pattern, size - at))


class RecordsWithoutKey(Fetcher.PartitionRecords):  # type: ignore[misc]  # the client ships no types
    """The fetched records of a partition, as ours, without those of the key `left_out`, which a subclass sets.

    Most of those that lack the bytes `containing` are left out, too. The first record that was asked for stays whatever its key
    is, so that a reader learns its time.
    """

    left_out, containing = b"", b""

    def _unpack_records(self, tp: Any, records: Any, *_: object) -> Iterator[Record]:
        buffer, at, head_size = records.fetched, 0, record_format.HEAD.size
        alone, last = b"\0\0\0" + bytes([2 * len(self.left_out)]) + self.left_out, len(buffer) - head_size
        while at <= last:
            base, size, epoch = _PLACE.unpack_from(buffer, at)
            end = at + _BEFORE + size
            if end > len(buffer) or size <= 0:
                break
            # Skip a batch that is a single record of that key: most batches are.
            if (
                buffer.startswith(alone, at + head_size + 1)
                and buffer.startswith(_ONE, at + _COUNT_AT)
                and buffer.startswith(_ZERO, at + _LAST_AT)
                and not buffer[at + _CODEC_AT] & record_format.CODEC
                and base > self.fetch_offset
            ):
                beginning = head_size, head_size + 1 + len(alone)
                same = ((i, buffer[at + i : at + j]) for i, j in (*_ALIKE, beginning))
                run = _alike(end - at, *same).match(buffer, at)
                end = end if run is None else run.end()
                # A position is an offset with the epoch of the batch before it. If only the offset moves on, the client asks
                # the broker whether an older epoch ever reached that far, and takes the answer for a truncated log.
                base, _, self.leader_epoch = _PLACE.unpack_from(buffer, end - _BEFORE - size)
                self.next_fetch_offset = base + 1
            else:
                head = record_format.HEAD.unpack_from(buffer, at)
                self.leader_epoch = epoch if head[3] == record_format.VERSION else self.leader_epoch
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
            if key != self.left_out or offset <= self.fetch_offset:
                yield Record(tp.topic, tp.partition, offset, key, value, headers, at)
