"""The log in Kafka: one idempotent producer, one consumer without a group, and the admin client for questions.

An append returns when all in-sync replicas have it. When an append fails, a part of it may be in the log: a repeat writes the
same bytes, and readers recognise repeats by id. Threads may share it, but only one polls at a time: a loop that reads all the
time should open a log of its own.
"""

import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic, sleep
from types import TracebackType
from typing import Self, TypeVar

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidRecordError,
    KafkaConnectionError,
    KafkaError,
    LeaderNotAvailableError,
    MessageSizeTooLargeError,
    NodeNotReadyError,
    NotCoordinatorError,
    NotLeaderForPartitionError,
    RecordListTooLargeError,
    UnknownBrokerIdError,
    UnknownTopicOrPartitionError,
    for_code,
)

from schemas.names import Place
from streams.errors import BadInput
from streams.log.connection_check import refuse_at_once
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_errors import translated_errors
from streams.log.kafka_reader import KafkaReader, OffsetRanges, RangeReader
from streams.log.leader_questions import EARLIEST, LATEST, LeaderQuestions
from streams.log.log_port import (
    MAX_RECORD_BYTES,
    LogEnd,
    NewRecord,
    Positions,
    Record,
    RecordsRefused,
    TopicAndPartition,
    require_key_or_value,
    size_of,
)

Answer = TypeVar("Answer")
DELIVERY_MS = 30_000
"""How long one append may take, broker restarts included."""
QUESTION_SECONDS = 5.0
"""For how long a question is asked again that found no connection."""
CLOSE_SECONDS = 1.0
"""For how long a producer's thread is waited for that was told to end, whatever it has not sent."""
COMPRESSION = "lz4"
"""How every producer but a worker's compresses."""
OVERHEAD = 64 << 10
"""Room for headers and framing in a request around the largest record."""
ALONE = 512 << 10  # bytes from which a record is sent alone; Kafka takes twice as much even of a topic that nobody has configured
NOT_YET = (
    NodeNotReadyError,
    KafkaConnectionError,
    CoordinatorNotAvailableError,
    CoordinatorLoadInProgressError,
    NotCoordinatorError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    UnknownBrokerIdError,
)
"""What Kafka or its client answers to a question while a broker starts, or has gone and the new leader is not known yet."""
NEVER = (MessageSizeTooLargeError, RecordListTooLargeError, InvalidRecordError)
"""What Kafka answers to a record that it will never take: too large, or without a key where the topic is compacted."""


