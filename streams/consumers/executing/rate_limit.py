"""How fast questions may go out: so many a second, and a burst after a rest. Threads may share it. Delays, never refuses."""

import threading
import time
from collections.abc import Callable


class Pace:
    """`rate` questions a second on the long run, `burst` at once after a rest."""

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gap, self._rest = 1.0 / rate, burst / rate
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._paid = float("-inf")
        """The time up to which questions have been given out, one every gap."""

    def wait(self) -> None:
        """Until it is this question's turn."""
        with self._lock:
            now = self._clock()
            self._paid = max(self._paid, now - self._rest) + self._gap
            delay = self._paid - now
        if delay > 0:
            self._sleep(delay)
