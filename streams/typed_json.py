"""Reads JSON, or what was read of it, into a type, from any thread.

Decoders are made by one thread at a time, and are kept.
"""

import threading
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_making = threading.Lock()
_made: dict[Any, msgspec.json.Decoder[Any]] = {}
_LONGEST = 600
"""Characters of a sentence about a value."""


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type."""
    made = _made.get(kind)
    if made is None:
        # msgspec prepares a type when it is first read, and shows that to other threads before it is complete: two that read
        # types for the first time at the same moment can end the process by a segmentation fault (seen with 0.22.0).
        with _making:
            made = _made.get(kind) or msgspec.json.Decoder(kind)
            _made[kind] = made
    return made


def decode(data: bytes | str | msgspec.Raw, kind: type[T]) -> T:
    """As `msgspec.json.decode` with a type. Raises msgspec.MsgspecError, UnicodeDecodeError, RecursionError."""
    return decoder(kind).decode(data)


def decode_object(data: bytes | msgspec.Raw, kind: type[T], root: str = "") -> T:
    """An object of the API server, or the part of one that stands at `root`, such as `spec`.

    As Kubernetes' own clients read it, a field that is null counts as absent; a spec does not, because without one an object says
    nothing. Raises ValueError that names the place of what does not fit the type.
    """
    try:
        return decode(data, kind)
    except (msgspec.ValidationError, RecursionError) as fault:
        try:
            whole = decode(data, object)
            sound = _without_nulls(whole, kept=() if root else ("spec",))
            return decode(msgspec.json.encode(sound), kind)
        except RecursionError:
            raise ValueError(f"it is nested too deeply to be read{_at(root)}") from fault
        except msgspec.ValidationError as error:
            raise ValueError(_placed(str(error), root)) from error


def _without_nulls(value: object, kept: Sequence[str] = ()) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None or name in kept}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _placed(fault: str, root: str) -> str:
    """A sentence of msgspec with the place as people write it: `spec.replicas`, and not `$.replicas`."""
    if len(fault) > _LONGEST:  # it quotes a value
        fault = f"{fault[: _LONGEST // 2]}…{fault[-_LONGEST // 2 :]}"
    if " - at `" not in fault:
        return f"{fault}{_at(root)}"
    return fault.replace("`$.", "`$" if not root else "`$.").replace("`$", f"`{root}")


def _at(root: str) -> str:
    return f" - at `{root}`" if root else ""


def convert(value: object, kind: type[T]) -> T:
    """As `msgspec.convert`. Raises msgspec.ValidationError."""
    decoder(kind)  # prepares the type, as `convert` would do without the lock
    return msgspec.convert(value, kind)