class KafkaLog:
    """Connects when first used. Raises LogUnavailable with what to do when Kafka cannot be reached."""

    def __init__(self, where: KafkaConnection) -> None:
        self.where = where
        self._counts: dict[str, int] = {}
        self._opening = threading.Lock()
        self._producer: KafkaProducer | None = None
        self._admin: KafkaAdminClient | None = None
        self._leaders: LeaderQuestions | None = None
        self._reader = KafkaReader(where, self._offsets)
        self._range_reader = RangeReader(where, self._offsets)

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        """As the port says. After an error a part of the records may have been appended."""
        batch = list(records)
        for record in batch:
            require_key_or_value(record)
            self._check(record.topic, record.partition)
        doing = f"appending {len(batch)} records (a part of them may be in the log; a repeat does no harm)"
        with translated_errors(self.where, doing, right="Write", topics={r.topic for r in batch}):
            try:
                return self._send(batch)
            except KafkaError:
                self._drop_producer()
                raise

    def _send(self, batch: Sequence[NewRecord]) -> Sequence[Place]:
        places: dict[int, Place] = {}
        refused: dict[int, tuple[NewRecord, str]] = {}
        for part in _parts(batch):  # large records alone: a refusal may make the client drop everything else in flight
            self._send_part(batch, part, places, refused)
        if refused:
            raise RecordsRefused([refused[n] for n in sorted(refused)], [places.get(n) for n in range(len(batch))])
        return [places[n] for n in range(len(batch))]

    def _send_part(
        self,
        batch: Sequence[NewRecord],
        part: Sequence[int],
        places: dict[int, Place],
        refused: dict[int, tuple[NewRecord, str]],
    ) -> None:
        """Send these records of a batch together; if Kafka refuses one for good, send halves until that one is alone."""
        error = self._send_together(batch, part, places)
        if error is None:
            return
        self._drop_producer()
        unplaced = [n for n in part if n not in places]
        if len(unplaced) == 1:
            record = batch[unplaced[0]]
            refused[unplaced[0]] = record, f"it has {size_of(record)} bytes, and Kafka answers {type(error).__name__}"
            return
        self._send_part(batch, unplaced[: len(unplaced) // 2], places, refused)
        self._send_part(batch, unplaced[len(unplaced) // 2 :], places, refused)

    def _send_together(self, batch: Sequence[NewRecord], part: Sequence[int], places: dict[int, Place]) -> KafkaError | None:
        """Send these records of a batch and note the places of those that were accepted. Returns the refusal if there was one."""
        producer, errors = self._open_producer(), []
        sent = []
        for n in part:
            r = batch[n]
            try:
                future = producer.send(r.topic, key=r.key, value=r.value, headers=list(r.headers), partition=r.partition)
            except NEVER as error:
                errors.append(error)
            else:
                sent.append((n, future))
        until = monotonic() + DELIVERY_MS / 1000  # for all together: a frozen broker takes this long for each
        with suppress(KafkaError):  # it gives up on a split batch; each record's own future has its result
            producer.flush(DELIVERY_MS / 1000)
        for n, future in sent:
            try:
                metadata = future.get(max(0.0, until - monotonic()))
                places[n] = Place(batch[n].topic, batch[n].partition, metadata.offset)
            except KafkaError as error:
                errors.append(error)
        never = next((error for error in errors if isinstance(error, NEVER)), None)
        if errors and never is None:
            raise errors[0]
        return never

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        """As the port says."""
        for topic, partition in positions:
            self._check(topic, partition)
        with translated_errors(self.where, "reading", right="Read", topics={topic for topic, _ in positions}):
            return self._reader.poll(positions, until=monotonic() + wait, limit=limit)

    def read_ranges(self, ranges: OffsetRanges, containing: bytes = b"") -> Generator[Record, None, None]:
        """The records of these ranges, without most of those that lack the bytes `containing`: quick if few have them."""
        for topic, partition in ranges:
            self._check(topic, partition)
        with translated_errors(self.where, "reading", right="Read", topics={topic for topic, _ in ranges}):
            yield from self._range_reader.read(ranges, containing)

    def bounds(self, places: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], tuple[int, int]]:
        """The first kept offset of each partition, and the one after its last record; asked at once."""
        for topic, partition in places:
            self._check(topic, partition)
        with translated_errors(self.where, "asking for offsets", topics={topic for topic, _ in places}):
            begins, ends = self._offsets(places, EARLIEST), self._offsets(places, LATEST)
        return {place: (begins[place], ends[place]) for place in places}

    def ends(self, places: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], LogEnd]:
        """Where these partitions end, without those for which nobody answers now. Raises LogUnavailable if nobody does."""
        with translated_errors(self.where, "asking where partitions end", topics={topic for topic, _ in places}):
            return self._again(lambda: self._ask_leaders().ends(places)) if places else {}

    def offsets_taken_at(self, places: Collection[tuple[str, int]], at_ms: int) -> Mapping[tuple[str, int], int]:
        """The first offset appended at or after a time, in milliseconds, of the partitions that have one.

        Raises LogUnavailable if nobody answers for one of them.
        """
        with translated_errors(self.where, "asking for offsets by time", topics={topic for topic, _ in places}):
            return {place: offset for place, offset in self._offsets(places, at_ms).items() if offset >= 0} if places else {}

    def ends_of_epochs(self, epochs: Mapping[tuple[str, int], int]) -> Mapping[tuple[str, int], LogEnd]:
        """Where the log of each partition left this leader's epoch, without those for which nobody answers now.

        Raises LogUnavailable if nobody does.
        """
        with translated_errors(self.where, "asking where epochs of leaders ended", topics={topic for topic, _ in epochs}):
            return self._again(lambda: self._ask_leaders().ends_of_epochs(epochs)) if epochs else {}

    def held_by(self, group: str) -> Collection[tuple[str, int]] | None:
        """The partitions that the members of a consumer group hold now; None during a rebalance."""
        with translated_errors(self.where, f"asking who is in group '{group}'"):
            description = self._again(lambda: self._open_admin().describe_groups([group]))[group]
        members = description["members"]
        if any(not member["member_assignment"] for member in members):
            return None
        assigned = [assignment for member in members for assignment in member["member_assignment"]["assigned_partitions"]]
        return {(assignment["topic"], partition) for assignment in assigned for partition in assignment["partitions"]}

    def begin(self, topic: str, partition: int) -> int:
        """The first kept offset."""
        return self._offset(topic, partition, EARLIEST)

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record."""
        return self._offset(topic, partition, LATEST)

    def _offset(self, topic: str, partition: int, which: int) -> int:
        self._check(topic, partition)
        with translated_errors(self.where, f"asking for the offsets of {topic}:{partition}", topics=[topic]):
            return self._offsets([(topic, partition)], which)[topic, partition]

    def _offsets(self, places: Collection[TopicAndPartition], which: int) -> Mapping[TopicAndPartition, int]:
        return self._again(lambda: self._ask_leaders().offsets(places, which))

    @staticmethod
    def _again(ask: Callable[[], Answer]) -> Answer:
        """Ask again for a while where a broker that has just started cannot answer yet."""
        # The client does not notice at once that a broker is back; and the first question about a group makes Kafka create the
        # topic of its groups.
        until = monotonic() + QUESTION_SECONDS
        while True:
            try:
                return ask()
            except NOT_YET:
                if monotonic() > until:
                    raise
                sleep(0.1)

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has."""
        count = self._count(topic)
        if count is None:
            raise BadInput(f"there is no topic '{topic}' at Kafka '{self.where.brokers}'; make it with `ullage topics apply`")
        self._counts[topic] = count
        return count

    def _count(self, topic: str) -> int | None:
        with translated_errors(self.where, f"asking about topic '{topic}'", topics=[topic]):
            (answer,) = self._open_admin().describe_topics([topic])
            error = for_code(answer["error_code"])
            if error is UnknownTopicOrPartitionError:
                return None
            if answer["error_code"]:
                raise error([topic])
            return len(answer["partitions"])

    def _check(self, topic: str, partition: int) -> None:
        """Raises BadInput for a partition that does not exist; asks the broker only about topics that are new to it."""
        if 0 <= partition < self._counts.get(topic, 0):
            return
        count = self.partitions(topic)
        if not 0 <= partition < count:
            there = f"topic '{topic}' at Kafka '{self.where.brokers}' has the partitions 0 to {count - 1}"
            raise BadInput(f"{there}, not {partition}")

    def _open_admin(self) -> KafkaAdminClient:
        with self._opening:
            if self._admin is None:
                if self.where.secured:
                    refuse_at_once(self.where)
                self._admin = KafkaAdminClient(**self.where.options())
            return self._admin

    def _ask_leaders(self) -> LeaderQuestions:
        admin = self._open_admin()
        if self._leaders is None:
            self._leaders = LeaderQuestions(admin)
        return self._leaders

    def _open_producer(self) -> KafkaProducer:
        with self._opening:
            if self._producer is None:
                self._producer = KafkaProducer(**self.where.options(), **_PRODUCER)
            return self._producer

    def _drop_producer(self) -> None:
        # A producer that failed once may refuse everything afterwards, so the next append gets a new one.
        with self._opening:
            producer, self._producer = self._producer, None
        if producer is None:
            return
        sender = producer._sender  # noqa: SLF001  # `close` alone waits in vain for records that cannot be sent, and lets it run on
        sender.force_close()
        sender.join(CLOSE_SECONDS)
        with suppress(KafkaError):
            producer.close(timeout=0)

    def close(self) -> None:
        """Close all connections. Appended records are already safe."""
        self._reader.close()
        self._range_reader.close()
        self._drop_producer()
        with self._opening:
            admin, self._admin, self._leaders = self._admin, None, None
        if admin is not None:
            admin.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()


def _parts(batch: Sequence[NewRecord]) -> Iterator[list[int]]:
    """The positions in a batch: large records alone, and those between them together."""
    together: list[int] = []
    for n, record in enumerate(batch):
        if size_of(record) <= ALONE:
            together.append(n)
            continue
        if together:
            yield together
        together = []
        yield [n]
    if together:
        yield together


_PRODUCER: Mapping[str, object] = {
    "acks": "all",
    "enable_idempotence": True,
    "compression_type": COMPRESSION,
    "linger_ms": 100,  # sends a whole append together: with less, its first records would go alone; `flush` ends the waiting
    "batch_size": 256 << 10,
    "max_request_size": MAX_RECORD_BYTES + OVERHEAD,
    "max_block_ms": DELIVERY_MS,
    "delivery_timeout_ms": DELIVERY_MS,
    "allow_auto_create_topics": False,
    "metrics_enabled": False,  # nobody reads them, and they took a tenth of an append
}
