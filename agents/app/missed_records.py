"""Closes the gap when Faust hands out a record that is not the next one.

Either Faust jumped (it does: prefetch, pauses, rebalances) or the log has a hole (compaction). Reading the stretch between
beside Faust answers both without a seek, so nothing that Faust has in hand can interfere. What retention took in between is
LOST: said loudly, counted, and read past, because waiting for it would not bring it back.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from agents.app import log_reader
from streams.log.connection import Connection
from streams.log.port import Record

Lost = Callable[[str, int, int, int], None]
"""Topic, partition, first and next offset of what is gone."""


async def between(where: Connection, first: Record, *, start: int, lost: Lost) -> AsyncIterator[list[Record]]:
    """The records from offset `start` up to, not including, the one that came instead."""
    tp = TopicPartition(first.topic, first.partition)
    async with log_reader.reader(where) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, start)
        at = start
        while at < first.offset:
            try:
                got = await consumer.getmany(tp, timeout_ms=1000)
            except OffsetOutOfRangeError:
                begin = (await log_reader.begins(consumer, [(tp.topic, tp.partition)]))[tp.topic, tp.partition]
                begin = min(begin, first.offset)
                lost(tp.topic, tp.partition, at, begin)
                at = begin
                consumer.seek(tp, at)
                continue
            records = [record(r) for r in got.get(tp, [])]
            at = max(at, await consumer.position(tp))
            yield [r for r in records if r.offset < first.offset]


def record(message: Any) -> Record:
    """A record of ours from one of aiokafka's."""
    return Record(
        message.topic, message.partition, message.offset, message.key, message.value, tuple(message.headers), message.timestamp
    )
