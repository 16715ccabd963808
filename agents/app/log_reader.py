"""Reads the log beside Faust: no group, no rebalance, exact offsets.

It reads what Faust's consumer cannot deliver reliably: a whole changelog, the records that Faust skipped, and where a topic
begins and ends.

Faust sometimes delivers a record that is not the next one. Either Faust jumped (it does so around prefetching, pauses and
rebalances) or the log has a hole (compaction). `read_stretch` reads the stretch in between and so answers both cases without a
seek, and nothing that Faust has prefetched can interfere.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import OffsetOutOfRangeError

from agents.app import kafka_client_options
from streams.log.kafka_connection import KafkaConnection
from streams.log.log_port import Record, TopicAndPartition

FETCH = 8 << 20
"""Bytes that one fetch may bring of a partition."""
_RETRY_MS = 10
"""Between two questions: each first look at a topic would wait for the default, 100, and a recovery looks stage by stage."""
Lost = Callable[[str, int, int, int], None]
"""Called with topic, partition, and the first and the next offset of what is gone."""


@asynccontextmanager
async def reader(where: KafkaConnection, *, fetch: int = FETCH, wait_ms: int = 500) -> AsyncIterator[Any]:
    """A consumer of its own, whose fetches wait so long for data.

    Reading at an offset that the log no longer has raises OffsetOutOfRangeError.
    """
    consumer = AIOKafkaConsumer(
        **kafka_client_options.options(where),
        group_id=None,
        # The client's own choice of another offset would hide that records are gone.
        auto_offset_reset="none",
        enable_auto_commit=False,
        max_partition_fetch_bytes=fetch,
        retry_backoff_ms=_RETRY_MS,
        fetch_max_wait_ms=wait_ms,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def ends(consumer: Any, places: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
    """The offset after the last record of each."""
    return await _offsets(consumer.end_offsets, places)


async def begins(consumer: Any, places: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
    """The first kept offset of each."""
    return await _offsets(consumer.beginning_offsets, places)


@dataclass(frozen=True, slots=True)
class KeptOffsets:
    """What a partition holds: its first kept offset, and the one after its last record."""

    begin: int
    end: int


async def kept_offsets(consumer: Any, places: Collection[TopicAndPartition]) -> dict[TopicAndPartition, KeptOffsets]:
    """What each of these partitions holds."""
    first, after = await begins(consumer, places), await ends(consumer, places)
    return {place: KeptOffsets(first[place], after[place]) for place in places}


async def _offsets(
    ask: Callable[[list[TopicPartition]], Awaitable[Mapping[Any, int]]], places: Iterable[TopicAndPartition]
) -> dict[TopicAndPartition, int]:
    # All topics at the same time: a client that does not know a topic yet waits for each.
    topics: dict[str, list[TopicPartition]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(TopicPartition(topic, partition))
    answers = await asyncio.gather(*(ask(tps) for tps in topics.values()))
    return {(tp.topic, tp.partition): offset for answer in answers for tp, offset in answer.items()}


@dataclass(slots=True)
class ChangelogRecords:
    """The last record of each key of a changelog partition, up to `end`."""

    last: dict[bytes, bytes | None]
    end: int


async def contents(where: KafkaConnection, until: Mapping[TopicAndPartition, int]) -> dict[TopicAndPartition, ChangelogRecords]:
    """Read each of these partitions from its beginning up to the given end."""
    # On a connection of its own: a broker answers one request of a connection after the other, and a fetch that waits for more
    # would hold up whatever is asked behind it.
    records_of = {place: ChangelogRecords({}, end) for place, end in until.items()}
    unread = {TopicPartition(*place) for place, end in until.items() if end}
    async with reader(where) as consumer:
        consumer.assign([TopicPartition(*place) for place in until])
        first = await begins(consumer, until)
        for place, offset in first.items():
            consumer.seek(TopicPartition(*place), offset)
        while unread := {tp for tp in unread if await consumer.position(tp) < until[tp.topic, tp.partition]}:
            for tp, records in (await consumer.getmany(*unread, timeout_ms=1000)).items():
                records_of[tp.topic, tp.partition].last.update((r.key, r.value) for r in records)
    return records_of


async def committed(where: KafkaConnection, group: str, places: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
    """The group's offsets of these, where it has any."""
    admin = AIOKafkaAdminClient(**kafka_client_options.options(where))
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets(group, partitions=[TopicPartition(*place) for place in places])
    finally:
        await admin.close()
    return {(tp.topic, tp.partition): at.offset for tp, at in offsets.items() if at.offset >= 0}


class Stretch(NamedTuple):
    """The offsets of a partition from `start` on and before `end`."""

    place: TopicAndPartition
    start: int
    end: int


async def read_stretch(
    where: KafkaConnection, stretch: Stretch, *, lost: Lost, patient: bool = True
) -> AsyncIterator[tuple[list[Record], int]]:
    """The records of a stretch, and the offset up to which it has been read, bit by bit.

    With patience it waits until the log has all of it; without, it ends when nothing more comes.
    """
    tp = TopicPartition(*stretch.place)
    async with reader(where) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, stretch.start)
        at = stretch.start
        while at < stretch.end:
            try:
                got = await consumer.getmany(tp, timeout_ms=1000)
            except OffsetOutOfRangeError:
                begin = (await begins(consumer, [stretch.place]))[stretch.place]
                if begin <= at:  # the log has lost its end, which comes again
                    if not patient:
                        return
                    await asyncio.sleep(1.0)
                    continue
                begin = min(begin, stretch.end)
                # Retention has deleted them. Reading goes on after them, because waiting would not bring them back.
                lost(*stretch.place, at, begin)
                at = begin
                consumer.seek(tp, at)
                continue
            before, at = at, max(at, await consumer.position(tp))
            yield [Record(*fields_of(r)) for r in got.get(tp, []) if r.offset < stretch.end], min(at, stretch.end)
            if at == before and not patient:
                return


def fields_of(message: Any) -> tuple[Any, ...]:
    """The fields of our record from one of aiokafka's, whose checksum is the epoch of its leader (`record_format`)."""
    at, epoch = (-1 if field is None else field for field in (message.timestamp, message.checksum))
    headers = tuple(message.headers or ())
    return message.topic, message.partition, message.offset, message.key, message.value, headers, at, epoch
