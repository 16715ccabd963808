"""Bounds of every field of every event, from the types alone: no number, text, list or time beyond them is an event.

A record may be valid JSON of the right types and still hold what no reader could work with: a count of 2^63, a time before the
year 1970, a list of a million names. Every reader of the log refuses that with the record, before anybody computes with it. A new
field is bounded as soon as it has a type; a capability's own checks are narrower. Columns of a scrape and `because`, which
no code reads to decide, are left to the bound of a record's size.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, get_args, get_origin, get_type_hints

from schemas import bounds
from schemas.facts.replica_scaling import LoadHistoryRead, LoadScraped
from schemas.facts.usage import MetricsScraped

FieldFault = tuple[str, str]
"""Where in the value ("" for itself, else ".field" or "[3]"), and what is wrong there, as the rest of a sentence."""
Check = Callable[[Any], FieldFault | None]

_SENTENCES = {"reason", "unsupported", "message"}
"""Fields that may quote the answer of somebody else."""
_UNBOUNDED = frozenset({"because"})
_COLUMNS: Mapping[object, frozenset[str]] = {
    MetricsScraped: frozenset({"workloads", "pods", "containers", "cores", "memory", "ages"}),
    LoadScraped: frozenset({"workloads", "series", "values", "ages"}),
    LoadHistoryRead: frozenset({"values"}),
}
"""Of scrapes. Their length is the number of its rows, and whoever folds them looks at all numbers of a column at once."""


def fault(event: object) -> FieldFault | None:
    """What is out of bounds in an event, and where; None if nothing is."""
    return _check_of(type(event))(event)


def _check_of(kind: Any) -> Check:
    """The check of a dataclass, made once."""
    # Types are looked into once: `get_type_hints` is far too slow for every record of the log.
    made = _MADE.get(kind)
    if made is None:
        made = _MADE[kind] = _make(kind)
    return made


_MADE: dict[object, Check] = {}


def _make(kind: type[Any]) -> Check:
    hints = get_type_hints(kind)
    left_out = _COLUMNS.get(kind, _UNBOUNDED)
    checks = [(f.name, check) for f in fields(kind) if f.name not in left_out and (check := _check(hints[f.name], f.name))]
    # Only an event that fails the quick look is gone through again, to say where.
    is_good = _quick(checks)

    def check_all(value: object) -> FieldFault | None:
        if is_good(value):
            return None
        for name, check in checks:
            wrong = check(getattr(value, name))
            if wrong is not None:
                return f".{name}{wrong[0]}", wrong[1]
        return None

    return check_all


def _quick(checks: Sequence[tuple[str, Check]]) -> Callable[[object], bool]:
    """Whether all checks find nothing."""
    # Most fields of most events are texts and numbers, which cost no call of their own here.
    numbers = [name for name, check in checks if check in (_number, _number_or_none)]
    texts = [name for name, check in checks if check is _text]
    others = [named for named in checks if named[0] not in (*numbers, *texts)]
    # Locals are read faster than globals, and this runs for every event of the log.
    low, high, longest = -_MOST, _MOST, bounds.MOST_TEXT

    def is_good(value: object) -> bool:
        for name in numbers:
            number = getattr(value, name)
            kind = type(number)
            # By the exact type, for a bool is an int; a number that is none compares false, so it is refused, too.
            if (kind is float or kind is int) and not low <= number <= high:
                return False
        for name in texts:
            text = getattr(value, name)
            if isinstance(text, str) and len(text) > longest:
                return False
        return all(check(getattr(value, name)) is None for name, check in others) if others else True

    return is_good


def _check(hint: Any, name: str) -> Check | None:
    """The check of a type; None for one whose every value is good."""
    # A unit such as Cores is a NewType, and bounded as the number below it.
    hint = getattr(hint, "__supertype__", hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Mapping, dict):
        return _mapping(_check(parts[1], name), texts=parts[1] is str)
    if origin in (Sequence, tuple):
        return _list(_check(parts[0], name))
    if parts:
        return _either([check for part in parts if (check := _check(part, name))])
    return _plain_check(hint, name) if isinstance(hint, type) else None


def _plain_check(kind: type[Any], name: str) -> Check | None:
    if is_dataclass(kind):
        return _whole(kind)
    if issubclass(kind, int | float):
        return None if kind is bool else _number
    if issubclass(kind, datetime):
        return _time
    if kind is str:
        return _sentence if name in _SENTENCES else _text
    return None


def _whole(kind: type[Any]) -> Check:
    """A dataclass in a field that may hold something else too."""

    def check(value: object) -> FieldFault | None:
        # Of a union, another member is looked at by its own check.
        return inner(value) if type(value) is kind else None

    inner = _check_of(kind)
    return check


def _either(checks: Sequence[Check]) -> Check | None:
    """A value of one of several types, None among them."""
    if not checks:
        return None

    def check(value: object) -> FieldFault | None:
        if value is None:
            return None
        for alternative in checks:
            wrong = alternative(value)
            if wrong is not None:
                return wrong
        return None

    def check_one(value: object) -> FieldFault | None:
        return None if value is None else only(value)

    only = checks[0]
    if checks == [_number]:
        return _number_or_none
    return check if len(checks) > 1 else check_one


def _list(inner: Check | None) -> Check:
    def check(value: Sequence[object]) -> FieldFault | None:
        if len(value) > bounds.MOST_ENTRIES:
            return "", f"has {len(value)} entries; more than {bounds.MOST_ENTRIES} are not possible"
        for place, item in enumerate(value if inner is not None else ()):
            wrong = inner(item) if inner is not None else None
            if wrong is not None:
                return f"[{place}]{wrong[0]}", wrong[1]
        return None

    return check


def _mapping(inner: Check | None, *, texts: bool) -> Check:
    def check(value: Mapping[str, object]) -> FieldFault | None:
        if len(value) > bounds.MOST_ENTRIES:
            return "", f"has {len(value)} entries; more than {bounds.MOST_ENTRIES} are not possible"
        size = 0
        for key, item in value.items():
            wrong = _text(key) or (inner(item) if inner is not None else None)
            if wrong is not None:
                return f"['{key[:80]}']{wrong[0]}", wrong[1]
            size += len(key) + (len(item) if isinstance(item, str) else 0)
        if texts and size > bounds.MOST_LABEL_TEXT:
            return "", f"has {size} characters; more than {bounds.MOST_LABEL_TEXT} are not possible"
        return None

    return check


def _number(value: object) -> FieldFault | None:
    kind = type(value)
    if (kind is not float and kind is not int) or -_MOST <= value <= _MOST:  # type: ignore[operator]  # it is a number here
        return None
    if not math.isfinite(value):  # type: ignore[arg-type]  # as above
        return "", f"is {value}, which is not a finite number"
    return "", f"is {value:g}; more than {_MOST:g} is not possible"


_MOST = bounds.MOST_NUMBER


def _number_or_none(value: object) -> FieldFault | None:
    return None if value is None else _number(value)


def _text(value: object) -> FieldFault | None:
    return _longer_than(bounds.MOST_TEXT, value)


def _sentence(value: object) -> FieldFault | None:
    return _longer_than(bounds.MOST_SENTENCE, value)


def _longer_than(most: int, value: object) -> FieldFault | None:
    if not isinstance(value, str) or len(value) <= most:
        return None
    return "", f"has {len(value)} characters; more than {most} are not possible"


def _time(value: object) -> FieldFault | None:
    if not isinstance(value, datetime) or value.year in bounds.YEARS:
        return None
    return "", f"is {value.isoformat()}, a time that no clock of ours shows"
