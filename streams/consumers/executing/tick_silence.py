"""For how long no tick has come in: without ticks there is no time, nothing expires, and nothing new is decided."""

import time
from collections.abc import Callable

LONGEST = 20.0
"""Real seconds without a tick after which the clock counts as away."""


class TickSilence:
    """`clock` counts real seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: float | None = None

    def heard(self) -> None:
        """A tick came in."""
        self._heard = self._clock()

    def reasons(self) -> list[str]:
        """Why nobody knows what time it is, as a sentence; empty while ticks come in."""
        if self._heard is None:
            return ["the log has no tick yet: is `ullage source clock` at work?"]
        silent = self._clock() - self._heard
        return [f"no tick has come for {silent:.0f} s: is `ullage source clock` at work?"] if silent > LONGEST else []
