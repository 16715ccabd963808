"""The same records in Kafka in every way in which a log can have them: what its readers must be able to read.

Each kind stands in topics of its own. The records are written in halves, and between them the broker is started anew on its data,
so that each log has several leader epochs.
"""

import dataclasses
import itertools
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import NewTopic, OffsetSpec

from streams import clock_log
from streams.broker import Broker
from streams.clock_rules import TICK, ClockRecord
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import Record
from streams.topics import CLOCK, TOPICS, Topics
from tests.support import raw_batches

CODECS = (None, "gzip", "snappy", "lz4", "zstd")
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "0",
}
_AT_ONCE = 150
"""Records in one transaction, or in one batch of a codec, at most."""
Write = Callable[[str, Sequence[Record]], None]


def write_all(broker: Broker, records: Sequence[Record], *, partitions: int) -> Mapping[str, Topics]:
    """Write these records in each of the `KINDS`, starting the broker anew half-way. Gives the topics of each kind."""
    kinds = {name: Topics(f"kind-{name}", partitions) for name in KINDS}
    for name, topics in kinds.items():
        make(broker, topics, _COMPACTED if name == "compacted" else {})
    cuts = [0, len(records) // 2, len(records)]
    for begin, end in itertools.pairwise(cuts):
        if begin:
            broker.stop()
            broker.start()
        for name, topics in kinds.items():
            if name == "recreated" and begin:
                remove(broker, topics)
                make(broker, topics, {})
            KINDS[name](broker.bootstrap, [renamed(record, topics) for record in records[begin:end]])
    if "truncated" in kinds:
        delete_before(broker, kinds["truncated"], lambda begin, end: (begin + 2 * end) // 5)
    if "emptied" in kinds:
        delete_before(broker, kinds["emptied"], lambda _, end: end)
    if "compacted" in kinds:
        _wait_for_compaction(broker, kinds["compacted"])
    return kinds


def renamed(record: Record, topics: Topics) -> Record:
    """The record in the topic of the same short name, with the places in it there."""
    before, after = f'"{Topics(partitions=topics.partitions).prefix}.'.encode(), f'"{topics.prefix}.'.encode()
    headers = tuple((name, value.replace(before, after)) for name, value in record.headers)
    value = record.value and record.value.replace(before, after)
    return Record(topics.wire(record.topic), record.partition, record.offset, record.key, value, headers)


def make(broker: Broker, topics: Topics, configs: Mapping[str, str]) -> None:
    """The topics of the product, with settings of a kind's own."""
    made = [
        NewTopic(topics.wire(topic.name), topics.count(topic.name), 1, topic_configs={**dict(topic.configs()), **configs})
        for topic in TOPICS
    ]
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics(made, wait_for_metadata=True)


def remove(broker: Broker, topics: Topics) -> None:
    """Delete the topics, and wait until their names are free."""
    names = {topics.wire(topic.name) for topic in TOPICS}
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.delete_topics(sorted(names))
        while names & set(admin.list_topics()):
            time.sleep(0.1)


def delete_before(broker: Broker, topics: Topics, cut: Callable[[int, int], int]) -> None:
    """Make retention take what stands before the offset that `cut` chooses between the begin and the end of each partition.

    Kafka does so in topics of which nothing is kept for ever.
    """
    kept = [topic for topic in TOPICS if "delete" in dict(topic.configs())["cleanup.policy"]]
    places = [TopicPartition(topics.wire(topic.name), p) for topic in kept for p in range(topics.count(topic.name))]
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        begins, ends = (
            admin.list_partition_offsets(dict.fromkeys(places, which)) for which in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        )
        admin.delete_records({tp: cut(begins[tp].offset, ends[tp].offset) for tp in places if ends[tp].offset})


def _wait_for_compaction(broker: Broker, topics: Topics) -> None:
    """Until the cleaner has taken ticks, which have one key, from the middle of the clock. It looks once a second."""
    place, until = clock_log.place(topics), time.monotonic() + 60
    while time.monotonic() < until:
        with KafkaLog(KafkaConnection(broker.bootstrap)) as log:
            if len(log.poll({place: 0}, limit=1_000_000)) < log.end(*place) - 1:
                return
        time.sleep(0.5)
    raise TimeoutError(f"after a minute {place} is not compacted yet")


def _producer(address: str, **options: object) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=address, acks="all", max_request_size=9 << 20, linger_ms=20, **options)


def _send(producer: KafkaProducer, records: Sequence[Record]) -> Sequence[int]:
    """Write these, but for what has neither key nor value; the offsets that they were given."""
    sent = [
        producer.send(r.topic, key=r.key, value=r.value, headers=list(r.headers), partition=r.partition)
        for r in records
        if r.key is not None or r.value is not None
    ]
    producer.flush()
    return [each.get(30).offset for each in sent]


class _Moved:
    """Writes records at other offsets than they had; then ticks have to say other ends, as after an import."""

    def __init__(self) -> None:
        self._offsets: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        """Of each partition, the offsets that its records had and have."""

    def send(self, producer: KafkaProducer, records: Sequence[Record]) -> None:
        """Write these; each tick once it is known where all before it stands."""
        ticks = [record for record in records if record.key == TICK]
        others = [record for record in records if record.key != TICK and (record.key is not None or record.value is not None)]
        for record, offset in zip(others, _send(producer, others), strict=True):
            self._offsets[record.topic, record.partition].append((record.offset, offset))
        for record in ticks:
            (offset,) = _send(producer, [self._tick(record)])
            self._offsets[record.topic, record.partition].append((record.offset, offset))

    def _tick(self, record: Record) -> Record:
        tick = ClockRecord.decode(record)
        assert tick is not None
        prefix = record.topic.removesuffix(Topics().wire(CLOCK).removeprefix(Topics().prefix))
        ends = {(name, p): self._end((Topics(prefix).wire(name), p), end) for (name, p), end in tick.ends.items()}
        place = record.topic, record.partition
        after = tick.after and (self._end(place, tick.after[0] + 1) - 1, tick.after[1])
        return dataclasses.replace(record, value=dataclasses.replace(tick, ends=ends, after=after).encode(record.topic).value)

    def _end(self, place: tuple[str, int], end: int) -> int:
        before = bisect_left(self._offsets[place], (end, -1))
        return self._offsets[place][before - 1][1] + 1 if before else 0


_MOVED = _Moved()


def _parts(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    return (records[at : at + _AT_ONCE] for at in range(0, len(records), _AT_ONCE))


def _idempotent(address: str, records: Sequence[Record]) -> None:
    with closing(_producer(address, enable_idempotence=True, compression_type="lz4")) as producer:
        _send(producer, records)


def _codecs(address: str, records: Sequence[Record]) -> None:
    for number, part in enumerate(_parts(records)):
        with closing(_producer(address, enable_idempotence=False, compression_type=CODECS[number % len(CODECS)])) as producer:
            _send(producer, part)


def _transactions(address: str, records: Sequence[Record]) -> None:
    """As a copying tool writes with exactly-once. Each partition ends with the end of a transaction.

    What was aborted is there for every reader of ours; here these are ticks that come again, and a stranger in each partition.
    """
    with closing(_producer(address, transactional_id=f"copier {records[0].topic if records else ''}")) as producer:
        producer.init_transactions()
        for part in _parts(records):
            producer.begin_transaction()
            _MOVED.send(producer, part)
            producer.commit_transaction()
            producer.begin_transaction()
            _send(producer, [record for record in part if record.key == TICK][-2:])
            _send(producer, [Record(*place, -1, b"stranger", b"", ()) for place in {(r.topic, r.partition) for r in part}])
            producer.abort_transaction()


def _foreign(address: str, records: Sequence[Record]) -> None:
    """Among our records some of others: without key, value, headers or any of them, and what is no text."""
    for part in _parts(records):
        for topic, partition in {(record.topic, record.partition): None for record in part}:
            whole, keyed = (_batch([stranger for stranger in STRANGERS if stranger[0] is not None or all_]) for all_ in (1, 0))
            if raw_batches.produce(address, topic, partition, whole):  # a compacted topic takes none without a key
                assert not raw_batches.produce(address, topic, partition, keyed)
        with closing(_producer(address, enable_idempotence=True)) as producer:
            _MOVED.send(producer, part)


STRANGERS: Sequence[tuple[bytes | None, bytes | None, Sequence[raw_batches.Header]]] = (
    (None, b"no key", []),
    (None, None, [(b"x", None)]),
    (b"no value", None, []),
    (b"", b"", [(b"", b"")]),
    (b"\xff", b"\x00\xff{", [(b"ce_id", None), (b"ce_type", b"\xff"), (b"\xfe", b"")]),
    (b"tick", None, [(b"ce_type", None)]),
    (b"tick", b"no number", []),
)


def _batch(strangers: Sequence[tuple[bytes | None, bytes | None, Sequence[raw_batches.Header]]]) -> bytes:
    packed = b"".join(raw_batches.record(n, key, value, headers) for n, (key, value, headers) in enumerate(strangers))
    return raw_batches.batch(packed, 0, len(strangers))


def _with_key(address: str, records: Sequence[Record]) -> None:
    """A compacted topic takes no others. A moment passes after each part, so that segments end and can be compacted."""
    for part in _parts(records):
        _idempotent(address, [record for record in part if record.key is not None])


def _nothing(address: str, records: Sequence[Record]) -> None:
    """The topics stay as they were made."""


KINDS: Mapping[str, Write] = {
    "idempotent": _idempotent,
    "codecs": _codecs,
    "transactions": _transactions,
    "foreign": _foreign,
    "compacted": _with_key,
    "truncated": _idempotent,
    "emptied": _transactions,
    "empty": _nothing,
    "recreated": _idempotent,
    "moving": _idempotent,
}
WHOLE = ("idempotent", "codecs", "transactions", "foreign")
"""Kinds that have all records, so that what is made of them is the same."""
