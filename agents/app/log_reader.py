"""Reads the log beside Faust: no group, no rebalance, exact offsets.

For what Faust's consumer cannot promise: the whole of a changelog, the records it skipped, where a topic begins and ends.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from agents.app import kafka_client_options
from streams.log.connection import Connection

Place = tuple[str, int]
FETCH = 8 << 20


@asynccontextmanager
async def reader(where: Connection) -> AsyncIterator[Any]:
    """A consumer of its own. An offset that the log no longer has raises OffsetOutOfRangeError."""
    consumer = AIOKafkaConsumer(
        **kafka_client_options.options(where),
        group_id=None,
        auto_offset_reset="none",
        enable_auto_commit=False,
        max_partition_fetch_bytes=FETCH,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def ends(consumer: Any, places: Iterable[Place]) -> dict[Place, int]:
    """The offset after the last record of each."""
    return await _offsets(consumer.end_offsets, places)


async def begins(consumer: Any, places: Iterable[Place]) -> dict[Place, int]:
    """The first kept offset of each."""
    return await _offsets(consumer.beginning_offsets, places)


async def _offsets(
    ask: Callable[[list[TopicPartition]], Awaitable[Mapping[Any, int]]], places: Iterable[Place]
) -> dict[Place, int]:
    """Topic by topic at the same time: a client that does not know a topic yet waits a tenth of a second for each."""
    topics: dict[str, list[TopicPartition]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(TopicPartition(topic, partition))
    answers = await asyncio.gather(*(ask(tps) for tps in topics.values()))
    return {(tp.topic, tp.partition): offset for answer in answers for tp, offset in answer.items()}


@dataclass(slots=True)
class Contents:
    """The last record of each key of a changelog partition, up to `end`."""

    last: dict[bytes, bytes | None]
    end: int


async def contents(consumer: Any, until: Mapping[Place, int]) -> dict[Place, Contents]:
    """Read each of these partitions from its beginning up to the given end."""
    found = {place: Contents({}, end) for place, end in until.items()}
    left = {TopicPartition(*place) for place, end in until.items() if end}
    consumer.assign([TopicPartition(*place) for place in until])
    first = await begins(consumer, until)
    for place, offset in first.items():
        consumer.seek(TopicPartition(*place), offset)
    while left := {tp for tp in left if await consumer.position(tp) < until[tp.topic, tp.partition]}:
        for tp, records in (await consumer.getmany(*left, timeout_ms=1000)).items():
            found[tp.topic, tp.partition].last.update((r.key, r.value) for r in records)
    return found


async def committed(where: Connection, group: str, places: Iterable[Place]) -> dict[Place, int]:
    """The group's offsets of these, where it has any."""
    admin = AIOKafkaAdminClient(**kafka_client_options.options(where))
    await admin.start()
    try:
        found = await admin.list_consumer_group_offsets(group, partitions=[TopicPartition(*place) for place in places])
    finally:
        await admin.close()
    return {(tp.topic, tp.partition): at.offset for tp, at in found.items() if at.offset >= 0}
