"""Limits how fast requests are sent: so many per second, and a burst after a pause. It delays requests and never refuses one."""

import threading
import time
from collections.abc import Callable


class RateLimit:
    """`rate` requests a second in the long run, and `burst` at once after a pause. Threads may share it."""

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
        self._granted = float("-inf")
        """The time up to which requests have been granted, one for each gap."""

    def wait(self) -> None:
        """Sleep until the next request may go out."""
        with self._lock:
            now = self._clock()
            # A pause saves up at most a burst, however long it was.
            self._granted = max(self._granted, now - self._rest) + self._gap
            delay = self._granted - now
        if delay > 0:  # outside of the lock, so that others learn their own turns meanwhile
            self._sleep(delay)
