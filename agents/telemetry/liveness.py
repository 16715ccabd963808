"""Liveness: a process is alive while its event loop runs, whatever Kafka, recovery and lag do.

A worker that waits for a broker or recovers for minutes is alive and must not be restarted; one whose loop hangs must be.
"""

import time
from collections.abc import Callable

from schemas.units import Seconds

PATIENCE = Seconds(60.0)


class Liveness:
    """A timer of the event loop calls `beat`; the health server's thread calls `reasons`."""

    def __init__(self, patience: Seconds = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        """A process that has not beaten for longer than `patience` counts as hung. It starts alive."""
        self.patience, self._clock = patience, clock
        self._last = clock()

    def beat(self) -> None:
        """The event loop runs."""
        self._last = self._clock()

    def reasons(self) -> list[str]:
        """Why not alive; empty when alive."""
        silent = self._clock() - self._last
        return [f"the loop has not come round for {silent:.0f} s"] if silent > self.patience else []
