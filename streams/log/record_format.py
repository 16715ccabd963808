"""Reads the records of one batch as a broker delivers it, whatever its bytes are.

Kafka's two Python clients raise again and again on a batch that they cannot read, and not on the same ones; one of them reads
past the end of its memory. So both get their records from here, and every reader of a log finds the same: the records that
Kafka's own Java client would find (version 2 of the format, https://kafka.apache.org/documentation/#recordbatch, and the sizes of
org.apache.kafka.common.utils.ByteUtils), with replacement characters in header names that are not text. From the first invalid
byte on, a stand-in takes the place of the rest: one record without key and value, whose header says what was left out.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from streams.log import bounded_decompression
from streams.log.bounded_decompression import NotReadable
from streams.log.log_port import LEFT_OUT, LEFT_OUT_TO, Headers

HEAD = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, epoch, version, checksum, attributes, last offset's delta, first and last time, producer, count."""
VERSION, CODEC, APPEND_TIME, CONTROL = 2, 0x07, 0x08, 0x20
# Of one batch. A record costs a hundred times its bytes when it is packed, and a dead letter if it is nothing.
MOST_RECORDS = 1 << 16
# Of one record, and of a batch. Each costs a hundred bytes of memory, and two or fewer in a batch.
MOST_HEADERS, MOST_HEADERS_IN_ALL = 1_000, 1 << 20

_LENGTH_AT, _BEFORE, _VERSION_AT = 8, 12, 16
_OLD_TIME_AT, _OLD_HEAD = 18, 26
_MORE = 0x80
"""The bit of a byte that says that its number goes on in the next one."""
_LONG = _MORE | 1
"""Bits that a size of less than 64 does not have."""
_INT, _INT_BYTES, _LONG_INT, _LONG_INT_BYTES = (1 << 32) - 1, 5, (1 << 64) - 1, 10
_FEW_VALUES = ("content-type", "ce_specversion", "ce_type", "ce_source", "ce_time")
_NAMES = {
    name.encode(): (name, dict[bytes, tuple[str, bytes]]() if name in _FEW_VALUES else None)
    for name in (*_FEW_VALUES, "ce_id", "ce_subject", "ce_cause", "cause")
}
"""Names of headers that need no decoding, and the headers of those whose values are few."""
_MOST_VALUES, _LONGEST_VALUE = 1_000, 100
"""Of the headers that are kept of one name, and bytes of the value of each."""

Fields = tuple[int, int, bytes | None, bytes | None, Headers]
"""Offset, time in milliseconds, key, value and headers; a header's value that is null is empty."""


@dataclass(slots=True)
class BatchRecord:
    """A record with the attributes that both clients ask for.

    `checksum` is the epoch of the leader that appended the batch: aiokafka hands this field on and has none for the epoch, and
    records have had no checksums of their own since version 2 of the format.
    """

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    checksum: int | None = None
    size_in_bytes: int = 0

    def validate_crc(self) -> bool:
        """True, because the batch's checksum was checked."""
        return True


def end_of_batch(fetched: bytes, at: int) -> int:
    """The end of the batch that begins at this byte of the fetched data."""
    return at + _BEFORE + int.from_bytes(bytes(fetched[at + _LENGTH_AT : at + _BEFORE]), signed=True)


def records(batch: bytes) -> Iterator[BatchRecord]:
    """The records of a batch, the last of which may be a stand-in."""
    kind, epoch = 0, None
    if len(batch) >= HEAD.size and batch[_VERSION_AT] == VERSION:
        kind, epoch = int(bool(batch[22] & APPEND_TIME)), HEAD.unpack_from(batch)[2]
    for offset, at, key, value, headers in fields(batch):
        yield BatchRecord(offset, at, kind, key, value, headers, epoch)


def fields(batch: bytes, containing: bytes = b"") -> Iterator[Fields]:
    """The same, as plain fields; most records without these bytes are skipped and not built."""
    if len(batch) < HEAD.size or batch[_VERSION_AT] != VERSION:
        yield _old(batch)
        return
    head = HEAD.unpack_from(batch)
    base, last, newest = head[0], head[0] + head[6], head[8]
    after = base - 1
    try:
        for record in _read(bounded_decompression.unpacked(head[5] & CODEC, batch[HEAD.size :]), head, containing):
            if not after < record[0] <= last:
                raise NotReadable("has offsets that are not its own")  # noqa: TRY301  # one place says how far it was read
            after = record[0]
            yield record
    except (NotReadable, IndexError) as error:
        if after < last:  # readers go on after the batch, and a stage sets the stand-in aside with its place
            why = str(error) if isinstance(error, NotReadable) else "ends within a record"
            so_far = f", and is left out from {after + 1} on" if after >= base else ""
            yield _stand_in(after + 1, last, newest, f"the batch of offsets {base} to {last} {why}{so_far}")


def _old(batch: bytes) -> Fields:
    """A record from before Kafka 0.11, which has no headers and so cannot be an event."""
    offset = int.from_bytes(batch[:8], signed=True)
    at = int.from_bytes(batch[_OLD_TIME_AT:_OLD_HEAD], signed=True) if batch[_VERSION_AT] == 1 else -1
    return _stand_in(
        offset, offset, at, f"the batch at offset {offset} has the format of before Kafka 0.11, which knows no headers"
    )


