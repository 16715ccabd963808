"""A log as it was at a moment of event time: nothing later is there, and nothing can be appended.

Changelogs are left out, because a checkpoint is newer than its content; a look back replays from the beginning.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from schemas.names import Place
from streams.errors import BadInput
from streams.log.log_port import Log, NewRecord, Positions, Record
from streams.log_range import offset_at
from streams.topics import Topics


@dataclass(slots=True)
class LogAsOf:
    """`log` up to the tick of `at`, inclusive."""

    log: Log
    topics: Topics
    at: datetime
    _ends: dict[tuple[str, int], int] = field(default_factory=dict)

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:  # noqa: ARG002  # the port's; nothing is taken
        """Raises BadInput: the past is what it was."""
        raise BadInput(f"nothing is appended to the log as it was at {self.at:%Y-%m-%d %H:%M:%S} UTC")

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:  # noqa: ARG002  # the port's
        """As the port says; nothing new ever comes."""
        wanted = {place: position for place, position in positions.items() if position < self.end(*place)}
        found = self.log.poll(wanted, limit=limit) if wanted else ()
        return [record for record in found if record.offset < self.end(record.topic, record.partition)]

    def begin(self, topic: str, partition: int) -> int:
        """The first kept offset."""
        return min(self.log.begin(topic, partition), self.end(topic, partition))

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record of that time."""
        place = (topic, partition)
        if place not in self._ends:
            self._ends[place] = _end(self.log, topic, partition, self.at)
        return self._ends[place]

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has. Raises BadInput when there is no such topic, or it is a changelog."""
        try:
            self.topics.topic(topic)
        except KeyError:
            raise BadInput(f"'{topic}' is not looked at in the past") from None
        return self.log.partitions(topic)

    def close(self) -> None:
        """Close the log."""
        self.log.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()


def _end(log: Log, topic: str, partition: int, at: datetime) -> int:
    """After the last record of the moment itself, which counts."""
    return offset_at(log, topic, partition, at + timedelta(milliseconds=1))
