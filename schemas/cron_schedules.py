"""Cron schedules: finds the next moment, to the second, in a zone with summer time, exactly like upstream's library.

Five fields (minute, hour, day of month, month, day of week) or a descriptor such as `@daily` or `@every 90s`, optionally preceded
by a zone. A moment that does not exist within five years never comes. Source: `parser.go` and `spec.go` of github.com/robfig/cron
v3.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

# The seconds of Go's longest duration, in which upstream keeps `@every`.
_LONGEST = 2.0**63 / 1e9
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # wall time; zones are added apart
_YEARS = 5
_NOON = 12
_DECEMBER = 12
_HOURS = 24
_SIXTY = 60
_DAY = timedelta(days=1)
# 29 February may come within five years, so it counts as a day that exists.
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MOST_CHARACTERS = 1000
_MOST_SPAN = 128
"""Characters of a schedule, and of a span in one: longer ones mean nothing and take as long to read as their square."""
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
_SPAN = re.compile(rf"[+-]?(0|({_PART.pattern})+)")
_NUMBER = re.compile(r"\+?\d+")


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """Which minutes, hours and so on match; `free` says whether days of month and of week are unrestricted.

    `zone`: its own, if any.
    """

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    free: tuple[bool, bool] = (False, False)
    zone: str = ""
    every: int = 0

    @property
    def never(self) -> bool:
        """Whether it has no moment at all, as on 30 February."""
        return not self.every and _never(self)

    def next(self, now: float, zone: tzinfo) -> int | None:
        """The first moment after `now` (seconds since the epoch), or None if none comes."""
        if self.every:
            return math.floor(now) + self.every
        if _never(self):
            return None
        return _next(self, math.floor(now) + 1, load(self.zone) if self.zone else zone)

    def last(self, now: float, zone: tzinfo) -> int | None:
        """The last moment until `now`, or None if there was none in five years. A schedule of `@every` has none of its own.

        A moment that a change of the clock skips happens when the skipped time ends; one that clocks show twice happens twice.
        """
        if self.every or _never(self):
            return None
        return _last(self, math.floor(now), load(self.zone) if self.zone else zone)


@lru_cache(maxsize=256)
def load(name: str) -> tzinfo:
    """A zone by its IANA name; `Local` is UTC. `ValueError` if there is none."""
    # No process's own zone may matter, or two replays of one log would differ.
    if name in ("", "UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise ValueError(f"'{name}' is no time zone") from error


@lru_cache(maxsize=1024)
def parse(text: str) -> CronSchedule:
    """A schedule from its text; `ValueError` names the part that is wrong."""
    # Before anything else: a longer text takes as long to read as the square of its length.
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"'{text[:20]}...' has {len(text)} characters; a schedule has at most {_MOST_CHARACTERS}")
    zone, rest = "", text
    # Upstream's prefix; a field `timeZone` of the object stands apart and is handed to `next`.
    if text.startswith(("TZ=", "CRON_TZ=")):
        named, _, rest = text.partition(" ")
        zone = named.partition("=")[2]
        load(zone)
        rest = rest.strip()
    if rest.startswith("@every "):
        return CronSchedule(zone=zone, every=_every(rest.removeprefix("@every ")))
    if rest.startswith("@") and rest not in _DESCRIPTORS:
        raise ValueError(f"'{rest}' is no schedule")
    parts = _DESCRIPTORS.get(rest, rest).split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"'{text}' has {len(parts)} fields, not {len(_FIELDS)}")
    fields = [_field(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
    sets = [values for values, _ in fields]
    return CronSchedule(sets[0], sets[1], sets[2], sets[3], sets[4], (fields[2][1], fields[4][1]), zone)


def _every(text: str) -> int:
    if len(text) > _MOST_SPAN or _SPAN.fullmatch(text) is None:
        raise ValueError(f"'{text}' is no duration such as '90s' or '1h30m'")
    seconds = sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
    if seconds > _LONGEST:
        raise ValueError(f"'{text}' is longer than 292 years")
    # Upstream makes every span below a second a whole one, negative ones, too.
    return 1 if text.startswith("-") else max(1, int(seconds))


def _field(text: str, name: str, low: int, high: int, words: tuple[str, ...]) -> tuple[frozenset[int], bool]:
    """The values that a field admits, and whether it is a star."""
    values: set[int] = set()
    free = False
    for part in filter(None, text.split(",")):
        try:
            matching, star = _range(part, low, high, words)
        except ValueError as error:
            raise ValueError(f"{name} '{part}': {error}") from error
        values |= matching
        free |= star
    return frozenset(values), free


def _range(text: str, low: int, high: int, words: tuple[str, ...]) -> tuple[set[int], bool]:
    """One range: `*`, `5`, `1-5`, `mon-fri`, each optionally followed by `/step`; `5/10` runs to the end."""
    span, *steps = text.split("/")
    ends = span.split("-")
    if len(steps) > 1 or len(ends) > 2:  # noqa: PLR2004  # from and to
        raise ValueError("too many hyphens or slashes")
    star = ends[0] in ("*", "?")
    first, last = (low, high) if star else (_number(ends[0], low, words), _number(ends[-1], low, words))
    step = _number(steps[0], low, ()) if steps else 1
    # `5/10` means from 5 on, every 10.
    if steps and len(ends) == 1:
        last = high
    if first < low or last > high or first > last or step == 0:
        raise ValueError(f"not within {low} to {high}, or backwards, or without a step")
    # As upstream: `*/2` is no star any more, and so restricts its field.
    return set(range(first, last + 1, step)), star and step == 1


def _number(text: str, low: int, words: tuple[str, ...]) -> int:
    if text.lower() in words:
        return words.index(text.lower()) + low
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"'{text}' is not a number")
    return int(text)


def _never(schedule: CronSchedule) -> bool:
    """Whether a field admits nothing, or no month is so long: such a moment is not looked for over five years."""
    if not (schedule.minutes and schedule.hours and schedule.months):
        return True
    longest = max(_LONGEST_MONTHS[month - 1] for month in schedule.months)
    no_day = not schedule.days or min(schedule.days) > longest
    # With both days restricted, either is enough, so both have to be impossible.
    return no_day or not schedule.weekdays if any(schedule.free) else no_day and not schedule.weekdays


def _next(schedule: CronSchedule, at: int, zone: tzinfo) -> int | None:
    """Move `at` on, from the largest unit to the smallest; when a unit turns over, begin again with the largest."""
    # Upstream gives up after five years, too.
    limit = _wall(at, zone).year + _YEARS
    moved = False
    while _wall(at, zone).year <= limit:
        for move in (_months, _days, _hours, _minutes):
            at, moved, turned = move(schedule, at, zone, moved)
            if turned:
                break
        else:
            return at
    return None


def _last(schedule: CronSchedule, now: int, zone: tzinfo) -> int | None:
    """Go back day by day, and by months that do not match; of a day's moments the last one that is not after `now`."""
    today = _wall(now, zone).replace(hour=0, minute=0, second=0)
    day, oldest = today + _DAY, today.year - _YEARS  # a skipped moment of today may come tomorrow, and the other way round
    times = sorted((hour * 60 + minute for hour in schedule.hours for minute in schedule.minutes), reverse=True)
    while day.year >= oldest:
        if day.month not in schedule.months:
            day = day.replace(day=1) - _DAY
            continue
        if _day_matches(schedule, day):
            moments = (at for minute in times for at in _moments(day + timedelta(minutes=minute), zone) if at <= now)
            latest = max(moments, default=None) if day >= today - _DAY else next(moments, None)
            if latest is not None:
                return latest
        day -= _DAY
    return None


