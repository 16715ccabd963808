"""What a source has to say while the log is away: kept within a bound, and what is dropped is said.

Batches go out whole and in order. When there is no room the oldest scrape goes first, because the next one makes up for it; only
then the oldest of the rest. Never blocks and never grows beyond the bound.
"""

from collections import Counter, deque
from collections.abc import Sequence

import structlog

from streams.errors import LogUnavailable
from streams.log.port import Log, NewRecord

_log = structlog.get_logger(__name__)


class Outbox:
    """Two queues for one log: `facts`, each of which counts, and `scrapes`. `bound` is in bytes for both together."""

    def __init__(self, log: Log, *, bound: int = 32 << 20) -> None:
        self._log, self._bound, self._size = log, bound, 0
        self._facts: deque[NewRecord] = deque()
        self._scrapes: deque[NewRecord] = deque()
        self._unsaid: Counter[str] = Counter()
        self._lost_facts = False
        self.dropped: Counter[str] = Counter()
        """Records dropped since the start, by topic (wire name). Never falls, so that a metric can follow it."""

    def put(self, *, facts: Sequence[NewRecord], scrapes: Sequence[NewRecord]) -> None:
        """Take records in, to go out with the next `flush`."""
        self._facts.extend(facts)
        self._scrapes.extend(scrapes)
        self._size += sum(map(_size, facts)) + sum(map(_size, scrapes))

    def flush(self) -> bool:
        """Append everything; False when the log is away, and then what is over the bound is dropped."""
        try:
            if self._facts or self._scrapes:
                self._log.append([*self._facts, *self._scrapes])
        except LogUnavailable as error:
            self._trim()
            _log.warning("the log is away, keeping facts", bytes=self._size, error=str(error))
            return False
        self._facts.clear()
        self._scrapes.clear()
        self._size = 0
        return True

    def forget_losses(self) -> bool:
        """Say what was dropped, once the log is back. Whether there were facts among it, so that all must be told again."""
        if self._unsaid:
            _log.error("facts were dropped while the log was away", dropped=dict(self._unsaid))
            self._unsaid.clear()
        lost, self._lost_facts = self._lost_facts, False
        return lost

    def _trim(self) -> None:
        while self._size > self._bound and (self._scrapes or self._facts):
            self._lost_facts = self._lost_facts or not self._scrapes
            gone = (self._scrapes or self._facts).popleft()
            self._size -= _size(gone)
            self._unsaid[gone.topic] += 1
            self.dropped[gone.topic] += 1


def _size(record: NewRecord) -> int:
    headers = sum(len(name) + len(value) for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + 100
