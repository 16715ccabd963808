"""A log that tells a watcher what goes in and out: how the edges get their metrics without knowing of any.

The watcher hears of records only after the log has taken or given them, and can change nothing.
"""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Protocol, Self

from schemas.names import Place
from streams.errors import LogUnavailable
from streams.log.port import Log, NewRecord, Positions, Record


class LogObserver(Protocol):
    """Who is told."""

    def appended(self, records: Sequence[NewRecord]) -> None:
        """The log has taken these, in one append."""

    def read(self, records: Sequence[Record]) -> None:
        """The log has given these."""

    def failed(self, error: LogUnavailable) -> None:
        """The log did not take an append."""


class ObservedLog:
    """`log` as it is, with `watcher` told."""

    def __init__(self, log: Log, watcher: LogObserver) -> None:
        """The log stays its owner's, who also closes it."""
        self._log, self._watcher = log, watcher

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        """As the log; tells what was taken, or that it was not."""
        records = list(records)
        try:
            places = self._log.append(records)
        except LogUnavailable as error:
            self._watcher.failed(error)
            raise
        self._watcher.appended(records)
        return places

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        """As the log; tells what was given."""
        records = self._log.poll(positions, wait=wait, limit=limit)
        self._watcher.read(records)
        return records

    def begin(self, topic: str, partition: int) -> int:
        """As the log."""
        return self._log.begin(topic, partition)

    def end(self, topic: str, partition: int) -> int:
        """As the log."""
        return self._log.end(topic, partition)

    def partitions(self, topic: str) -> int:
        """As the log."""
        return self._log.partitions(topic)

    def close(self) -> None:
        """As the log."""
        self._log.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()
