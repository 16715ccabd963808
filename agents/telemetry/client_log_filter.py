"""Holds back log lines of the Kafka and HTTP clients until their cause is known.

Without a broker these clients repeat the same lines hundreds of times a minute. The watcher of the broker releases or drops them.
"""

import logging
import threading
import time
from collections.abc import Callable

from schemas.units import Seconds

CLIENTS = ("kafka", "aiokafka", "urllib3", "faust", "mode", "asyncio")
"""The first words of the names of their loggers."""
AGAIN = Seconds(600.0)
"""Seconds in which one sentence is let out once."""
_MOST_HELD = 200
_LINGER = Seconds(10.0)
"""Seconds after an outage in which the clients still speak of it."""


class ClientLogFilter(logging.Filter):
    """Holds back clients' lines, except errors with a traceback. `clock` counts real seconds."""

    def __init__(self, handler: logging.Handler, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`handler` gets the released lines; add the filter to it."""
        super().__init__()
        self._handler, self._clock, self._lock = handler, clock, threading.Lock()
        self._held: list[logging.LogRecord] = []
        self._dropped = 0
        self._logged_at: dict[tuple[str, str], float] = {}
        self._quiet_until = float("-inf")
        self._call: Callable[[], object] | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is logged now. Without a watcher, every line is."""
        if self._call is None or getattr(record, "let_out", False) or record.name.partition(".")[0] not in CLIENTS:
            return True
        with self._lock:
            first = not self._held
            if len(self._held) < _MOST_HELD:
                self._held.append(record)
            else:
                self._dropped += 1
        if first:
            self._call()
        return False

    def on_first(self, call: Callable[[], object]) -> None:
        """Set what to call when a line is held back for the first time."""
        self._call = call

    def release(self) -> None:
        """Log the lines that were held back, each sentence once in a while."""
        now = self._clock()
        with self._lock:
            records, self._held, self._dropped = self._held, [], 0
        # Right after an outage the clients still speak of it.
        if now < self._quiet_until:
            return
        for record in records:
            key = record.name, str(record.msg)
            if now - self._logged_at.get(key, float("-inf")) >= AGAIN:
                self._logged_at[key] = now
                record.let_out = True
                self._handler.handle(record)

    def drop(self) -> int:
        """Drop the lines that were held back; how many there were."""
        with self._lock:
            count = len(self._held) + self._dropped
            self._held, self._dropped = [], 0
        self._quiet_until = self._clock() + _LINGER
        return count
