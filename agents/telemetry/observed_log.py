"""A log that reports its records to an observer, so that the edges have metrics and readiness without any code for them.

The observer sees records after they are appended or read, and cannot change anything.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from schemas.names import Place
from streams import log_range
from streams.errors import LogUnavailable
from streams.log import log_port
from streams.log.log_port import Log, LogEnd, NewRecord, Positions, Record, RecordsRefused, TopicAndPartition


class LogObserver(Protocol):
    """Gets what an observed log reports."""

    def appended(self, records: Sequence[NewRecord]) -> None:
        """These were appended together."""

    def read(self, records: Sequence[Record]) -> None:
        """These were read."""

    def failed(self, error: LogUnavailable) -> None:
        """An append failed."""


class ObservedLog:
    """`log` with an observer."""

    def __init__(self, log: Log, observer: LogObserver) -> None:
        """The owner of `log` closes it."""
        self._log, self._observer = log, observer
        self._troubles: dict[tuple[str, frozenset[str]], str] = {}
        self.refused = 0
        """Records that the log will never take, since the start."""

    def troubles(self) -> Sequence[str]:
        """Sentences about calls that failed and have not succeeded since; a process with any is not ready."""
        return [f"the log does not do its part: {sentence}" for sentence in dict.fromkeys(self._troubles.copy().values())]

    def require(self) -> None:
        """Raise LogUnavailable with the first of the troubles, if there are any."""
        troubles = self.troubles()
        if troubles:
            raise LogUnavailable(troubles[0])

    @contextmanager
    def _noting(self, doing: str, topics: Iterable[str]) -> Iterator[None]:
        """Keep the failure of this call until it succeeds for one of these topics."""
        what = doing, frozenset(topics)
        try:
            yield
        except LogUnavailable as error:
            self._troubles[what] = str(error)
            raise
        # By one topic in common, because a retry may have more of them.
        for mended in [trouble for trouble in self._troubles.copy() if trouble[0] == doing and trouble[1] & what[1]]:
            self._troubles.pop(mended, None)

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        """As `log`; reports the records, or the failure."""
        # Looked at more than once below, and `records` may be an iterator.
        records = list(records)
        try:
            with self._noting("append", {record.topic for record in records}):
                places = self._log.append(records)
        except LogUnavailable as error:
            self._observer.failed(error)
            raise
        except RecordsRefused as error:
            # A part of them is in the log, and counts.
            taken = [record for record, place in zip(records, error.places, strict=True) if place is not None]
            self._observer.appended(taken)
            self.refused += len(error.refused)
            raise
        self._observer.appended(records)
        return places

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        """As `log`; reports the records."""
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

    def ends(self, places: Collection[TopicAndPartition]) -> Mapping[TopicAndPartition, LogEnd]:
        """As `log`."""
        with self._noting("ask", {topic for topic, _ in places}):
            return log_port.ends_of(self._log, places)

    def offsets_taken_at(self, places: Collection[TopicAndPartition], at_ms: int) -> Mapping[TopicAndPartition, int]:
        """As `log`."""
        with self._noting("ask", {topic for topic, _ in places}):
            return log_range.offsets_taken_at(self._log, places, at_ms)

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
