"""What the worker makes of Faust's consumer."""

import asyncio
import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka.client import ConnectionGroup
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.protocol.fetch import FetchRequest, FetchRequest_v11
from aiokafka.structs import TopicPartition
from faust.transport.consumer import Consumer
from faust.transport.utils import DefaultSchedulingStrategy
from faust.types import TP

from agents.app import faust_internals
from agents.app.faust_internals import FaustConsumer, QuickConsumer, QuickConsumerThread
from agents.run.partition_task import SharedRecord


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


def consumed(partition: int, offset: int, size: int) -> Any:
    return SimpleNamespace(
        checksum=2,
        topic="policies",
        partition=partition,
        offset=offset,
        key=b"k",
        value=bytes(size),
        headers=(("a", b"b"),),
        timestamp=7,
    )


def test_what_a_fetch_gave_goes_through_faust_in_few_messages_in_the_order_of_each_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = SharedRecord("policies", 0, 0, b"k", bytes(100), (("a", b"b"),), 7).size
    monkeypatch.setattr(faust_internals, "BUNDLE_BYTES", 3 * size)
    here, there = TP("policies", 0), TP("policies", 1)
    came = {here: [consumed(0, n, 100) for n in range(4)], there: [consumed(1, 9, 10 * size)]}
    monkeypatch.setattr(Consumer, "_wait_next_records", AsyncMock(return_value=(came, {here, there})))
    consumer: Any = QuickConsumer.__new__(QuickConsumer)
    consumer.scheduler, consumer._read_offset, consumer._buffered_partitions = DefaultSchedulingStrategy(), {here: 12}, set()
    consumer.app = SimpleNamespace(consumer_generation_id=3)
    records, active = asyncio.run(consumer._wait_next_records(1.0))
    assert active == {here, there}
    messages = [consumer._to_message(tp, bundle) for tp, bundles in records.items() for bundle in bundles]
    assert [[(r.partition, r.offset) for r in m.records] for m in messages] == [[(0, 0)], [(1, 9)], [(0, 1), (0, 2), (0, 3)]]
    assert messages[0].records[0] == SharedRecord("policies", 0, 0, b"k", bytes(100), (("a", b"b"),), 7)
    assert {(m.tp, m.offset, m.generation_id) for m in messages} == {(here, 12, 3)}, "Faust drops what is below its read offset"


@pytest.mark.parametrize(("paused", "partitions"), [("before", [1]), ("meanwhile", [0, 1])])
def test_a_pause_of_a_partition_takes_nothing_of_others_away(
    paused: str, partitions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = TP("policies", 0), TP("policies", 1)
    alive = {there} if paused == "before" else {here, there}
    came = {here: [consumed(0, 1, 10)], there: [consumed(1, 9, 10)]}
    monkeypatch.setattr(Consumer, "_wait_next_records", AsyncMock(return_value=(came, alive)))
    consumer: Any = QuickConsumer.__new__(QuickConsumer)
    consumer.scheduler, consumer._buffered_partitions = DefaultSchedulingStrategy(), set()
    records, active = asyncio.run(consumer._wait_next_records(1.0))
    alive.discard(here)  # it is Faust's own set
    [(name, bundles)] = records.items()
    assert [record.partition for bundle in bundles for record in bundle] == partitions
    assert name in active


def test_a_fetch_that_leaves_no_input_out_waits_longer_than_one_that_does() -> None:
    here = FetchRequest(7, 7, 7, 0, [("policies", [(0, 1, 1), (1, 1, 1)]), ("changelog", [(0, 1, 1)])])
    there = FetchRequest(7, 7, 7, 0, [("changelog", [(1, 1, 1)])])
    fetcher: Any = SimpleNamespace(_records={}, _get_actions_per_node=lambda _assignment: ([(1, here), (2, there)], "and more"))
    faust_internals.wait_longer_for_all(fetcher, lambda: {"changelog"})

    def asked(*prefetched: tuple[str, int]) -> list[int]:
        fetcher._records = dict.fromkeys(TopicPartition(*place) for place in prefetched)
        requests, rest = fetcher._get_actions_per_node(None)
        assert rest == "and more"
        return [request.build(FetchRequest_v11).max_wait_time for _, request in requests]

    assert asked() == [faust_internals.WHOLE_WAIT_MS] * 2
    assert asked(("changelog", 0)) == [faust_internals.WHOLE_WAIT_MS] * 2
    assert asked(("changelog", 0), ("policies", 1)) == [faust_internals.WAIT_MS] * 2


@pytest.mark.parametrize(("active", "closed"), [(True, []), (False, [1])])
def test_a_fetch_that_a_rebalance_overtakes_keeps_nothing_waiting(active: bool, closed: list[int]) -> None:
    """The broker answers what comes over its connection in order, and that fetch may wait for long."""
    said: list[int] = []
    connections = {(node, ConnectionGroup.DEFAULT): SimpleNamespace(close=lambda node=node: said.append(node)) for node in (1, 2)}
    client = SimpleNamespace(_conns={**connections, (1, ConnectionGroup.COORDINATION): None})
    fetcher: Any = SimpleNamespace(_client=client, _proc_fetch_request=AsyncMock(return_value=active))
    faust_internals.break_off_after_rebalance(fetcher)
    for node in (1, 3):  # to the third one there is no connection any more
        assert asyncio.run(fetcher._proc_fetch_request(SimpleNamespace(active=active), node, "a fetch")) is active
    assert said == closed


def test_a_fetcher_looks_at_its_partitions_only_while_a_broker_is_free() -> None:
    looked: list[str] = []
    brokers = [SimpleNamespace(nodeId=number) for number in (1, 2)]
    fetcher: Any = SimpleNamespace(_client=SimpleNamespace(cluster=SimpleNamespace(brokers=lambda: brokers)))

    def actions(assignment: str) -> str:
        looked.append(assignment)
        return "actions"

    fetcher._get_actions_per_node = actions
    faust_internals.ask_nothing_while_fetching(SimpleNamespace(_fetcher=fetcher))

    def look(when: str, in_flight: set[int], *tasks: str) -> object:
        fetcher._in_flight = in_flight
        fetcher._pending_tasks = [SimpleNamespace(done=lambda task=task: task == "done") for task in tasks]
        return fetcher._get_actions_per_node(when)

    assert look("free", set()) == "actions"
    assert look("one is free", {1}, "fetching") == "actions"
    assert look("none is free", {1, 2}, "fetching", "fetching") == ([], {}, faust_internals.WHOLE_WAIT_MS / 1000, False, [])
    assert look("marked as busy by a task that has ended", {1, 2}, "fetching", "done") == "actions"
    assert look("marked as busy, and nobody is left to end", {1, 2}) == "actions"
    brokers.clear()
    assert look("no broker is known", set()) == "actions"
    assert "none is free" not in looked
