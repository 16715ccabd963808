"""How long event time has stood still: without new ticks nothing expires, and nothing new is decided."""

import time
from collections.abc import Callable

from schemas import times
from streams.codec.event_codec import latest_tick, tick_number
from streams.log.log_port import Record

LEAST = 20.0
"""Real seconds without a tick in which the clock cannot count as away."""
_PERIODS = 3
"""Periods of a slow clock without a tick after which it counts as away."""


class TickSilence:
    """`clock` counts real seconds. The period is the time between two ticks, so that a slow clock does not count as silent.

    Of the last two periods the shorter one counts, because a jump in time is no period.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: float | None = None
        self._tick, self._periods = -1, (0.0, 0.0)
        self._behind = False

    def take(self, record: Record, *, before: int) -> int | None:
        """The newest valid tick if this record is a tick and `before` was the newest; None for any other record."""
        newest = latest_tick(record, before=before)
        if newest is not None:
            self.heard(min(newest, tick_number(record) or 0))
        return newest

    def heard(self, tick: int) -> None:
        """A tick came in; `tick` is its time in milliseconds. It only counts if it is later than all before."""
        self._behind = self._behind or tick < self._tick
        if tick > self._tick:
            self.moved_on(tick)

    def moved_on(self, tick: int) -> None:
        """Time went on to `tick`, for one reader of several."""
        self._heard, self._behind = self._clock(), False
        if tick > self._tick >= 0:
            self._periods = self._periods[1], (tick - self._tick) / 1000
        self._tick = max(tick, self._tick)

    def reasons(self) -> list[str]:
        """A sentence on why the event time is unknown; empty while ticks come in."""
        if self._heard is None:
            return ["the log has no tick yet: is `ullage source clock` at work?"]
        silent = self._clock() - self._heard
        if silent <= max(LEAST, _PERIODS * min(self._periods)):
            return []
        if self._behind:
            last = times.from_ms(self._tick).isoformat()
            return [f"for {silent:.0f} s no tick was later than {last}, which the log has reached: was a clock's time wrong?"]
        return [f"no tick has come for {silent:.0f} s: is `ullage source clock` at work?"]

    def reasons_once_heard(self) -> list[str]:
        """As `reasons`, for readers that need not wait in a log without ticks."""
        return [] if self._heard is None else self.reasons()
