"""The log in a real Kafka is a log; and what is said when Kafka is not there or refuses."""

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic
from kafka.producer.future import FutureRecordMetadata

from streams.broker import Broker
from streams.errors import LogUnavailable
from streams.log import kafka_log
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import Log, NewRecord, Record, RecordsRefused
from tests.support.log_conformance import Conformance, World, read_all


@pytest.fixture(scope="module")
def admin(broker: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=broker)
    yield admin
    admin.close()


@pytest.fixture(scope="module")
def shared(broker: str) -> Iterator[KafkaLog]:
    with KafkaLog(KafkaConnection(broker)) as log:
        yield log


class KafkaWorld(World):
    def __init__(self, log: KafkaLog, admin: KafkaAdminClient, prefix: str) -> None:
        self.log, self.admin = log, admin
        self.wide, self.narrow = f"{prefix}.wide", f"{prefix}.narrow"
        configs = {"max.message.bytes": str(8 << 20)}
        made = [NewTopic(self.wide, 3, 1, topic_configs=configs), NewTopic(self.narrow, 1, 1, topic_configs=configs)]
        admin.create_topics(made, wait_for_metadata=True)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        self.admin.delete_records({TopicPartition(topic, partition): offset})

    def another(self) -> Log:
        return KafkaLog(self.log.where)


class TestKafkaLog(Conformance):
    @pytest.fixture
    def world(self, shared: KafkaLog, admin: KafkaAdminClient, prefix: str) -> KafkaWorld:
        return KafkaWorld(shared, admin, prefix)

    def test_a_record_of_seven_megabytes_fits(self, world: KafkaWorld) -> None:
        big = bytes(7 << 20)
        world.log.append([NewRecord(world.narrow, 0, b"big", big)])
        assert [r.value for r in read_all(world.log, world.narrow, 0)] == [big]

    def test_kafka_says_when_it_took_a_record(self, world: KafkaWorld) -> None:
        world.log.append([NewRecord(world.narrow, 0, b"k", b"v")])
        (record,) = world.log.poll({(world.narrow, 0): 0})
        assert record.timestamp_ms > 1_700_000_000_000

    def test_kafka_says_where_partitions_were_at_a_time(self, world: KafkaWorld) -> None:
        assert isinstance(world.log, KafkaLog)
        world.log.append([NewRecord(world.wide, 0, b"k", b"v"), NewRecord(world.wide, 1, b"k", b"v")])
        first, last = (world.log.poll({(world.wide, 0): 0}, limit=1)[0].timestamp_ms for _ in range(2))
        while last == first:
            world.log.append([NewRecord(world.wide, 0, b"k", b"v")])
            last = read_all(world.log, world.wide, 0)[-1].timestamp_ms
        times = [record.timestamp_ms for record in read_all(world.log, world.wide, 0)]
        places = [(world.wide, partition) for partition in range(3)]
        assert world.log.offsets_taken_at(places, first - 60_000) == {(world.wide, 0): 0, (world.wide, 1): 0}
        assert world.log.offsets_taken_at(places, last)[world.wide, 0] == sum(time < last for time in times)
        assert world.log.offsets_taken_at(places, last + 60_000) == {}

    def test_ranges_come_from_all_partitions_at_once(self, world: KafkaWorld) -> None:
        for number in range(40):
            world.log.append([NewRecord(world.wide, p, b"tick", b"%d" % number) for p in range(2)])
            if number % 10 == 9:
                world.log.append([NewRecord(world.wide, p, b"k", b"%d" % number, (("h", b"x"),)) for p in range(2)])
        assert isinstance(world.log, KafkaLog)
        ranges = {(world.wide, 0): (5, 43), (world.wide, 1): (0, 44), (world.wide, 2): (0, 0)}
        found = list(world.log.read_ranges(ranges))
        assert [r.offset for r in found if r.partition == 0] == list(range(5, 43))
        assert [r.offset for r in found if r.partition == 1] == list(range(44))
        kept = sorted((r.partition, r.value) for r in found if r.key == b"k")
        assert kept == [(0, b"19"), (0, b"29"), (0, b"9"), (1, b"19"), (1, b"29"), (1, b"39"), (1, b"9")]
        assert {r.headers for r in found if r.key == b"k"} == {(("h", b"x"),)}

    def test_ranges_come_without_what_does_not_hold_certain_bytes(self, world: KafkaWorld) -> None:
        world.log.append([NewRecord(world.wide, n % 2, b"k", b'{"name":"web-%d"}' % n) for n in range(1_000)])
        assert isinstance(world.log, KafkaLog)
        ranges = {(world.wide, p): (0, world.log.end(world.wide, p)) for p in range(2)}
        found = list(world.log.read_ranges(ranges, b'web-7"'))
        assert [each.value for each in found] == [b'{"name":"web-7"}']
        assert len(list(world.log.read_ranges(ranges))) == 1_000

    def test_a_range_that_begins_where_another_was_left_comes_whole(self, world: KafkaWorld) -> None:
        world.log.append([NewRecord(world.narrow, 0, b"k", b"a" if n % 2 else b"b") for n in range(14_000)])
        assert isinstance(world.log, KafkaLog)
        begun = world.log.read_ranges({(world.narrow, 0): (0, 14_000)}, b"a")
        next(begun)
        (consumer,) = world.log._range_reader._consumers
        left = consumer.position(TopicPartition(world.narrow, 0))
        begun.close()  # so that the next iteration has the same consumer
        found = list(world.log.read_ranges({(world.narrow, 0): (left, 14_000)}))
        assert [each.offset for each in found] == list(range(left, 14_000))
        assert world.log._range_reader._consumers == [consumer]

    def test_a_record_that_the_topic_refuses_is_told_and_what_stands_around_it_is_appended_once(
        self, world: KafkaWorld, admin: KafkaAdminClient, prefix: str
    ) -> None:
        small = f"{prefix}.small"
        admin.create_topics([NewTopic(small, 1, 1, topic_configs={"max.message.bytes": "1000"})], wait_for_metadata=True)
        noise = random.Random(1).randbytes(50_000)  # compression does not make it fit
        around = [NewRecord(small, 0, b"k", str(n).encode()) for n in range(400)]  # more than one batch of what the topic takes
        with pytest.raises(RecordsRefused, match=r"it has 50001 bytes, and Kafka answers MessageSizeTooLargeError") as caught:
            world.log.append([*around[:200], NewRecord(small, 0, b"k", noise), *around[200:]])
        assert [place is None for place in caught.value.places] == [False] * 200 + [True] + [False] * 200
        (place,) = world.log.append([NewRecord(small, 0, b"k", b"v")])
        assert place.offset == 400
        assert [r.value for r in read_all(world.log, small, 0)] == [*(r.value for r in around), b"v"]

    def test_a_record_without_a_key_in_a_compacted_topic_is_told(
        self, world: KafkaWorld, admin: KafkaAdminClient, prefix: str
    ) -> None:
        compacted = f"{prefix}.compacted"
        admin.create_topics([NewTopic(compacted, 1, 1, topic_configs={"cleanup.policy": "compact"})], wait_for_metadata=True)
        good = [NewRecord(compacted, 0, b"k", str(n).encode()) for n in range(2)]
        with pytest.raises(RecordsRefused, match="Kafka answers InvalidRecordError"):
            world.log.append([good[0], NewRecord(compacted, 0, None, b"v"), good[1]])
        assert [r.value for r in read_all(world.log, compacted, 0)] == [b"0", b"1"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.append([NewRecord("t", 0, b"k", b"v")]),
        lambda log: log.poll({("t", 0): 0}),
        lambda log: log.end("t", 0),
    ],
    ids=["append", "poll", "end"],
)
def test_a_broker_that_is_not_there_is_told_with_what_to_do(
    ask: Callable[[KafkaLog], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.log.kafka_connection.BOOTSTRAP_MS", 300)
    with socket.socket() as nobody:  # bound but not listening: the port is ours, and refuses
        nobody.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{nobody.getsockname()[1]}"
        with (
            KafkaLog(KafkaConnection(where)) as log,
            pytest.raises(LogUnavailable, match=rf"at Kafka '{where}' did not work: .*Start one with `ullage broker`"),
        ):
            ask(log)


def test_an_append_and_a_poll_live_through_the_death_of_the_broker(
    broker: str, embedded: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    longer = {"max_block_ms": 240_000, "delivery_timeout_ms": 240_000}  # on a busy machine a broker takes a minute to start
    monkeypatch.setattr(kafka_log, "DELIVERY_MS", 240_000)
    monkeypatch.setattr(kafka_log, "_PRODUCER", {**kafka_log._PRODUCER, **longer})
    topic = f"{prefix}.lives"
    with KafkaAdminClient(bootstrap_servers=broker) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)], wait_for_metadata=True)
    with KafkaLog(KafkaConnection(broker)) as log:
        log.append([NewRecord(topic, 0, b"k", b"before")])
        assert [r.value for r in log.poll({(topic, 0): 0})] == [b"before"]
        embedded.kill()
        found: list[Record] = []
        reader = threading.Thread(target=lambda: found.extend(log.poll({(topic, 0): 1}, wait=240)))
        starter = threading.Thread(target=embedded.start)
        reader.start()
        starter.start()
        log.append([NewRecord(topic, 0, b"k", b"after")])
        reader.join()
        starter.join()
        assert [r.value for r in found][:1] == [b"after"]
        assert {r.value for r in read_all(log, topic, 0)} == {b"before", b"after"}