def _stand_in(offset: int, last: int, at: int, sentence: str) -> Fields:
    return offset, at, None, None, ((LEFT_OUT, sentence.encode()), (LEFT_OUT_TO, b"%d" % last))


def _name(raw: bytes) -> str:
    name = raw.decode(errors="replace")
    # Names that mark a stand-in are escaped, so that only we create one.
    return f"({name})" if name.startswith(LEFT_OUT) else name


def _read(content: bytes, head: tuple[int, ...], containing: bytes) -> Iterator[Fields]:
    """The records of a batch's content. Raises NotReadable, or IndexError where the content ends."""
    base, first, last, count = head[0], head[7], head[8] if head[5] & APPEND_TIME else None, head[12]
    if count > MOST_RECORDS:
        raise NotReadable(f"has more than {MOST_RECORDS} records")
    at, end, headers_left = 0, len(content), MOST_HEADERS_IN_ALL
    wanted = -1
    for _ in range(count):
        if containing and wanted < at and (wanted := content.find(containing, at)) < 0:
            return
        byte = content[at]
        size, at = (byte >> 1, at + 1) if not byte & _LONG else _int(content, at)
        behind = at + size
        if behind > end:
            raise IndexError
        if at < behind <= wanted:
            at = behind
            continue
        at += 1  # attributes, which are unused
        # Numbers of one byte are read in place here and below: a call for each would double the time of a batch.
        byte = content[at]
        later, at = (byte >> 1, at + 1) if not byte & _LONG else _number(content, at, _LONG_INT_BYTES, _LONG_INT)
        byte = content[at]
        delta, at = (byte >> 1, at + 1) if not byte & _LONG else _int(content, at)
        key, at = _bytes(content, at)
        value, at = _bytes(content, at)
        headers, at = _headers(content, at)
        headers_left -= len(headers)
        if headers_left < 0:
            raise NotReadable(f"has more than {MOST_HEADERS_IN_ALL} headers")
        if at != behind:
            raise NotReadable("has a record of another size than it says")
        yield base + delta, _time(first + later) if last is None else last, key, value, headers


def _headers(content: bytes, at: int) -> tuple[Headers, int]:
    # `_bytes` is inlined, because there are more headers than anything else. The caller notices a size beyond the end.
    byte = content[at]
    count, at = (byte >> 1, at + 1) if not byte & _LONG else _int(content, at)
    if not 0 <= count <= MOST_HEADERS:
        raise NotReadable(f"has a record with more than {MOST_HEADERS} headers, or fewer than none")
    headers: list[tuple[str, bytes]] = []
    for _ in range(count):
        byte = content[at]
        size, at = (byte >> 1, at + 1) if not byte & _LONG else _int(content, at)
        if size < 0:
            raise NotReadable("has a header without a name")
        name = content[at : at + size]
        at += size
        byte = content[at]
        size, at = (byte >> 1, at + 1) if not byte & _LONG else _int(content, at)
        end = at + size if size > 0 else at
        headers.append(_header(name, content[at:end]))
        at = end
    return tuple(headers), at


def _header(name: bytes, value: bytes) -> tuple[str, bytes]:
    # Records wait by the hundred thousand where a turn has as many, and headers that are alike are then one object.
    text, alike = _NAMES.get(name) or (_name(name), None)
    if alike is None or len(value) > _LONGEST_VALUE:
        return text, value
    header = alike.get(value)
    if header is None:
        # Whoever may write to a topic may invent values.
        if len(alike) >= _MOST_VALUES:
            alike.clear()
        header = alike[value] = text, value
    return header


def _bytes(content: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes after their length, None where it is negative."""
    byte = content[at]
    size, at = (byte >> 1, at + 1) if not byte & _LONG else _int(content, at)
    if size < 0:
        return None, at
    if at + size > len(content):
        raise IndexError
    return content[at : at + size], at + size


def _int(content: bytes, at: int) -> tuple[int, int]:
    """A number of 32 bits; most that have more than one byte have two."""
    first = content[at]
    if first >= _MORE and (second := content[at + 1]) < _MORE:
        whole = (first & ~_MORE) | second << 7
        return (whole >> 1) ^ -(whole & 1), at + 2
    return _number(content, at, _INT_BYTES, _INT)


def _number(content: bytes, at: int, most: int, mask: int) -> tuple[int, int]:
    """A number in zigzag, seven bits a byte, the lowest first; and where the next thing stands."""
    whole = 0
    for place in range(most):
        byte = content[at]
        at += 1
        whole |= (byte & ~_MORE) << 7 * place
        if byte < _MORE:
            whole &= mask
            return (whole >> 1) ^ -(whole & 1), at
    raise NotReadable(f"has a number of more than {most} bytes")


def _time(at: int) -> int:
    """Milliseconds added as in Java: in 64 bits, with overflow."""
    return at if -(1 << 63) <= at < 1 << 63 else (at + (1 << 63)) % (1 << 64) - (1 << 63)
