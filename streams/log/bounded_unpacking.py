"""Unpacks record batches within a bound. A topic's max.message.bytes bounds what is sent, and gzip makes 700 MB of 700 kB.

Kafka's two Python clients unpack a batch as a whole, however large it becomes. `guard` gives a client functions that stop at the
bound, and a stand-in for a batch that is over it: one record without key and value, at the batch's first offset, whose header
says what was left out. So readers go on behind the batch, and a stage sets the stand-in aside with its place and its size.
"""

import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import ModuleType
from typing import Any

import lz4.frame  # type: ignore[import-untyped]  # it ships no types
import snappy  # type: ignore[import-untyped]  # it ships no types
import zstandard
from kafka.errors import CorruptRecordError

from streams.log import header_names
from streams.log.log_port import LEFT_OUT

MOST_BYTES = 16 << 20
"""Twice the largest record that the topics take; what our own programs write as one batch stays below it."""
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16


class UnpacksTooLarge(Exception):  # said by what it does
    """A batch has more than `MOST_BYTES` when it is unpacked."""


def gunzip(payload: bytes) -> bytes:
    """GZIP, of one member or several."""
    out, rest = bytearray(), bytes(payload)
    while rest:
        member = zlib.decompressobj(wbits=31)
        out += _bounded(member.decompress(rest, MOST_BYTES + 1 - len(out)), so_far=len(out))
        rest = member.unused_data
    return bytes(out)


def unsnappy(payload: bytes) -> bytes:
    """Snappy, as it is or in the blocks of xerial's Java library. Each block says its size before it is unpacked."""
    payload = bytes(payload)
    if not payload.startswith(_XERIAL):
        return _block(payload, so_far=0)
    out, at = bytearray(), _XERIAL_HEADER
    while at < len(payload):
        size = int.from_bytes(payload[at : at + 4])
        out += _block(payload[at + 4 : at + 4 + size], so_far=len(out))
        at += 4 + size
    return bytes(out)


def unlz4(payload: bytes) -> bytes:
    """One frame of LZ4."""
    return _bounded(lz4.frame.LZ4FrameDecompressor().decompress(bytes(payload), max_length=MOST_BYTES + 1))


def unzstd(payload: bytes) -> bytes:
    """Zstandard, of one frame or several."""
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(bytes(payload)), read_across_frames=True) as reader:
        return _bounded(reader.read(MOST_BYTES + 1))


def _block(block: bytes, *, so_far: int) -> bytes:
    """One block of Snappy, which begins with its unpacked size: seven bits a byte, the lowest first."""
    size = 0
    for shift, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:  # noqa: PLR2004  # the highest bit says that more follows
            break
    if so_far + size > MOST_BYTES:
        raise UnpacksTooLarge
    return bytes(snappy.decompress(block))


def _bounded(data: bytes, *, so_far: int = 0) -> bytes:
    if so_far + len(data) > MOST_BYTES:
        raise UnpacksTooLarge
    return data


_UNPACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip_decode": gunzip,
    "snappy_decode": unsnappy,
    "lz4_decode": unlz4,
    "zstd_decode": unzstd,
}


def guard(fetcher: ModuleType, record_formats: Sequence[ModuleType]) -> None:
    """Give a client's modules the bound: where it unpacks (`record_formats`), and where it takes what was fetched apart."""
    for module in record_formats:
        for name, unpack in _UNPACKERS.items():
            if hasattr(module, name):
                setattr(module, name, unpack)
    plain: Any = fetcher
    plain.MemoryRecords = guarded(plain.MemoryRecords)


def guarded(records: Any) -> "_Guarded":
    """A client's class of fetched records, within the bound."""
    return records if isinstance(records, _Guarded) else _Guarded(records)


class _Guarded:
    """Stands for a client's class of fetched records."""

    def __init__(self, records: Callable[[bytes], Any]) -> None:
        self._records = records

    def __call__(self, buffer: bytes) -> "_Records":
        return _Records(self._records(buffer), buffer)


class _Records:
    """What was fetched, batch by batch."""

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
        end = self._at = header_names.end_of_batch(self._buffer, at)
        return _Batch(batch, lambda: bytes(self._buffer[at:end]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)


class _Batch:
    """One batch, which unpacks when it is iterated. `as_fetched` gives its bytes."""

    def __init__(self, batch: Any, as_fetched: Callable[[], bytes]) -> None:
        self._batch, self._as_fetched = batch, as_fetched

    def __iter__(self) -> Iterator[Any]:
        read = 0
        try:
            for record in self._batch:
                read += 1
                yield record
        except UnpacksTooLarge:
            yield _stand_in(self._batch)
        except (UnicodeDecodeError, CorruptRecordError) as error:
            if not isinstance(error, UnicodeDecodeError) and not isinstance(error.__context__, UnicodeDecodeError):
                raise
            yield from islice(header_names.records(self._as_fetched()), read, None)

    def __next__(self) -> Any:
        return next(self._batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)


@dataclass(frozen=True, slots=True)
class _StandIn:
    """A record with the attributes that both clients ask for."""

    offset: int
    timestamp: int
    timestamp_type: int
    headers: Sequence[tuple[str, bytes]] = field(default_factory=tuple)
    key: bytes | None = None
    value: bytes | None = None
    checksum: int | None = None
    size_in_bytes: int = 0

    def validate_crc(self) -> bool:
        """The batch's was looked at."""
        return True


def _stand_in(batch: Any) -> _StandIn:
    sentence = f"the batch of offsets {batch.base_offset} to {batch.next_offset - 1} has more than {MOST_BYTES} bytes unpacked"
    return _StandIn(batch.base_offset, batch.max_timestamp, batch.timestamp_type, [(LEFT_OUT, sentence.encode())])
