"""Reading parts of a manifest by type: it refuses what Kubernetes itself would refuse to decode, with the path of the field.

Null means a field that was not given, as everywhere in Kubernetes.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from agents.logic.resources import resource_lists
from schemas import exact_quantity
from schemas.exact_quantity import NotAQuantityError, Quantity

T = TypeVar("T")

_NAMES = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}
MOST_ITEMS = 1_000
"""Entries of a list that are read: containers of a pod, policies of a VPA, and so on. A real object has a few."""
MOST_AMOUNTS = 100
"""Resources in one list of amounts."""
NEVER = datetime(1, 1, 1, tzinfo=UTC)
"""Kubernetes' zero time."""


class UnreadableError(ValueError):
    """A manifest cannot be read. The message names the field, or is Kubernetes' own where it has one."""


def parts(value: object, path: str) -> Mapping[str, Any]:
    """An object; an empty one for null."""
    return _typed(value, path, dict, {})


def items(value: object, path: str) -> list[Any]:
    """A list; an empty one for null. Raises UnreadableError for one that is too long."""
    entries: list[Any] = _typed(value, path, list, [])
    # Before anybody looks at the entries: a pod of a million containers must cost no more than this line.
    if len(entries) > MOST_ITEMS:
        raise UnreadableError(f"{path} has {len(entries)} entries, and {MOST_ITEMS} are read at most")
    return entries


def text(value: object, path: str) -> str:
    """A string; an empty one for null."""
    return _typed(value, path, str, "")


def optional(value: object, path: str) -> str | None:
    """A string, or None for null."""
    return None if value is None else text(value, path)


def texts(value: object, path: str) -> dict[str, str] | None:
    """An object of strings, or None for null."""
    return None if value is None else {name: text(entry, f"{path}[{name}]") for name, entry in parts(value, path).items()}


def whole(value: object, path: str, bits: int = 32) -> int | None:
    """A whole number of so many bits, or None for null."""
    if value is None:
        return None
    # To Python, true is the number 1.
    if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise UnreadableError(f"{path} is {_named(value)} where a whole number of {bits} bits belongs")
    return value


def amount(value: object) -> Quantity | None:
    """A quantity, or None for null."""
    return None if value is None else _quantities(lambda: exact_quantity.read(value))


def amounts(value: object, path: str) -> dict[str, Quantity] | None:
    """Quantities by resource, or None for null."""
    if isinstance(value, dict) and len(value) > MOST_AMOUNTS:
        raise UnreadableError(f"{path} has {len(value)} resources, and {MOST_AMOUNTS} are read at most")
    return None if value is None else _quantities(lambda: resource_lists.read(parts(value, path)))


def moment(value: object, path: str) -> datetime:
    """A time as Kubernetes writes it; its zero time for null."""
    if value is None:
        return NEVER
    try:
        at = datetime.fromisoformat(text(value, path))
        # An offset at the ends of the calendar leads out of it, which is an OverflowError.
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UnreadableError(f"{path} is no time") from None


def _quantities(read: Callable[[], T]) -> T:
    try:
        return read()
    except NotAQuantityError as error:
        raise UnreadableError(str(error)) from None


def _typed(value: object, path: str, kind: type[T], empty: T) -> T:
    if value is None:
        return empty
    if not isinstance(value, kind):
        raise UnreadableError(f"{path} is {_named(value)} where {_NAMES[kind]} belongs")
    return value


def _named(value: object) -> str:
    return _NAMES.get(type(value), "something else")
