"""The log port: ordered records by topic, partition and offset. Three adapters: memory, file, Kafka.

All adapters pass one conformance suite. The port is synchronous; a caller that has an event loop uses a thread. It knows
bytes, not events. `ends_of` asks any log about many partitions at once.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from schemas.names import Place
from streams.errors import BadInput, LogUnavailable, UllageError

Headers = tuple[tuple[str, bytes], ...]
Positions = Mapping[tuple[str, int], int]
"""(topic, partition) to the next offset wanted."""

LEFT_OUT, LEFT_OUT_TO = "ullage-left-out", "ullage-left-out-to"
"""The headers of a record that stands for what a log could not hand out: a sentence, and the last offset that it stands for.

Key and value are None. What comes from Kafka has these headers only from us.
"""


# Records are not frozen, and nobody changes them: to make a frozen one takes four times as long, and everything is made of them.


@dataclass(slots=True, unsafe_hash=True)
class NewRecord:
    """A record to append. `topic` is the wire name; the partition is always explicit."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


TopicAndPartition = tuple[str, int]
"""Wire name and partition."""


@dataclass(slots=True, unsafe_hash=True)
class Record:
    """A record in the log. `timestamp_ms` is when it was appended, which is never an input to a decision.

    `epoch` is that of the leader that appended it, -1 where a log has no leaders. It says nothing about what was recorded.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = -1
    epoch: int = field(default=-1, compare=False)

    @property
    def place(self) -> Place:
        """Where this record stands."""
        return Place(self.topic, self.partition, self.offset)

    @property
    def last_offset(self) -> int:
        """The last offset that this record covers: its own, unless it also stands in for records after it."""
        left_out = next((value for name, value in self.headers if name == LEFT_OUT_TO), b"") if self.value is None else b""
        return max(self.offset, int(left_out)) if left_out.isdigit() else self.offset

    @property
    def size(self) -> int:
        """About how much memory it needs, in bytes."""
        # Python's own part is more than half of a small record: a header as it is read is a tuple, a text and bytes.
        headers = sum([len(name) + len(value) + 150 for name, value in self.headers])
        return len(self.key or b"") + len(self.value or b"") + headers + 250


MAX_RECORD_BYTES = 8 << 20
"""Bytes of the largest record that our topics take. One that is larger is refused by every log."""


class RecordsRefused(UllageError):
    """The log will never accept some records of a batch; all others were appended.

    `places` has a place for each record of the batch, None for those that were refused.
    """

    def __init__(self, refused: Sequence[tuple[NewRecord, str]], places: Sequence[Place | None]) -> None:
        """`refused` are records, and why."""
        super().__init__("; ".join(f"a record for {record.topic}:{record.partition}: {why}" for record, why in refused[:3]))
        self.refused, self.places = tuple(refused), tuple(places)


def size_of(record: NewRecord) -> int:
    """Bytes of key, value and headers."""
    size = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value)
    return size


def oversize(record: NewRecord, most: int = MAX_RECORD_BYTES) -> str | None:
    """Why a record is too large for a log that takes `most` bytes; None if it is not."""
    size = size_of(record)
    return None if size <= most else f"it has {size} bytes, and the log takes {most}"


def require_key_or_value(record: NewRecord) -> None:
    """Raises BadInput for a record that has neither."""
    # It would be meaningless, and Kafka's clients refuse it.
    if record.key is None and record.value is None:
        raise BadInput(f"a record for {record.topic}:{record.partition} has neither a key nor a value")


class Log(Protocol):
    """What every adapter can do."""

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        """Append in order and return when all are durable.

        Raises LogUnavailable; RecordsRefused, having appended all others, for records that the log will never take;
        BadInput, having appended nothing, for an unknown topic or partition or a record with neither key
        nor value.
        """

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        """Records at or after these positions, in offset order within a partition; waits up to `wait` seconds for the first.

        At least one record comes back if there is one. A position before the first kept offset reads from the first.
        """

    def begin(self, topic: str, partition: int) -> int:
        """The first kept offset."""

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record."""

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has. Raises BadInput when there is no such topic."""

    def close(self) -> None:
        """Close connections and files."""

    def __enter__(self) -> Self:
        """Itself."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""


UNKNOWN_EPOCH = -1


class LogEnd(NamedTuple):
    """The offset after the last record of a partition, and the epoch of the leader that says so (-1: unknown)."""

    offset: int
    epoch: int = UNKNOWN_EPOCH


_Ends = Callable[[Collection[TopicAndPartition]], Mapping[TopicAndPartition, LogEnd]]


def ends_of(log: Log, places: Collection[TopicAndPartition]) -> Mapping[TopicAndPartition, LogEnd]:
    """Where these partitions end, without those for which nobody answers now. Raises LogUnavailable if nobody does."""
    # Some logs say it of many partitions in one answer. Python 3.11 takes 86 us to match a protocol, and each poll asks.
    ends: _Ends | None = getattr(log, "ends", None)
    return {place: LogEnd(log.end(*place)) for place in places} if ends is None else ends(places)


def all_ends_of(log: Log, places: Collection[TopicAndPartition]) -> dict[TopicAndPartition, int]:
    """Where each of these partitions ends. Raises LogUnavailable if nobody answers for one of them."""
    ends = {place: end.offset for place, end in ends_of(log, places).items()}
    for place in places:
        if place not in ends:
            raise LogUnavailable(unanswered(place))
    return ends


def unanswered(place: tuple[str, int]) -> str:
    """That nobody answers for a partition, as a sentence."""
    return f"nobody says where '{place[0]}:{place[1]}' ends: is there a leader of it?"
