"""For how long no clock has ticked, and the warning about it that goes with whatever is printed of such a log."""

import time

from agents.inspect.status_rows import length
from agents.processes.output import note
from agents.settings.all_settings import Settings
from schemas.units import Seconds
from streams.publishing.operator_log import NewestTick

SILENT = 20.0
"""Real seconds since the newest tick was written after which the clock counts as silent."""


def silence(tick: NewestTick, settings: Settings) -> Seconds:
    """For how long no clock has ticked, in real time; 0 while one is at work, and for a log that is a file or of the past."""
    if settings.log.kind != "kafka" or settings.log.at is not None or tick.appended_ms < 0:
        return Seconds(0.0)
    found = age(tick)
    return Seconds(found if found > SILENT else 0.0)


def age(tick: NewestTick) -> float:
    """Real seconds since the log took a tick; 0 for one that it took later than now, by another machine's time."""
    return max(0.0, time.time_ns() / 1e6 - tick.appended_ms) / 1000


def warn_of_silence(tick: NewestTick | None, settings: Settings) -> None:
    """Say on stderr that what is printed is of the past, if no clock is at work."""
    silent = 0.0 if tick is None else silence(tick, settings)
    if silent:
        note(f"ullage: no clock has ticked for {length(silent)}, so this is as it was then; `ullage status` says what is at work")
