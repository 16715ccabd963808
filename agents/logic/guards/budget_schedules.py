"""Budgets for certain times: a list such as `0% @ 0 9 * * mon-fri for 8h; 5% @ 0 1 * * * for 90m`.

Each entry gives a share of the pods or nodes, when it begins (cron, in UTC unless it names a zone), and how long it applies.
If several apply at once, the smallest counts, as in Karpenter's disruption budgets. A share of 0 allows nothing.
"""

import re
from dataclasses import dataclass
from datetime import UTC
from functools import lru_cache

from schemas import cron_schedules
from schemas.units import Fraction

_ENTRY = re.compile(r"(?P<share>\d{1,3}(\.\d{1,6})?)%\s+@\s+(?P<cron>.{1,200}?)\s+for\s+(?P<count>\d{1,5})(?P<unit>[mhd])")
_UNITS = {"m": 60, "h": 3600, "d": 86_400}
_MOST = 31 * 86_400
"""The longest time, in seconds, that one entry may apply."""
_MOST_ENTRIES = 50


@dataclass(frozen=True, slots=True)
class ScheduledBudget:
    """One entry: a share, and for how many seconds it applies after each moment of the schedule."""

    share: Fraction
    cron: str
    seconds: int

    @property
    def closed(self) -> str:
        """Why nothing may be changed while the entry applies, as a sentence; empty if its share allows changes."""
        return "" if self.share else f"the budget is 0 now, for {self.seconds // 60} minutes from each '{self.cron}' on"

    def holds(self, now: int) -> bool:
        """Whether the entry applies at a moment, in seconds since the epoch."""
        # A beginning that summer time skips is when the skipped time ends. github.com/robfig/cron, and so a CronJob, would leave
        # out that day, and a freeze of that night would not hold.
        begun = cron_schedules.parse(self.cron).last(now, UTC)
        return begun is not None and now < begun + self.seconds


@lru_cache(maxsize=1024)
def parse(text: str) -> tuple[ScheduledBudget, ...]:
    """The entries; none for an empty text. Raises a ValueError that quotes the bad entry."""
    entries = [entry.strip() for entry in text.split(";") if entry.strip()]
    if len(entries) > _MOST_ENTRIES:
        raise ValueError(f"it has {len(entries)} entries; at most {_MOST_ENTRIES} make sense")
    return tuple(map(_entry, entries))


@lru_cache(maxsize=256)
def in_force(text: str, now: int) -> ScheduledBudget | None:
    """The smallest budget that applies in turn `now` (milliseconds); None if none does."""
    holding = [entry for entry in parse(text) if entry.holds(now // 1000)] if text else []
    return min(holding, key=lambda entry: entry.share, default=None)


def at_most(share: Fraction, text: str, now: int) -> Fraction:
    """A share, reduced to the smallest budget that applies in turn `now` (milliseconds) if that is smaller."""
    scheduled = in_force(text, now)
    return share if scheduled is None else min(share, scheduled.share)


def _entry(text: str) -> ScheduledBudget:
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not of the form 0% @ 0 9 * * mon-fri for 8h")
    share, seconds = float(match["share"]) / 100, int(match["count"]) * _UNITS[match["unit"]]
    if share > 1:
        raise ValueError(f"'{text}' has a share of more than 100%")
    if not 0 < seconds <= _MOST:
        raise ValueError(f"'{text}' holds for {seconds} s; it can be from 1 s to {_MOST} s")
    try:
        schedule = cron_schedules.parse(match["cron"])
    except ValueError as error:
        raise ValueError(f"'{text}' has no schedule: {error}") from error
    # `@every` counts from when a program started, and a decision must not depend on that.
    if schedule.every:
        raise ValueError(f"'{text}' never begins: @every has no moment of its own")
    if schedule.never:
        raise ValueError(f"'{text}' never begins: there is no such day")
    return ScheduledBudget(Fraction(share), match["cron"], seconds)
