"""Between the threads that watch and the one that takes in: a queue with a bound, so that a long list waits its turn."""

import queue
from collections.abc import Sequence

from schemas.units import Seconds
from streams.sources.kube.watch.notifications import Change

BATCHES = 64
"""Batches that may wait; a page of a list is one."""
MOST = 2_000
"""Changes taken at once, about."""


class Inbox:
    """Any number of threads put, one takes."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Sequence[Change]] = queue.Queue(BATCHES)

    def put(self, changes: Sequence[Change]) -> None:
        """Waits while the inbox is full."""
        self._queue.put(changes)

    def take(self, wait: Seconds) -> list[Change]:
        """What is there, in order; waits so long for the first."""
        taken: list[Change] = []
        try:
            taken.extend(self._queue.get(timeout=wait))
            while len(taken) < MOST:
                taken.extend(self._queue.get_nowait())
        except queue.Empty:
            pass
        return taken
