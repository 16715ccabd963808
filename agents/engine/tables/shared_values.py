"""Lets equal parts of what a process remembers be one object: texts, defaults, and values such as the containers of a pod.

Thousands of pods say the same, several stages keep the same policies and recommendations, and whatever is read is an object of
its own. What is shared is frozen, and compared by its bytes, so that nothing but memory changes. A value stays known while
somebody holds it.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from operator import attrgetter
from sys import getrefcount, intern
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from zlib import crc32

import msgspec

T = TypeVar("T")
Get = Callable[[object], Any]
Put = Callable[[object, Any], None]

_FEWEST = 1 << 12
"""Values that are known before it is looked up which of them are still held."""
_UNHELD = 2
"""References to a value that nobody holds but the table and the one who asks for their number."""

_encode = msgspec.json.Encoder().encode


class _KnownValues:
    """One value of all that are equal."""

    def __init__(self) -> None:
        self._values: dict[int, object] = {}
        self._limit = _FEWEST

    def first(self, value: T, share: "Sharer | None") -> T:
        """The first value that was equal to this one to the byte; the parts of a first one are shared by `share`."""
        # Python's own equality would not do: 1 equals 1.0, and is written differently. By 96 bits, 64 of which nobody can guess,
        # because the bytes of all values would be a third of what is saved.
        data = _encode(value)
        number = hash(data) << 32 | crc32(data)
        first = self._values.get(number)
        if first is not None:
            return first  # type: ignore[return-value]  # what stands in one place and is written alike is of one type
        if share is not None:
            share.share_each(value)
        self._values[number] = value
        if len(self._values) > self._limit:
            self._forget()
        return value

    def _forget(self) -> None:
        """Forget the values that nobody holds any more."""
        # By counting, because neither a tuple nor a dataclass with slots can be held weakly.
        values = self._values
        for number in [number for number in values if getrefcount(values[number]) <= _UNHELD]:
            del values[number]
        self._limit = max(_FEWEST, 2 * len(values))


_KNOWN = _KnownValues()


class Sharer:
    """For values of a frozen dataclass with slots: replaces their parts by equal ones that others have, too.

    Values of the classes in `whole`, and tuples of them, are looked up; of all others only the parts.
    """

    def __init__(self, kind: type, whole: frozenset[type]) -> None:
        self._texts: list[tuple[Get, Put]] = []
        self._defaults: list[tuple[Get, Put, object]] = []
        self._known: list[tuple[Get, Put, Sharer | None]] = []
        self._inner: list[tuple[Get, Sharer]] = []
        hints = get_type_hints(kind)
        for field in fields(kind):
            self._add(getattr(kind, field.name), hints[field.name], _default(field), whole)
        self.nothing = not (self._texts or self._defaults or self._known or self._inner)
        """Whether there is nothing to share in a value of numbers and times alone."""

    def _add(self, slot: Any, hint: Any, default: object, whole: frozenset[type]) -> None:
        # By the slot, because the values are frozen: what takes the place of a part is equal to it.
        get, put, of = attrgetter(slot.__name__), slot.__set__, _classes(hint)
        kind = next(iter(of))
        inner = sharer(kind, whole) if len(of) == 1 and isinstance(kind, type) and is_dataclass(kind) else None
        if hint in (str, str | None):
            self._texts.append((get, put))
        elif of <= whole or of == {str}:
            self._known.append((get, put, inner))
        elif inner is not None and not inner.nothing:
            self._inner.append((get, inner))
        if is_dataclass(default) or default == {}:
            self._defaults.append((get, put, default))

    def share(self, value: object) -> None:
        """Share the parts of a value."""
        for get, put in self._texts:
            part = get(value)
            # A member of an enumeration is one object anyway.
            if part and part.__class__ is str:
                put(value, intern(part))
        for get, put, default in self._defaults:
            part = get(value)
            if part is not default and part == default:
                put(value, default)
        for get, put, inner in self._known:
            part = get(value)
            if part:
                put(value, _KNOWN.first(part, inner))
        for get, inner in self._inner:
            part = get(value)
            if part:
                inner.share_each(part)

    def share_each(self, values: Any) -> None:
        """Share the parts of a value, or of each value in a tuple."""
        if values.__class__ is tuple:
            for value in values:
                self.share(value)
        else:
            self.share(values)


_MADE: dict[tuple[type, frozenset[type]], Sharer] = {}


def sharer(kind: type, whole: frozenset[type]) -> Sharer:
    """The sharer of a class, made once."""
    made = _MADE.get((kind, whole))
    if made is None:
        made = _MADE[kind, whole] = Sharer(kind, whole)
    return made


def _classes(hint: Any) -> set[Any]:
    """The classes of values of this type, or of what tuples of this type hold."""
    if get_origin(hint) in (tuple, Union, UnionType):
        return set[Any]().union(*map(_classes, get_args(hint))) - {NoneType, Ellipsis}
    return {hint}


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()
