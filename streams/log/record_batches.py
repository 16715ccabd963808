"""Takes Kafka's record batches apart quickly, and leaves out the records of one key, such as ticks.

The clients make objects of every record in steps of their own, which costs more than all that a command does with it. This reads
the plain case of the format (version 2, as https://kafka.apache.org/documentation/#recordbatch has it) in one pass. Whatever is
not plain, such as an older version, a control batch or a header whose name is no text, goes the clients' own way.
"""

import struct
from collections.abc import Iterator
from typing import Any

from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c

from streams.log import bounded_unpacking
from streams.log.bounded_unpacking import UnpacksTooLarge
from streams.log.log_port import Headers, Record

_HEAD = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, epoch, version, checksum, attributes, last offset's delta, first and last time, producer, count."""
_PLACE, _BEFORE, _VERSION = struct.Struct(">qi"), 12, 2
_SUMMED_FROM, _CODEC_AT, _COUNT_AT, _ONE = 21, 22, 57, b"\0\0\0\1"
_CODEC, _APPEND_TIME, _CONTROL = 0x07, 0x08, 0x20
_UNPACK = {
    1: bounded_unpacking.gunzip,
    2: bounded_unpacking.unsnappy,
    3: bounded_unpacking.unlz4,
    4: bounded_unpacking.unzstd,
}
_MORE = 0x80
"""The bit of a byte that says that its number goes on in the next one."""
_LONG = _MORE | 1
"""Bits that a size of less than 64 does not have."""
_NAMES = {
    name.encode(): name
    for name in ("content-type", "ce_specversion", "ce_id", "ce_type", "ce_source", "ce_subject", "ce_time", "cause")
}
"""Names of headers that need no decoding."""


class RecordsWithoutKey(Fetcher.PartitionRecords):  # type: ignore[misc]  # the client ships no types
    """What was fetched of a partition, as our records, without those of the key `left_out`, which a subclass names.

    The first record that was asked for stays whatever its key is, so that a reader learns of which time it is.
    """

    left_out = b""

    def _unpack_records(self, tp: Any, records: Any, *_: object) -> Iterator[Record]:
        buffer, at = records.fetched, 0
        alone, last = b"\0\0\0" + bytes([2 * len(self.left_out)]) + self.left_out, len(buffer) - _HEAD.size
        while at <= last:
            base, size = _PLACE.unpack_from(buffer, at)
            end = at + _BEFORE + size
            if end > len(buffer):
                break
            # Nothing is made of a batch that is one record of that key: these are most of all there are.
            if (
                buffer.startswith(alone, at + _HEAD.size + 1)
                and buffer.startswith(_ONE, at + _COUNT_AT)
                and not buffer[at + _CODEC_AT] & _CODEC
                and base > self.fetch_offset
            ):
                self.next_fetch_offset = base + 1
            else:
                head = _HEAD.unpack_from(buffer, at)
                self.leader_epoch = head[2]
                for record in _of_batch(tp, buffer[at:end], head, (self.left_out, self.fetch_offset)):
                    self.next_fetch_offset = record.offset + 1
                    yield record
                self.next_fetch_offset = base + head[6] + 1
            at = end
        self.drain()


def _of_batch(tp: Any, batch: bytes, head: tuple[int, ...], without: tuple[bytes, int]) -> list[Record]:
    """The records of a batch but those of the key that `without` names, after the offset that it names."""
    base, _, _, version, checksum, attributes, *_ = head
    if version != _VERSION or attributes & _CONTROL:
        return _as_the_client_does(tp, batch)
    if calc_crc32c(memoryview(batch)[_SUMMED_FROM:]) != checksum:
        raise CorruptRecordError(f"the batch at offset {base} of {tp.topic}:{tp.partition} is not as it was written")
    try:
        codec = attributes & _CODEC
        content = _UNPACK[codec](batch[_HEAD.size :]) if codec else batch[_HEAD.size :]
        return list(_plain(tp, content, head, without))
    except (UnpacksTooLarge, UnicodeDecodeError, IndexError, KeyError):
        return _as_the_client_does(tp, batch)


def _plain(tp: Any, content: bytes, head: tuple[int, ...], without: tuple[bytes, int]) -> Iterator[Record]:
    base, attributes, first, last, count = head[0], head[5], head[7], head[8], head[12]
    (left_out, after), at = without, 0
    for _ in range(count):
        size, at = _number(content, at)
        behind = at + size
        later, at = _number(content, at + 1)
        delta, at = _number(content, at)
        key, at = _bytes(content, at)
        if key == left_out and base + delta > after:
            at = behind
            continue
        value, at = _bytes(content, at)
        headers, at = _headers(content, at)
        if at != behind:
            raise CorruptRecordError(f"the record at offset {base + delta} of {tp.topic}:{tp.partition} has not the size it says")
        yield Record(
            tp.topic, tp.partition, base + delta, key, value, headers, last if attributes & _APPEND_TIME else first + later
        )


def _headers(content: bytes, at: int) -> tuple[Headers, int]:
    """Written out, as there are more of these than of anything else. The caller finds a size beyond the end."""
    count, at = _number(content, at)
    found = []
    for _ in range(count):
        first = content[at]
        size, at = _size(content, at) if first & _LONG else (first >> 1, at + 1)
        name, at = content[at : at + size], at + size
        first = content[at]
        size, at = _size(content, at) if first & _LONG else (first >> 1, at + 1)
        found.append((_NAMES.get(name) or name.decode(), content[at : at + size]))
        at += size
    return tuple(found), at


def _bytes(content: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes after their length, None where it is -1. Raises IndexError for more than there is."""
    first = content[at]
    size, at = (first >> 1, at + 1) if not first & _LONG else _number(content, at)
    if size < 0:
        return None, at
    if at + size > len(content):
        raise IndexError
    return content[at : at + size], at + size


def _size(content: bytes, at: int) -> tuple[int, int]:
    size, at = _number(content, at)
    return max(0, size), at


def _number(content: bytes, at: int) -> tuple[int, int]:
    """A number in zigzag, seven bits a byte, the lowest first; and where the next thing stands. Raises IndexError at the end."""
    byte = content[at]
    at += 1
    if byte < _MORE:
        return (byte >> 1) ^ -(byte & 1), at
    whole, shift = byte & ~_MORE, 7
    while True:
        byte = content[at]
        at += 1
        whole |= (byte & ~_MORE) << shift
        if byte < _MORE:
            return (whole >> 1) ^ -(whole & 1), at
        shift += 7


def _as_the_client_does(tp: Any, batch: bytes) -> list[Record]:
    """The same by the client's own objects; nothing of control batches."""
    found = bounded_unpacking.guarded(MemoryRecords)(batch).next_batch()
    if found is None or (found.magic == _VERSION and found.is_control_batch):
        return []
    if not found.validate_crc():
        raise CorruptRecordError(f"the batch at offset {found.base_offset} of {tp.topic}:{tp.partition} is not as it was written")
    return [
        Record(
            tp.topic, tp.partition, raw.offset, raw.key, raw.value, tuple((n, v or b"") for n, v in raw.headers), raw.timestamp
        )
        for raw in found
    ]
