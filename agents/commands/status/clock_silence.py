"""How long no clock has ticked, and a warning about that for commands that print such a log."""

import time

from agents.commands.status.status_rows import length
from agents.settings.all_settings import Settings
from agents.terminal.output import note
from schemas.units import Seconds
from streams.publishing.operator_log import NewestTick

SILENT = 20.0
"""Real seconds since the newest tick was written after which the clock counts as silent."""


def silence(tick: NewestTick, settings: Settings) -> Seconds:
    """How long no clock has ticked, in real time; 0 while one is running, and for a log that is a file or in the past."""
    if settings.log.kind != "kafka" or settings.log.at is not None or tick.appended_ms < 0:
        return Seconds(0.0)
    seconds = age(tick)
    return Seconds(seconds if seconds > SILENT else 0.0)


def age(tick: NewestTick) -> float:
    """Real seconds since the log appended a tick; 0 if that is in the future by this machine's time."""
    return max(0.0, time.time_ns() / 1e6 - tick.appended_ms) / 1000


def warn_of_silence(tick: NewestTick | None, settings: Settings) -> None:
    """Warn on stderr that the output is about the past, if no clock is running."""
    silent = 0.0 if tick is None else silence(tick, settings)
    if silent:
        note(f"ullage: no clock has ticked for {length(silent)}, so this is as it was then; `ullage status` says what is at work")
