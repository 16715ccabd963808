"""A log that reports to an observer what goes in and out. So the edges get metrics and readiness without knowing of any.

The observer sees records only after the log has taken or given them, and cannot change anything.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from schemas.names import Place
from streams.errors import LogUnavailable
from streams.log.log_port import Log, NewRecord, Positions, Record, RecordsRefused


class LogObserver(Protocol):
    """Gets what an observed log reports."""

    def appended(self, records: Sequence[NewRecord]) -> None:
        """The log has taken these, in one append."""

    def read(self, records: Sequence[Record]) -> None:
        """The log has given these."""

    def failed(self, error: LogUnavailable) -> None:
        """The log did not take an append."""


class ObservedLog:
    """`log` with an observer."""

    def __init__(self, log: Log, observer: LogObserver) -> None:
        """Whoever opened `log` also closes it."""
        self._log, self._observer = log, observer
        self._troubles: dict[tuple[str, frozenset[str]], str] = {}
        self.refused = 0
        """Records that the log will never take, since the start."""

    def troubles(self) -> Sequence[str]:
        """What the log refused last and has not done since, in sentences; a process with any is not ready."""
        return [f"the log does not do its part: {sentence}" for sentence in dict.fromkeys(self._troubles.copy().values())]

    def require(self) -> None:
        """Raise LogUnavailable with the first of the troubles, if there are any."""
        troubles = self.troubles()
        if troubles:
            raise LogUnavailable(troubles[0])

    @contextmanager
    def _noting(self, doing: str, topics: Iterable[str]) -> Iterator[None]:
        """Keep why this could not be done, until it can: for one of these topics, as a retry may come with more of them."""
        what = doing, frozenset(topics)
        try:
            yield
        except LogUnavailable as error:
            self._troubles[what] = str(error)
            raise
        for mended in [each for each in self._troubles.copy() if each[0] == doing and each[1] & what[1]]:
            self._troubles.pop(mended, None)

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        """As `log`; reports what it took, or that it failed."""
        records = list(records)
        try:
            with self._noting("append", {record.topic for record in records}):
                places = self._log.append(records)
        except LogUnavailable as error:
            self._observer.failed(error)
            raise
        except RecordsRefused as error:
            taken = [record for record, place in zip(records, error.places, strict=True) if place is not None]
            self._observer.appended(taken)
            self.refused += len(error.refused)
            raise
        self._observer.appended(records)
        return places

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        """As `log`; reports what it gave."""
        with self._noting("poll", {topic for topic, _ in positions}):
            records = self._log.poll(positions, wait=wait, limit=limit)
        self._observer.read(records)
        return records

    def begin(self, topic: str, partition: int) -> int:
        """As `log`."""
        with self._noting("ask", [topic]):
            return self._log.begin(topic, partition)

    def end(self, topic: str, partition: int) -> int:
        """As `log`."""
        with self._noting("ask", [topic]):
            return self._log.end(topic, partition)

    def partitions(self, topic: str) -> int:
        """As `log`."""
        with self._noting("ask", [topic]):
            return self._log.partitions(topic)

    def close(self) -> None:
        """As `log`."""
        self._log.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()
