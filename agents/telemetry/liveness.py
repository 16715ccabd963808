"""Liveness: a process is alive while its event loop runs, whatever Kafka, recovery and lag do.

A worker that waits for a broker or recovers for minutes is alive and must not be restarted; one whose loop hangs must be.
"""

import time
from collections.abc import Callable

from schemas.units import Seconds

PATIENCE = Seconds(60.0)
LONG_TURN, LONGEST_TURN = Seconds(5.0), Seconds(900.0)
"""After so long in one turn a worker is not ready, and after so long it counts as hung."""


class Liveness:
    """A timer of the event loop calls `beat`; the health server's thread calls `reasons`."""

    def __init__(self, patience: Seconds = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        """A process that has not beaten for longer than `patience` counts as hung. It starts alive."""
        self.patience, self._clock = patience, clock
        self._last = clock()
        self._turn: tuple[str, float] | None = None

    def beat(self) -> None:
        """The event loop runs."""
        self._last = self._clock()

    def turn_began(self, whose: str) -> None:
        """The loop takes a turn of this task and nothing else until it is over."""
        self._turn = whose, self._clock()

    def turn_ended(self) -> None:
        """The turn is over, which is a sign of life."""
        self._turn = None
        self.beat()

    def long_turn(self) -> list[str]:
        """Why not ready: a turn takes long; empty if none does."""
        turn = self._turn
        took = 0.0 if turn is None else self._clock() - turn[1]
        return [f"{turn[0]} has been taking one turn for {took:.0f} s"] if turn is not None and took > LONG_TURN else []

    def reasons(self) -> list[str]:
        """Why not alive; empty when alive."""
        turn = self._turn
        # A long turn is work, and a restarted worker would get the same turn again.
        if turn is not None and self._clock() - turn[1] <= LONGEST_TURN:
            return []
        silent = self._clock() - self._last
        return [f"the loop has not come round for {silent:.0f} s"] if silent > self.patience else []
