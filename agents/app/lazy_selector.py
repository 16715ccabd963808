"""A selector for asyncio that does not poll before each round of callbacks while the loop is busy.

asyncio polls its sockets even if callbacks wait, and every poll releases Python's lock. A worker has two loops, Faust's and
its consumer's, each in a thread, so while both were busy they handed the lock to each other some twenty times a tick.
"""

import asyncio
import selectors
import time
from collections.abc import Callable

NEXT_LOOK = 0.001
"""Seconds after a poll in which a loop that is busy does not poll again."""


class LazySelector(selectors.DefaultSelector):
    """The platform's selector. A poll that need not wait is left out soon after the last one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._looked = -NEXT_LOOK

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As the platform's; an empty list if it polled less than `NEXT_LOOK` ago and `timeout` is 0."""
        now = self._clock()
        if timeout is not None and timeout <= 0 and now - self._looked < NEXT_LOOK:
            return []
        found = super().select(timeout)
        self._looked = self._clock() if timeout is None or timeout > 0 else now
        return found


def new_event_loop() -> asyncio.AbstractEventLoop:
    """An event loop that polls rarely while it is busy."""
    return asyncio.SelectorEventLoop(LazySelector())
