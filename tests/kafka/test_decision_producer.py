"""The producer of decisions on a real Kafka: what was queued before the end is in the log after it."""

import asyncio
from collections.abc import Callable

import pytest

from agents.app import supervision
from agents.app.decision_producer import DecisionProducer
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.port import NewRecord
from streams.topics import Topics


def test_stopping_waits_for_everything_that_was_queued(
    broker: str, topics_made: Callable[..., Topics], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raised(error: BaseException, **_where: object) -> None:
        raise error

    monkeypatch.setattr(supervision, "end", raised)
    wire = topics_made(partitions=1).wire("recommendations")

    async def queue_and_stop() -> list[bool]:
        producer = DecisionProducer(KafkaConnection(broker))
        await producer.start()
        durable = [producer.send_soon([NewRecord(wire, 0, b"k", b"%d" % n)] * 100) for n in range(50)]
        await producer.stop()
        return [future.done() for future in durable]

    assert asyncio.run(queue_and_stop()) == [True] * 50
    with KafkaLog(KafkaConnection(broker)) as log:
        assert log.end(wire, 0) == 50 * 100
