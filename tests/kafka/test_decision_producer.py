"""The producer of decisions on a real Kafka: what was queued before the end is in the log after it."""

import asyncio
import random
from collections.abc import Callable
from contextlib import closing

import orjson
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from kafka import KafkaAdminClient

from agents.app import kafka_client_options, supervision, topic_check
from agents.app.checkpoint_writer import ChangelogProducer
from agents.app.decision_producer import DecisionProducer
from agents.app.topic_check import FRAME, RecordBounds
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.topics import Topics
from tests.support.log_conformance import read_all


def test_stopping_waits_for_everything_that_was_queued(
    broker: str, topics_made: Callable[..., Topics], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raised(error: BaseException, **_where: object) -> None:
        raise error

    monkeypatch.setattr(supervision, "end", raised)
    wire = topics_made(partitions=1).wire("recommendations")

    async def queue_and_stop() -> list[bool]:
        producer = DecisionProducer(KafkaConnection(broker), RecordBounds(Topics()))
        await producer.start()
        durable = [producer.send_soon([NewRecord(wire, 0, b"k", b"%d" % n)] * 100) for n in range(50)]
        await producer.stop()
        return [future.done() for future in durable]

    assert asyncio.run(queue_and_stop()) == [True] * 50
    with KafkaLog(KafkaConnection(broker)) as log:
        assert log.end(wire, 0) == 50 * 100


def test_decisions_and_checkpoints_lie_compressed_in_the_log(broker: str, topics_made: Callable[..., Topics]) -> None:
    topics, where = topics_made(partitions=1), KafkaConnection(broker)
    decisions, chunks = topics.wire("recommendations"), topics.wire("shadow-recommendations")
    value = b'{"workload":"shop/web","cpu":0.126,"memory":628694953}' * 2_000

    async def send() -> None:
        producer, changelog = DecisionProducer(where, RecordBounds(topics)), ChangelogProducer(where)
        await producer.start()
        await changelog.start()
        producer.send_soon([NewRecord(decisions, 0, b"k", value)])
        await changelog.write(chunks, 0, (b"k", value))
        await producer.stop()
        await changelog.stop()

    asyncio.run(send())
    with KafkaLog(where) as log:
        assert [record.value for wire in (decisions, chunks) for record in read_all(log, wire, 0)] == [value, value]
    with closing(KafkaAdminClient(**where.options())) as admin:
        sizes = {
            topic["name"]: partition["partition_size"]
            for node in admin.describe_log_dirs()
            for folder in node["log_dirs"]
            for topic in folder["topics"]
            for partition in topic["partitions"]
        }
    assert 0 < sizes[decisions] < len(value) / 4
    assert 0 < sizes[chunks] < len(value) / 4


def test_a_decision_that_its_topic_never_takes_is_set_aside_and_the_others_go_on(
    broker: str, topics_made: Callable[..., Topics]
) -> None:
    topics = topics_made(partitions=1)
    wire, where = topics.wire("recommendations"), KafkaConnection(broker)

    async def send() -> None:
        admin = AIOKafkaAdminClient(**kafka_client_options.options(where))
        await admin.start()
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, wire, {"max.message.bytes": "20000"})])
        bounds = RecordBounds(topics)
        while bounds.most(wire) != 20_000 - FRAME:  # the broker takes a moment until it says so
            bounds.learn(await topic_check.ask(admin, [wire, topics.wire("dead-letters")]))
        await admin.close()
        producer = DecisionProducer(where, bounds)
        await producer.start()
        sizes = [10, 18_000, 18_900, 19_100, 500_000, 20]
        noise = random.Random(1).randbytes(max(sizes))
        producer.send_soon([NewRecord(wire, 0, b"k", noise[:size], (("ce_id", b"%d" % size),)) for size in sizes])
        await producer.stop()

    asyncio.run(send())
    with KafkaLog(where) as log:
        assert [len(r.value or b"") for r in read_all(log, wire, 0)] == [10, 18_000, 18_900, 20]
        letters = [orjson.loads(r.value or b"") for r in read_all(log, topics.wire("dead-letters"), 0)]
        assert [letter["value"]["size"] for letter in letters] == [19_100, 500_000]
