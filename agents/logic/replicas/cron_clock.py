"""Answers what the crons of many objects want in each round, at the price of a look at the clock.

It finds each schedule's next moment once and keeps it until then. A later search would find the same moment only while the zone's
clocks do not change and, if there is no next moment, within the same year; after that it searches again. So the answer is always
that of `ehpa_crons.wanted`, whatever came before, and a restart with an empty cache decides the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo

from agents.logic import cron_schedules
from agents.logic.cron_schedules import CronSchedule
from agents.logic.replicas import ehpa_crons
from agents.logic.replicas.ehpa_crons import CronEntry

_UNSEEN = 86_400.0
"""Seconds without a look, after which the zone's clocks may have changed and changed back."""
_OFTEN = 3600.0


@dataclass(frozen=True, slots=True)
class _NextMoment:
    """The next moment of a schedule as found; `looked` is when that was last confirmed, in seconds since the epoch."""

    schedule: CronSchedule
    zone: tzinfo
    looked: float = -math.inf
    offset: timedelta | None = None
    year: int = 0
    found: int | None = None

    def at(self, now: float) -> "_NextMoment":
        """The next moment as of another time; `self` if nothing changed."""
        if self.schedule.every:
            return replace(self, found=self.schedule.next(now, self.zone))
        wall = datetime.fromtimestamp(math.floor(now) + 1, self.zone)
        offset, year, since = wall.utcoffset(), wall.year, now - self.looked
        if 0.0 <= since <= _UNSEEN and offset == self.offset and (year == self.year if self.found is None else now < self.found):
            return self if since < _OFTEN else replace(self, looked=now)
        return replace(self, looked=now, offset=offset, year=year, found=self.schedule.next(now, self.zone))


@dataclass(frozen=True, slots=True)
class _KeptCrons:
    """The crons of an object with the next start and end of each, or why they cannot be read."""

    crons: Sequence[CronEntry]
    moments: tuple[tuple[_NextMoment, _NextMoment], ...] = ()
    fault: str = ""


class CronClock:
    """Crons by the key of their object. Entries are replaced as a whole, so several threads may read them."""

    def __init__(self) -> None:
        self._kept: dict[str, _KeptCrons] = {}

    def remove(self, key: str) -> None:
        """Forget an object that is gone."""
        self._kept.pop(key, None)

    def wanted(self, key: str, crons: Sequence[CronEntry], now: float, *, least: int) -> int:
        """The largest target of an object's active crons, at least `least`; `ValueError` if any of them cannot be read."""
        kept = self._kept.get(key)
        if kept is None or kept.crons != crons:
            kept = _read(crons)
        if kept.fault:
            self._kept[key] = kept
            raise ValueError(kept.fault)
        moments = tuple((start.at(now), end.at(now)) for start, end in kept.moments)
        self._kept[key] = replace(kept, moments=moments)
        active = [ehpa_crons.is_between(start.found, end.found) for start, end in moments]
        return max([least, *[cron.target for cron, on in zip(crons, active, strict=True) if on]])


def _read(crons: Sequence[CronEntry]) -> _KeptCrons:
    try:
        return _KeptCrons(crons, tuple(_moments(cron) for cron in crons))
    except ValueError as error:
        return _KeptCrons(crons, fault=str(error))


def _moments(cron: CronEntry) -> tuple[_NextMoment, _NextMoment]:
    zone = cron_schedules.load(cron.zone)
    start, end = (_moment(cron_schedules.parse(text), zone) for text in (cron.start, cron.end))
    return start, end


def _moment(schedule: CronSchedule, zone: tzinfo) -> _NextMoment:
    """A schedule on the clocks of its own zone if it names one, else of the given zone."""
    return _NextMoment(schedule, cron_schedules.load(schedule.zone) if schedule.zone else zone)
