"""Cron schedules: when the next moment is, to the second, in a zone with summer time, exactly as upstream's library finds it.

Five fields (minute, hour, day of month, month, day of week) or a descriptor such as `@daily` or `@every 90s`, each with a zone of
its own in front if it likes. A moment that does not exist within five years never comes.
Source: `parser.go` and `spec.go` of github.com/robfig/cron v3.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # wall time; zones are added apart
_YEARS = 5
_NOON = 12
_HOURS = 24
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _DAYS),
)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
_SPAN = re.compile(rf"\+?({_PART.pattern})+")
_NUMBER = re.compile(r"\+?\d+")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which minutes, hours and so on match; `free` says whether days of month and week each admit all. `zone`: its own, if any."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    free: tuple[bool, bool] = (False, False)
    zone: str = ""
    every: int = 0

    def next(self, now: float, zone: tzinfo) -> int | None:
        """The first moment after `now` (seconds since the epoch), or None if none comes."""
        if self.every:
            return math.floor(now) + self.every
        return _next(self, math.floor(now) + 1, load(self.zone) if self.zone else zone)


@lru_cache(maxsize=256)
def load(name: str) -> tzinfo:
    """A zone by its IANA name; `Local` is UTC here, since no process's own zone may matter. `ValueError` if there is none."""
    if name in ("", "UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise ValueError(f"'{name}' is no time zone") from error


@lru_cache(maxsize=1024)
def parse(text: str) -> Schedule:
    """A schedule from its text; `ValueError` names the part that is wrong."""
    zone, rest = "", text
    if text.startswith(("TZ=", "CRON_TZ=")):
        named, _, rest = text.partition(" ")
        zone = named.partition("=")[2]
        load(zone)
        rest = rest.strip()
    if rest.startswith("@every "):
        return Schedule(zone=zone, every=_every(rest.removeprefix("@every ")))
    if rest.startswith("@") and rest not in _DESCRIPTORS:
        raise ValueError(f"'{rest}' is no schedule")
    parts = _DESCRIPTORS.get(rest, rest).split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"'{text}' has {len(parts)} fields, not {len(_FIELDS)}")
    fields = [_field(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
    sets = [values for values, _ in fields]
    return Schedule(sets[0], sets[1], sets[2], sets[3], sets[4], (fields[2][1], fields[4][1]), zone)


def _every(text: str) -> int:
    if _SPAN.fullmatch(text) is None:
        raise ValueError(f"'{text}' is no duration such as '90s' or '1h30m'")
    return max(1, int(sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))))


def _field(text: str, name: str, low: int, high: int, words: tuple[str, ...]) -> tuple[frozenset[int], bool]:
    """The values that a field admits, and whether it says all of them with a star."""
    values: set[int] = set()
    free = False
    for part in filter(None, text.split(",")):
        try:
            found, star = _range(part, low, high, words)
        except ValueError as error:
            raise ValueError(f"{name} '{part}': {error}") from error
        values |= found
        free |= star
    return frozenset(values), free


def _range(text: str, low: int, high: int, words: tuple[str, ...]) -> tuple[set[int], bool]:
    """One range: `*`, `5`, `1-5`, `mon-fri`, each with `/step` behind if it likes; `5/10` runs to the end."""
    span, *steps = text.split("/")
    ends = span.split("-")
    if len(steps) > 1 or len(ends) > 2:  # noqa: PLR2004  # from and to
        raise ValueError("too many hyphens or slashes")
    star = ends[0] in ("*", "?")
    first, last = (low, high) if star else (_number(ends[0], low, words), _number(ends[-1], low, words))
    step = _number(steps[0], low, ()) if steps else 1
    if steps and len(ends) == 1:
        last = high
    if first < low or last > high or first > last or step == 0:
        raise ValueError(f"not within {low} to {high}, or backwards, or without a step")
    return set(range(first, last + 1, step)), star and step == 1


def _number(text: str, low: int, words: tuple[str, ...]) -> int:
    if text.lower() in words:
        return words.index(text.lower()) + low
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"'{text}' is not a number")
    return int(text)


def _next(schedule: Schedule, at: int, zone: tzinfo) -> int | None:
    """Move `at` on, from the largest unit to the smallest, and begin again whenever a larger one turns."""
    limit = _wall(at, zone).year + _YEARS
    exact = True
    while (wall := _wall(at, zone)).year <= limit:
        if wall.month not in schedule.months:
            at, exact = _instant(datetime(wall.year + wall.month // _NOON, wall.month % _NOON + 1, 1), zone), False  # noqa: DTZ001  # wall time
        elif not _day_matches(schedule, wall):
            at, exact = _midnight(datetime(wall.year, wall.month, wall.day) + timedelta(days=1), zone), False  # noqa: DTZ001  # ditto
        elif wall.hour not in schedule.hours:
            start = wall.replace(minute=0, second=0) if exact else wall
            at, exact = (_instant(start, zone) if exact else at) + 3600, False
        elif wall.minute not in schedule.minutes:
            at, exact = at - at % 60 + 60, False
        elif wall.second:
            at = at + 60 - wall.second
        else:
            return at
    return None


def _day_matches(schedule: Schedule, wall: datetime) -> bool:
    """Day of month and day of week: both if one of them admits all, else either."""
    day, weekday = wall.day in schedule.days, wall.isoweekday() % 7 in schedule.weekdays
    return day and weekday if any(schedule.free) else day or weekday


def _midnight(wall: datetime, zone: tzinfo) -> int:
    """The instant of a midnight; if a change of the clock makes it another hour, the midnight nearest to it."""
    at = _instant(wall, zone)
    hour = _wall(at, zone).hour
    return at if not hour else at + (_HOURS - hour if hour > _NOON else -hour) * 3600


def _wall(at: int, zone: tzinfo) -> datetime:
    """What clocks in the zone show."""
    return datetime.fromtimestamp(at, zone).replace(tzinfo=None)


def _instant(wall: datetime, zone: tzinfo) -> int:
    """When clocks show `wall`, as Go's `time.Date` has it where they never do or do twice."""
    seconds = int((wall - _EPOCH).total_seconds())
    offset = _offset(seconds, zone)
    return seconds - _offset(seconds - offset, zone) if offset else seconds


def _offset(at: int, zone: tzinfo) -> int:
    found = datetime.fromtimestamp(at, zone).utcoffset()
    return int(found.total_seconds()) if found else 0
