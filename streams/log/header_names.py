"""Reads record batches whose headers have names that are not UTF-8. Kafka's clients raise on these, for ever.

Whoever may write to a topic can name a header with any bytes, and the broker takes it. So a batch that a client cannot read is
read again here, with a replacement character for what no text has. Such a record is judged like any other.
"""

from collections.abc import Iterator
from typing import Any

from kafka.record.default_records import DefaultRecordBatch

_LENGTH_AT, _BEFORE = 8, 12
"""Where a batch says its length, and the bytes that this length does not count."""


class _Name(bytearray):
    """Bytes that decode whatever they are."""

    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, errors)


class _Readable(bytearray):
    """The content of a batch, of which every piece decodes."""

    def __getitem__(self, at: Any) -> Any:
        piece = super().__getitem__(at)
        return _Name(piece) if isinstance(at, slice) else piece


def end_of_batch(buffer: bytes, at: int) -> int:
    """Where the batch ends that begins at a byte of what was fetched."""
    return at + _BEFORE + int.from_bytes(bytes(buffer[at + _LENGTH_AT : at + _BEFORE]))


def records(batch: bytes) -> Iterator[Any]:
    """The records of a batch, with readable names of headers."""
    found: Any = DefaultRecordBatch(batch)
    iter(found)  # unpacks it
    found._buffer = _Readable(found._buffer)  # noqa: SLF001  # the client has no other way to say how to decode
    return iter(found)
