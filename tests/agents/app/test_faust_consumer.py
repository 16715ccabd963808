"""What the worker makes of Faust's consumer."""

import asyncio
import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.structs import TopicPartition
from faust.types import TP

from agents.app.faust_consumer import FaustConsumer, QuickConsumerThread


class ConsumerThatForgetsZero:
    """Committed offsets and positions, and aiokafka's `seek_to_committed`, which seeks to no offset 0."""

    def __init__(self, positions: dict[TP, int]) -> None:
        self.positions, self.committed = positions, dict.fromkeys(positions, 0)

    def assignment(self) -> set[TP]:
        return set(self.positions)

    async def _commit(self, offsets: dict[TP, int]) -> None:
        self.committed.update(offsets)

    async def seek(self, partition: TP, offset: int) -> None:
        self.positions[partition] = offset

    async def perform_seek(self) -> None:
        self.positions.update({tp: offset for tp, offset in self.committed.items() if offset > 0})


def test_after_a_rebalance_every_input_is_read_from_where_recovery_says_also_from_offset_0() -> None:
    read, other = TP("policies", 1), TP("control", 1)
    consumer: Any = ConsumerThatForgetsZero({read: 2, other: 9})
    app: Any = SimpleNamespace(consumer=consumer)

    async def rebalance() -> None:
        await FaustConsumer(app).start_at({("policies", 1): 0, ("control", 1): 5})
        await consumer.perform_seek()

    asyncio.run(rebalance())
    assert consumer.positions == {read: 0, other: 5}


def fetched(read: Callable[[dict[object, object]], list[object]]) -> Any:
    """What our consumer's thread gives when reading one partition's records in aiokafka's fetcher does this to all of them."""
    records: dict[object, object] = {}
    result: Any = FetchResult.__new__(FetchResult)
    result.getall, result.has_more = lambda _most: read(records), lambda: False
    records[TopicPartition("policies", 1)] = result
    fetcher: Any = Fetcher.__new__(Fetcher)
    fetcher._closed, fetcher._records, fetcher._wait_consume_future = False, records, None
    fetcher._subscriptions = SimpleNamespace(reassignment_in_progress=False, fetch_context=contextlib.nullcontext)
    thread: Any = QuickConsumerThread.__new__(QuickConsumerThread)
    thread.consumer = SimpleNamespace(flow_active=True)
    return asyncio.run(thread._fetch_records(SimpleNamespace(_fetcher=fetcher, _closed=False), None, timeout=0))


def test_a_partition_that_is_revoked_while_its_records_are_read_gives_nothing() -> None:
    def revoked(records: dict[object, object]) -> list[object]:
        records.clear()
        return []

    assert fetched(revoked) == {}


def test_any_other_missing_key_is_an_error() -> None:
    def broken(_records: dict[object, object]) -> list[object]:
        raise KeyError("offset")

    with pytest.raises(KeyError, match="offset"):
        fetched(broken)
