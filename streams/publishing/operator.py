"""What an operator says, put into the log: policies and control, a copy in every partition, because every reader needs them.

What is in force is what stands last. So to change one thing is to read what was said last and say it again with the change; of
two operators who do that in the same moment, one may undo the other. It judges nothing: who calls has checked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas import times
from schemas.names import Place
from schemas.policies import Policy
from schemas.policies.control import ControlChanged
from schemas.policies.vertical import VerticalPolicyChanged, VerticalPolicyRemoved
from streams.codec.event_codec import Codec, tick_number
from streams.log.port import Log, NewRecord, Record
from streams.topics import Topics

SOURCE = "/ullage/source/operator"
_FIRST_LOOK, _LARGEST_LOOK = 256, 16_384
"""Records read at once when going backwards: few at first, because what is wanted mostly stands near the end."""


def spoken(policies: Sequence[Policy], codec: Codec, *, source: str = SOURCE) -> list[NewRecord]:
    """The records that say these things, in this order in every partition."""
    return [
        record
        for policy in policies
        for topic, key in [_where(policy)]
        for record in codec.encode_for_all(policy, topic=topic, key=key, source=source)
    ]


def _where(policy: Policy) -> tuple[str, str]:
    if isinstance(policy, ControlChanged):
        return ("control", policy.cluster)
    return ("policies", policy.target if isinstance(policy, VerticalPolicyChanged | VerticalPolicyRemoved) else policy.key)


@dataclass(frozen=True, slots=True)
class Tick:
    """The newest tick: its event time, and when the log took it (-1 when the log does not know)."""

    at: datetime
    taken_ms: int


@dataclass(frozen=True, slots=True)
class Operator:
    """Reads and says policies and control of one log."""

    log: Log
    topics: Topics
    codec: Codec

    def say(self, *policies: Policy) -> Sequence[Place]:
        """Append them to every partition. Raises LogUnavailable, and BadInput for a log without our topics."""
        return self.log.append(spoken(policies, self.codec))

    def tick(self) -> Tick | None:
        """The newest tick; None in a log that has none."""
        found = [tick for p in range(self.topics.partitions) if (tick := self._tick(p)) is not None]
        return max(found, key=lambda tick: tick.at, default=None)

    def _tick(self, partition: int) -> Tick | None:
        for record in self._backwards("control", partition):
            number = tick_number(record)
            if number is not None:
                return Tick(times.from_ms(number), record.timestamp_ms)
        return None

    def control(self, cluster: str) -> ControlChanged | None:
        """What was said last about this cluster; None when nothing was."""
        for record in self._backwards("control", self.topics.partition_of(cluster)):
            event = self._read(record)
            if isinstance(event, ControlChanged) and event.cluster == cluster:
                return event
        return None

    def policies(self) -> dict[str, VerticalPolicyChanged]:
        """The policies in force, by target."""
        held: dict[str, VerticalPolicyChanged] = {}
        at = (self.topics.wire("policies"), 0)
        for record in self._between(at, self.log.begin(*at), self.log.end(*at)):
            event = self._read(record)
            if isinstance(event, VerticalPolicyChanged):
                held[event.target] = event
            elif isinstance(event, VerticalPolicyRemoved):
                held.pop(event.target, None)
        return dict(sorted(held.items()))

    def _read(self, record: Record) -> Policy | None:
        """What the record says; None for a tick, and for what the stages set aside."""
        event = self.codec.decode_or_none(record)
        return event if isinstance(event, ControlChanged | VerticalPolicyChanged | VerticalPolicyRemoved) else None

    def _backwards(self, name: str, partition: int) -> Iterator[Record]:
        at, size = (self.topics.wire(name), partition), _FIRST_LOOK
        begin, end = self.log.begin(*at), self.log.end(*at)
        while end > begin:
            start = max(begin, end - size)
            yield from reversed(list(self._between(at, start, end)))
            end, size = start, min(_LARGEST_LOOK, size * 4)

    def _between(self, at: tuple[str, int], start: int, end: int) -> Iterator[Record]:
        while start < end and (records := self.log.poll({at: start})):
            yield from (record for record in records if record.offset < end)
            start = records[-1].offset + 1
