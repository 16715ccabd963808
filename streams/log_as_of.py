"""A log as it was at a moment of event time: nothing later is there, and nothing can be appended."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Self

from schemas import times
from schemas.names import Place
from streams import clock_log
from streams.clock_rules import Counted
from streams.errors import BadInput
from streams.log.log_port import Log, NewRecord, Positions, Record
from streams.log_range import offset_at
from streams.topics import CLOCK, Topics


@dataclass(slots=True)
class LogAsOf:
    """`log` up to the last tick that is not after `at`. What was decided in the turns up to it is there, too."""

    log: Log
    topics: Topics
    at: datetime
    _counted: Counted | None = None
    _ends: dict[tuple[str, int], int] = field(default_factory=dict)

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:  # noqa: ARG002  # the port's; nothing is taken
        """Raises BadInput: the past is what it was."""
        raise BadInput(f"nothing is appended to the log as it was at {self.at:%Y-%m-%d %H:%M:%S} UTC")

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:  # noqa: ARG002  # the port's
        """As the port says; nothing new ever comes."""
        wanted = {place: position for place, position in positions.items() if position < self.end(*place)}
        records = self.log.poll(wanted, limit=limit) if wanted else ()
        return [record for record in records if record.offset < self.end(record.topic, record.partition)]

    def begin(self, topic: str, partition: int) -> int:
        """The first kept offset."""
        return min(self.log.begin(topic, partition), self.end(topic, partition))

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record of that time."""
        place = (topic, partition)
        if place not in self._ends:
            self._ends[place] = self._end(topic, partition)
        return self._ends[place]

    def _end(self, topic: str, partition: int) -> int:
        if self._counted is None:
            self._counted = clock_log.counted_at(self.log, self.topics, self.at)
        name, end = self.topics.short(topic), self.log.end(topic, partition)
        if name == CLOCK:
            return self._counted.next
        in_force = max(self.log.begin(topic, partition), min(end, self._counted.end(name, partition)))
        if not clock_log.comes_after_its_tick(name) or self._counted.last is None:
            return in_force
        # What was decided in the turn of the last tick stands behind the end that this tick says, and belongs to that moment.
        decided = times.from_ms(self._counted.number + 1)
        return max(in_force, offset_at(self.log, topic, partition, decided))

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has. Raises BadInput when there is no such topic, or it is a changelog."""
        try:
            self.topics.topic(topic)
        except KeyError:  # a changelog: a checkpoint is newer than its content, so a look back replays from the beginning
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
