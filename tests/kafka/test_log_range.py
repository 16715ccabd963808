"""Stretches, exports and views of a real Kafka are those of the same records anywhere else."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Amounts, Workload
from schemas.units import Bytes, Cores
from streams import log_range
from streams.admin import topic_admin
from streams.clock_rules import ClockRecord
from streams.codec.event_codec import Codec
from streams.decision_view import DecisionView
from streams.log.file_log import FileLog
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.topics import Topics, TopicSpec

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = 1_767_225_600_000


@pytest.fixture
def log(broker: str) -> Iterator[KafkaLog]:
    with KafkaLog(KafkaConnection(broker)) as log:
        yield log


@pytest.fixture
def client(broker: str) -> Iterator[KafkaAdminClient]:
    with topic_admin.connect(KafkaConnection(broker)) as client:
        yield client


def recorded(topic: str, partitions: int) -> list[NewRecord]:
    """Ten ticks and ten records in each partition, the records of partition p a little late by p."""
    records = []
    for n in range(10):
        for p in range(partitions):
            at = (START + timedelta(seconds=n, milliseconds=100 * p)).isoformat().encode()
            records.append(NewRecord(topic, p, b"k", f"{p}.{n}".encode(), (("ce_time", at),)))
            records.append(replace(ClockRecord(START_MS + 1000 * (n + 1), "name", None, {}).encode(topic), partition=p))
    return records


def plain(records: Iterator[Record]) -> list[tuple[str, int, int, bytes | None, bytes | None]]:
    return [(r.topic, r.partition, r.offset, r.key, r.value) for r in records]


def test_a_merged_stretch_of_kafka_equals_that_of_the_memory(log: KafkaLog, client: KafkaAdminClient, prefix: str) -> None:
    names = [f"{prefix}.one", f"{prefix}.two"]
    topic_admin.apply(client, topic_admin.plan(client, [TopicSpec(name, 3, {}) for name in names]))
    memory = MemoryLog()
    for name in names:
        memory.create(name, 3)
        log.append(recorded(name, 3))
        memory.append(recorded(name, 3))
    found = plain(log_range.read_range(log, names, merged=True))
    assert len(found) == 2 * 3 * 20
    assert found == plain(log_range.read_range(memory, names, merged=True))
    since, until = START + timedelta(seconds=3), START + timedelta(seconds=5)
    part = plain(log_range.read_range(log, names, since=since, until=until))
    assert part == plain(log_range.read_range(memory, names, since=since, until=until))
    assert len(part) == 2 * 3 * 4  # two ticks and two records of each partition


def test_an_export_of_kafka_keeps_places_and_times_also_after_retention(
    log: KafkaLog, client: KafkaAdminClient, prefix: str, tmp_path: Path
) -> None:
    name = f"{prefix}.exported"
    topic_admin.apply(client, topic_admin.plan(client, [TopicSpec(name, 2, {})]))
    log.append(recorded(name, 2))
    client.delete_records({TopicPartition(name, 1): 7})
    with FileLog.open_or_create(tmp_path / "incident.jsonl") as file:
        assert log_range.copy_range(log, file, [name]) == {name: 20 + 13}
        assert list(log_range.read_range(file, [name])) == list(log_range.read_range(log, [name]))
        assert file.begin(name, 1) == 7


def test_a_stretch_ends_where_the_last_offsets_are_no_records(
    broker: str, log: KafkaLog, client: KafkaAdminClient, prefix: str
) -> None:
    name = f"{prefix}.transactional"
    topic_admin.apply(client, topic_admin.plan(client, [TopicSpec(name, 1, {})]))
    producer = KafkaProducer(bootstrap_servers=broker, transactional_id=prefix, acks="all")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(name, key=b"k", value=b"v", partition=0)
    producer.commit_transaction()
    producer.close()
    until = time.monotonic() + 60
    while log.end(name, 0) < 2 and time.monotonic() < until:  # the broker writes the mark after it has answered
        time.sleep(0.05)
    assert log.end(name, 0) == 2  # the record, and the mark of the transaction, which no reader sees
    assert plain(log_range.read_range(log, [name])) == [(name, 0, 0, b"k", b"v")]
    assert list(log.poll({(name, 0): 1})) == []


def test_a_view_of_kafka_shows_the_newest_turn(log: KafkaLog, client: KafkaAdminClient, prefix: str) -> None:
    topics = Topics(prefix, 2)
    topic_admin.apply(client, topic_admin.plan(client, topics.specs()))
    web = Workload("demo", "shop", "Deployment", "web")
    coded = Codec(topics)

    def decided(turn: int) -> NewRecord:
        containers = (ContainerRecommendation("main", *[Amounts(Cores(0.1), Bytes(1))] * 4),)
        event = RequestsRecommended(f"recommender/0/{turn}/requests/{web.key}", START, web, containers, {})
        return coded.encode(event, topic="recommendations", key=web.key, partition=0, source="/ullage/recommender/0")

    view = DecisionView(log, coded, topics.wire("recommendations"))
    assert view.catch_up() == 0
    log.append([decided(5), decided(9), decided(7)])
    assert view.catch_up() == 3
    assert [(key, seen.turn, seen.place.offset) for key, seen in view.items()] == [(web.key, 9, 1)]


def test_an_iteration_over_ranges_goes_on_beside_another_one(log: KafkaLog, client: KafkaAdminClient, prefix: str) -> None:
    topic = f"{prefix}.nested"
    topic_admin.apply(client, topic_admin.plan(client, [TopicSpec(topic, 2, {})]))
    log.append([NewRecord(topic, n % 2, b"k", b"%d" % n) for n in range(12_000)])
    ranges = {(topic, p): (0, 6_000) for p in range(2)}
    outer, inner = 0, 0
    for record in log.read_ranges(ranges):
        if outer % 4_000 == 0:
            inner += sum(1 for _ in log.read_ranges({(topic, record.partition): (0, 6_000)}))
        outer += 1
    assert (outer, inner) == (12_000, 18_000)
