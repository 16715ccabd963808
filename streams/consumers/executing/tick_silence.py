"""For how long no tick has come in: without ticks there is no time, nothing expires, and nothing new is decided."""

import time
from collections.abc import Callable

LEAST = 20.0
"""Real seconds without a tick in which the clock cannot count as away."""
_PERIODS = 3
"""Periods of a slow clock without a tick after which it counts as away."""


class TickSilence:
    """`clock` counts real seconds. The period is what lies between the last two ticks, so that a slow clock is no silent one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: float | None = None
        self._tick, self._period = -1, 0.0

    def heard(self, tick: int) -> None:
        """A tick came in; `tick` is its time in milliseconds."""
        self._heard = self._clock()
        if tick > self._tick >= 0:
            self._period = (tick - self._tick) / 1000
        self._tick = max(tick, self._tick)

    def reasons(self) -> list[str]:
        """Why nobody knows what time it is, as a sentence; empty while ticks come in."""
        if self._heard is None:
            return ["the log has no tick yet: is `ullage source clock` at work?"]
        silent = self._clock() - self._heard
        if silent <= max(LEAST, _PERIODS * self._period):
            return []
        return [f"no tick has come for {silent:.0f} s: is `ullage source clock` at work?"]

    def reasons_once_heard(self) -> list[str]:
        """As `reasons`, for those who have nothing to wait for in a log without ticks."""
        return [] if self._heard is None else self.reasons()
