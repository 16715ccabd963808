"""Fetches from topics with two copies, on two real brokers."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from kafka import KafkaAdminClient

from agents.app import faust_consumer
from streams.broker import Broker, BrokerSettings, JarsUnavailable
from streams.codec import event_codec
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from tests.support.joining_broker import JoiningBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SETTINGS = BrokerSettings(heap_mb=256, quick=True, start_timeout=120.0)
PLACES = tuple(TopicPartition(f"input{n}", p) for n in range(6) for p in range(4))
PATIENCE = 30.0
"""Seconds in which a tick must come. A fetch that waits for more than has come waits twice as long here."""


@pytest.fixture
def two_brokers() -> Iterator[str]:
    """The address of the first; the topics have a copy on each."""
    try:
        with Broker(SETTINGS) as first, JoiningBroker(SETTINGS, first):
            admin = KafkaAdminClient(bootstrap_servers=first.bootstrap)
            names = {place.topic for place in PLACES}
            admin.create_topics({name: {"num_partitions": 4, "replication_factor": 2, "configs": {}} for name in names})
            admin.close()
            yield first.bootstrap
    except JarsUnavailable as error:
        pytest.skip(str(error))


class Reader:
    """Reads all places as a worker does, and knows the newest tick of each."""

    def __init__(self, broker: str) -> None:
        self.consumer = AIOKafkaConsumer(bootstrap_servers=broker, group_id=None, enable_auto_commit=False)
        self.consumer._fetch_max_wait_ms = faust_consumer.WAIT_MS
        self.ticks, self.newest = faust_consumer.FetchedTicks(), dict.fromkeys(PLACES, -1)

    async def begin(self) -> None:
        await self.consumer.start()
        self.consumer.assign(PLACES)
        for place in PLACES:
            self.consumer.seek(place, 0)
        fetcher: Any = self.consumer._fetcher
        faust_consumer.wait_longer_for_all(fetcher, tuple, self.ticks)
        faust_consumer.ask_nothing_while_fetching(fetcher)

    async def until(self, number: int) -> None:
        """Read until this tick has come everywhere."""
        while set(self.newest.values()) != {number}:
            fetched = await self.consumer.getmany(timeout_ms=1000)
            self.ticks.take(fetched)
            for place, records in fetched.items():
                self.newest[place] = max(self.newest[place], *(event_codec.tick_number(record) or -1 for record in records))


def test_a_tick_of_topics_with_copies_is_waited_for_no_longer_than_it_takes(
    two_brokers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faust_consumer, "WHOLE_WAIT_MS", int(2000 * PATIENCE))
    log = KafkaLog(KafkaConnection(two_brokers))

    async def follow(numbers: Sequence[int]) -> None:
        reader = Reader(two_brokers)
        await reader.begin()
        try:
            for number in numbers:
                await asyncio.to_thread(log.append, [event_codec.tick(*place, number) for place in PLACES])
                await asyncio.wait_for(reader.until(number), PATIENCE)
        finally:
            await reader.consumer.stop()

    try:
        asyncio.run(follow(range(500, 500 * 201, 500)))
    finally:
        log.close()