def _is_stopped(pid: int) -> bool:
    """Whether each thread of a process stands still."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def test_an_append_to_a_frozen_broker_ends_in_its_time_and_leaves_no_producer_behind(
    embedded: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_log, "DELIVERY_MS", 500)
    waited: list[float] = []
    get = FutureRecordMetadata.get

    def noted(future: FutureRecordMetadata, timeout: float) -> object:
        waited.append(timeout)
        return get(future, timeout)

    monkeypatch.setattr(FutureRecordMetadata, "get", noted)
    topic = f"{prefix}.frozen"
    with KafkaAdminClient(bootstrap_servers=embedded.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 4, 1)], wait_for_metadata=True)
    records = [NewRecord(topic, partition, b"k", b"v") for partition in range(4)]
    with KafkaLog(KafkaConnection(embedded.bootstrap)) as log:
        log.append(records)
        producer = log._producer
        assert producer is not None
        waited.clear()
        os.kill(embedded.pid, signal.SIGSTOP)
        try:
            while not _is_stopped(embedded.pid):  # a thread that is at work stops when it looks at the signal
                time.sleep(0.01)
            with pytest.raises(LogUnavailable):
                log.append(records)
            assert sum(waited) <= 0.5  # of all records together, not of each
            assert not producer._sender.is_alive()  # it would go on trying, and send them when nobody waits any more
        finally:
            os.kill(embedded.pid, signal.SIGCONT)
        monkeypatch.undo()  # a broker that was just woken has its usual time
        assert len(log.append(records)) == 4