def _moments(wall: datetime, zone: tzinfo) -> tuple[int, ...]:
    """When clocks show `wall`: once, twice, or, where they skip it, at the end of what they skip."""
    first, second = (int(wall.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1))
    if first <= second:
        return (second,) if first == second else (second, first)
    # Upstream's library leaves out a skipped moment, so a window that should end then would go on for a day.
    return (_end_of_gap(second, first, zone),)  # in a gap the later reading comes out as the earlier instant


def _end_of_gap(before: int, after: int, zone: tzinfo) -> int:
    """The instant between these two at which the zone's offset changes."""
    offset = _offset(before, zone)
    # Halving finds the second in some twenty steps.
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (middle, after) if _offset(middle, zone) == offset else (before, middle)
    return after


_Moved = tuple[int, bool, bool]
"""Where a move came to, whether anything has moved so far, and whether a unit above turned over."""


def _months(schedule: CronSchedule, at: int, zone: tzinfo, moved: bool) -> _Moved:
    """On to the first day of a month that matches. Before the first move of all, smaller units go back to their start."""
    while (wall := _wall(at, zone)).month not in schedule.months:
        wall = wall if moved else wall.replace(day=1, hour=0, minute=0, second=0)
        turn = wall.month == _DECEMBER
        first = wall.replace(year=wall.year + turn, month=1 if turn else wall.month + 1, day=1)
        at, moved = _instant(first + (wall.day - 1) * _DAY, zone), True  # the 31st of a month of 30 days is the 1st of the next
        if turn:
            return at, moved, True
    return at, moved, False


