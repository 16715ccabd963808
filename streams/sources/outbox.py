"""What a source has to say while the log is away: kept within a bound, and what is dropped is said.

Batches go out whole and in order. When there is no room the oldest scrape goes first, because the next one makes up for it; only
then the oldest of the rest. Never blocks and never grows beyond the bound.
"""

from collections import Counter, deque
from collections.abc import Sequence

import structlog

from streams.errors import LogUnavailable
from streams.log import Log, NewRecord

_log = structlog.get_logger(__name__)


class Outbox:
    """Two queues for one log: `facts`, each of which counts, and `scrapes`. `bound` is in bytes for both together."""

    def __init__(self, log: Log, *, bound: int = 32 << 20) -> None:
        self._log, self._bound, self._size = log, bound, 0
        self._facts: deque[NewRecord] = deque()
        self._scrapes: deque[NewRecord] = deque()
        self._dropped: Counter[str] = Counter()

    def put(self, *, facts: Sequence[NewRecord], scrapes: Sequence[NewRecord]) -> bool:
        """Take records in; False when facts had to be dropped, so that whoever made them must tell everything again."""
        self._facts.extend(facts)
        self._scrapes.extend(scrapes)
        self._size += sum(map(_size, facts)) + sum(map(_size, scrapes))
        whole = True
        while self._size > self._bound and (self._scrapes or self._facts):
            whole = whole and bool(self._scrapes)
            gone = (self._scrapes or self._facts).popleft()
            self._size -= _size(gone)
            self._dropped[gone.topic] += 1
        return whole

    def flush(self) -> bool:
        """Append everything; False when the log is away. Says what was dropped once the log is back."""
        try:
            if self._facts or self._scrapes:
                self._log.append([*self._facts, *self._scrapes])
        except LogUnavailable as error:
            _log.warning("the log is away, keeping facts", bytes=self._size, error=str(error))
            return False
        self._facts.clear()
        self._scrapes.clear()
        self._size = 0
        if self._dropped:
            _log.error("facts were dropped while the log was away", dropped=dict(self._dropped))
            self._dropped.clear()
        return True


def _size(record: NewRecord) -> int:
    headers = sum(len(name) + len(value) for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + 100
