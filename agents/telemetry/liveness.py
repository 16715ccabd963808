"""Liveness: a process is alive while its loop beats. Kafka, recovery and lag have no part in it.

A worker that waits for a broker or recovers for minutes beats and is left alone; one whose loop hangs is to be restarted.
"""

import time
from collections.abc import Callable

from schemas.units import Seconds

PATIENCE = Seconds(60.0)


class Liveness:
    """`beat` is called from a timer of the loop; `reasons` from the health server's thread."""

    def __init__(self, patience: Seconds = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        """Without a beat for longer than `patience` the process counts as hung. It is alive when made."""
        self.patience, self._clock = patience, clock
        self._last = clock()

    def beat(self) -> None:
        """The loop came round."""
        self._last = self._clock()

    def reasons(self) -> list[str]:
        """Why not alive; empty when alive."""
        silent = self._clock() - self._last
        return [f"the loop has not come round for {silent:.0f} s"] if silent > self.patience else []
