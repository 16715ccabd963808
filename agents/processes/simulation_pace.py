"""A clock in step with a made-up world: after a tick it waits until the world has answered with a scrape of that time.

On a fast machine nothing changes. On a slow one the clock leaves ticks out instead of running away from a world that is simulated
on the same cores; a tick that is left out is nothing. The wait is bounded, so that a world that died does not stop the clock.
"""

import time
from datetime import datetime

from streams.codec.event_codec import header, tick_number
from streams.log.port import Log
from streams.replay import milliseconds
from streams.topics import Topics

PATIENCE = 1.0


class SimulationPace:
    """Watches `pod-metrics` from its end on, over an opening of the log of its own."""

    def __init__(self, log: Log, topics: Topics) -> None:
        wire = topics.wire("pod-metrics")
        self._log = log
        self._next = {(wire, p): log.end(wire, p) for p in range(topics.partitions)}
        self._tick = self._scraped = -1

    def sleep(self, seconds: float) -> None:
        """Sleep so long, or until the newest tick has been answered, whichever is later; at most PATIENCE longer."""
        begun = time.monotonic()
        self._look(0.0)
        while self._scraped < self._tick and time.monotonic() < begun + PATIENCE:
            self._look(0.05)
        time.sleep(max(0.0, begun + seconds - time.monotonic()))

    def _look(self, wait: float) -> None:
        for record in self._log.poll(self._next, wait=wait):
            self._next[record.topic, record.partition] = record.offset + 1
            number = tick_number(record)
            if number is not None:
                self._tick = max(self._tick, number)
            else:
                self._scraped = max(self._scraped, _at(header(record, "ce_time")))


def _at(said: str | None) -> int:
    """Event time in milliseconds; -1 for what is no time."""
    try:
        return -1 if said is None else milliseconds(datetime.fromisoformat(said))
    except (ValueError, TypeError):
        return -1
