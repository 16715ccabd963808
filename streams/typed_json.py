"""Reads JSON, or what was read of it, into a type, from any thread.

msgspec prepares a type when it is first read, and shows what it prepares to other threads before it is complete: two threads that
read types for the first time at the same moment can end the process by a segmentation fault (seen with 0.22.0). So decoders are
made by one thread at a time, and are kept.
"""

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_making = threading.Lock()
_made: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type."""
    found = _made.get(kind)
    if found is None:
        with _making:
            found = _made.get(kind) or msgspec.json.Decoder(kind)
            _made[kind] = found
    return found


def decode(data: bytes | str | msgspec.Raw, kind: type[T]) -> T:
    """As `msgspec.json.decode` with a type. Raises msgspec.MsgspecError, UnicodeDecodeError, RecursionError."""
    return decoder(kind).decode(data)


def convert(found: object, kind: type[T]) -> T:
    """As `msgspec.convert`. Raises msgspec.ValidationError."""
    decoder(kind)
    return msgspec.convert(found, kind)