def _days(schedule: CronSchedule, at: int, zone: tzinfo, moved: bool) -> _Moved:
    """On to the midnight of a day that matches. Where a change of the clock takes midnight away, its neighbour stands for it."""
    while not _day_matches(schedule, wall := _wall(at, zone)):
        if not moved:
            at, moved = _instant(wall.replace(hour=0, minute=0, second=0), zone), True
        at = _skip_days(schedule, at, zone)
        morrow = _instant(_wall(at, zone) + _DAY, zone)
        at = morrow if morrow > at else at + int(_DAY.total_seconds())  # a zone that crosses the date line skips a whole day
        if hour := _wall(at, zone).hour:
            at += (_HOURS - hour if hour > _NOON else -hour) * 3600
        if _wall(at, zone).day == 1:
            return at, moved, True
    return at, moved, False


def _skip_days(schedule: CronSchedule, at: int, zone: tzinfo) -> int:
    """The day before the next that matches or begins a month, at the same hour; `at` itself if the clock changes between."""
    wall = day = _wall(at, zone)
    if wall.hour:
        return at
    while (ahead := day + _DAY).day != 1 and not _day_matches(schedule, ahead):
        day = ahead
    there = _instant(day, zone)
    return there if day != wall and _wall(there, zone) == day else at


def _hours(schedule: CronSchedule, at: int, zone: tzinfo, moved: bool) -> _Moved:
    """On to an hour that matches."""
    while (wall := _wall(at, zone)).hour not in schedule.hours:
        if not moved:
            at, moved = _instant(wall.replace(minute=0, second=0), zone), True
        at = _ahead(at, zone, 3600, min((h for h in schedule.hours if h > wall.hour), default=_HOURS) - wall.hour)
        if not _wall(at, zone).hour:
            return at, moved, True
    return at, moved, False


def _minutes(schedule: CronSchedule, at: int, zone: tzinfo, moved: bool) -> _Moved:
    """On to the start of a minute that matches."""
    wall = _wall(at, zone)
    if wall.second and wall.minute in schedule.minutes:
        at, moved = at + 60 - wall.second, True
        if not _wall(at, zone).minute:
            return at, moved, True
    while (wall := _wall(at, zone)).minute not in schedule.minutes:
        at, moved = at - at % 60, True
        at = _ahead(at, zone, 60, min((m for m in schedule.minutes if m > wall.minute), default=_SIXTY) - wall.minute)
        if not _wall(at, zone).minute:
            return at, moved, True
    return at, moved, False


def _ahead(at: int, zone: tzinfo, unit: int, count: int) -> int:
    """So many units (seconds) on, or one if the clock changes between."""
    wall, far = _wall(at, zone), at + unit * count
    return far if _wall(far, zone) == wall + timedelta(seconds=unit * count) else at + unit


def _day_matches(schedule: CronSchedule, wall: datetime) -> bool:
    """Day of month and day of week: both if one of them admits all, else either."""
    day, weekday = wall.day in schedule.days, wall.isoweekday() % 7 in schedule.weekdays
    return day and weekday if any(schedule.free) else day or weekday


def _wall(at: int, zone: tzinfo) -> datetime:
    """The wall time in the zone."""
    return datetime.fromtimestamp(at, zone).replace(tzinfo=None)


def _instant(wall: datetime, zone: tzinfo) -> int:
    """When clocks show `wall`, as Go's `time.Date` has it where they never do or do twice."""
    seconds = int((wall - _EPOCH).total_seconds())
    offset = _offset(seconds, zone)
    return seconds - _offset(seconds - offset, zone) if offset else seconds


def _offset(at: int, zone: tzinfo) -> int:
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    return int(offset.total_seconds()) if offset else 0
