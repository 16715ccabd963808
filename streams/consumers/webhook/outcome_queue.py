"""Outcomes of admission on their way to the log, so that no pod's creation waits for the log.

They are kept in memory, within a bound, and written by another thread. While the log is away they wait; beyond the bound the
oldest are dropped, counted and logged.
"""

import threading
from collections import deque
from collections.abc import Callable

import structlog

from schemas.names import Place
from schemas.outcomes import Action, ActionFinished
from streams import refused_records
from streams.consumers.executing.acting_consumer import encode_outcome
from streams.consumers.executing.executor import source_of
from streams.errors import LogUnavailable
from streams.log_context import LogContext

MOST = 10_000
"""Outcomes that wait at most; about 1 kB each."""
_AT_ONCE = 500
_PAUSE = 0.25  # seconds between two looks, so that the outcomes of a rollout go together
_AGAIN = 1.0
_SOURCE = source_of(Action.PATCH)
_log = structlog.get_logger(__name__)


class OutcomeQueue:
    """`context` belongs to the thread that flushes."""

    def __init__(self, context: LogContext) -> None:
        self._context = context
        self._waiting: deque[tuple[ActionFinished, tuple[Place, ...]]] = deque()
        self.dropped = 0
        """Outcomes that were given up since the start."""

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def offer(self, outcome: ActionFinished, cause: tuple[Place, ...]) -> None:
        """Take an outcome; returns at once."""
        self._waiting.append((outcome, cause))
        if len(self._waiting) > MOST:
            self._waiting.popleft()
            self.dropped += 1
            # A line for each would fill the disk in the outage that causes it.
            if self.dropped % 1000 == 1:
                _log.warning("outcomes are dropped: the log has been away too long", action="patch", dropped=self.dropped)

    def flush(self) -> int:
        """Append all that wait; how many. Raises LogUnavailable and keeps what was not appended."""
        count = 0
        while self._waiting:
            first = [self._waiting[i] for i in range(min(_AT_ONCE, len(self._waiting)))]
            records = [encode_outcome(self._context, outcome, source=_SOURCE, cause=cause) for outcome, cause in first]
            refused_records.append(self._context.log, self._context.topics, records)
            for pair in first:
                # A pod's creation may have pushed it out meanwhile.
                if self._waiting and self._waiting[0] is pair:
                    self._waiting.popleft()
            count += len(first)
        return count

    def write(self, stop: threading.Event, before: Callable[[], object] = lambda: None) -> None:
        """Flush until told to stop, and once more then; `before` each time may offer more."""
        while not stop.wait(_PAUSE):
            before()
            if not self._flushed():
                stop.wait(_AGAIN)
        self._flushed()

    def _flushed(self) -> bool:
        try:
            self.flush()
        except LogUnavailable:  # the process says so; how many wait is a metric
            return False
        return True
