"""The outbox of a source: records wait here while the log is away, within a bound, and losses are counted and reported.

A flush appends everything in order, or nothing. The outbox never blocks and never grows beyond its bound.
"""

from collections import Counter, deque
from collections.abc import Sequence

import structlog

from streams import compacted_copy
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord
from streams.log_context import LogContext

_log = structlog.get_logger(__name__)


class Outbox:
    """Two queues for one log: facts, each of which matters, and scrapes. `bound` is in bytes, for both together."""

    def __init__(self, context: LogContext, *, bound: int = 32 << 20) -> None:
        self._context, self._bound, self._size = context, bound, 0
        self._facts: deque[NewRecord] = deque()
        self._scrapes: deque[NewRecord] = deque()
        self._unreported: Counter[str] = Counter()
        self._lost_facts = False
        self.dropped: Counter[str] = Counter()
        """Records dropped since the start, by topic (wire name). It never falls, so a metric can follow it."""

    def publish(self, *, facts: Sequence[NewRecord], scrapes: Sequence[NewRecord]) -> None:
        """Add records, to be appended by the next `flush`."""
        self._facts.extend(facts)
        self._scrapes.extend(scrapes)
        self._size += sum(map(_size, facts)) + sum(map(_size, scrapes))

    def flush(self) -> bool:
        """Append everything. False when the log is away; then records beyond the bound are dropped."""
        try:
            if self._facts or self._scrapes:
                records = [*self._facts, *self._scrapes]
                compacted_copy.append_with_copies(self._context.log, self._context.topics, records)
        except LogUnavailable:  # the process logs that once for everything that it does with the log
            self._trim()
            return False
        self._facts.clear()
        self._scrapes.clear()
        self._size = 0
        return True

    def report_losses(self) -> bool:
        """Log what was dropped, once the log is back. True if facts were among it, so that everything must be compared again."""
        if self._unreported:
            _log.error("facts were dropped while the log was away", dropped=dict(self._unreported))
            self._unreported.clear()
        lost, self._lost_facts = self._lost_facts, False
        return lost

    def _trim(self) -> None:
        while self._size > self._bound and (self._scrapes or self._facts):
            self._lost_facts = self._lost_facts or not self._scrapes
            oldest = (self._scrapes or self._facts).popleft()  # the next scrape makes up for one; nothing does for a fact
            self._size -= _size(oldest)
            self._unreported[oldest.topic] += 1
            self.dropped[oldest.topic] += 1


def _size(record: NewRecord) -> int:
    headers = sum(len(name) + len(value) for name, value in record.headers)
    # About what Python's own objects take.
    return len(record.key or b"") + len(record.value or b"") + headers + 100
