"""What a worker uses of Faust's consumer: which partitions it owns, pausing and resuming, and committing offsets.

This is the only file that touches private names of Faust (`_commit`, `_recovery`, `_build_highwaters`, `_fetch_max_wait_ms`,
`_wait_next_records`, `_buffered_partitions`, `_to_message`, `_read_offset`) and of aiokafka's consumer (`_fetcher`, `_records`,
`_get_actions_per_node`, `_proc_fetch_request`, `_client`, `_conns`, `_in_flight`, `_pending_tasks`) and its requests
(`_max_wait_ms`, `_min_bytes`), which is why their versions are pinned.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from operator import attrgetter
from typing import Any

import faust
from aiokafka import TopicPartition
from aiokafka.client import ConnectionGroup
from aiokafka.errors import IllegalStateError
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from faust.types import TP
from faust.types.tuples import ConsumerMessage
from mode.services import WaitResults

from agents.app import log_reader
from agents.app.size_groups import size_groups
from agents.run.partition_task import SharedRecord

WAIT_MS = 100
"""Milliseconds that a fetch waits at the broker for data, if it leaves out a partition of which something is prefetched."""
WHOLE_WAIT_MS = 1_500
"""The same for one that asks for all inputs: it delays nothing, and most of an idle worker's work is to write and read fetches.

What is to go over its connection after a seek may wait that long, so it is no more. After a rebalance nothing does.
"""
BUNDLE_BYTES = 128 << 10
"""Bytes of records that go through Faust together. Faust holds `stream_buffer_maxsize` messages, whatever is in them."""


class FaustConsumer:
    """Faust's consumer, by wire names of topics."""

    def __init__(self, app: faust.App) -> None:
        """`app` need not have started."""
        self.app = app

    def owned(self, topics: Iterable[str]) -> set[int]:
        """The partitions of which all these topics are assigned to this worker."""
        assigned = self.app.assignor.assigned_actives()
        partitions_of = [{tp.partition for tp in assigned if tp.topic == topic} for topic in topics]
        return set.intersection(*partitions_of)

    def pause(self, topic: str, partition: int) -> None:
        """Stop fetching it. Records that Faust has prefetched are lost; the stage host finds the gap by its own offsets."""
        self.app.consumer.pause_partitions({TP(topic, partition)})

    async def resume(self, topic: str, partition: int, offset: int) -> None:
        """Fetch again, from `offset`. Does nothing if a rebalance took the partition: recovery sets the position then."""
        self.app.consumer.resume_partitions({TP(topic, partition)})
        await self.seek(topic, partition, offset)

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        """Fetch it from `offset` on; all its readers get those records again. Does nothing if a rebalance took it."""
        with suppress(IllegalStateError):
            await self.app.consumer.seek(TP(topic, partition), offset)

    async def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set the group's offsets, as a hint where to start reading: the checkpoints' marks are what counts.

        Skips what is not assigned to this worker.
        """
        assigned = self.app.consumer.assignment()
        ours = {TP(*place): offset for place, offset in offsets.items() if TP(*place) in assigned}
        # An empty commit kills Faust's consumer thread.
        if ours:
            consumer: Any = self.app.consumer
            await consumer._commit(ours)  # noqa: SLF001  # the public commit only knows messages that were acked

    async def start_at(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit these offsets, to which Faust seeks at the end of a rebalance, and seek to those that are 0 ourselves."""
        await self.commit(offsets)
        for place, offset in offsets.items():
            # aiokafka leaves a partition where it is when the committed offset to seek to is 0. One that stays with this worker
            # and has been read from 0 would never deliver those records again.
            if offset == 0:
                with suppress(IllegalStateError):
                    await self.app.consumer.seek(TP(*place), 0)


def skip_table_recovery(app: faust.App) -> None:
    """Make Faust's table recovery call back without reading the changelogs. Call it before the tables are made."""
    tables: Any = app.tables
    tables._recovery = SkippedTableRecovery(app, app.tables, beacon=tables.beacon)  # noqa: SLF001  # the class is not a setting


class SkippedTableRecovery(Recovery):
    """Faust's table recovery without its reading; the worker reads the changelogs itself."""

    # Faust calls back before it knows that it has read everything, and a recovery that broke off looks like one that finished.
    # So its reading would be useless, and would double the time to recover.

    async def _build_highwaters(self, consumer: Any, tps: set[TP], destination: Any, title: str) -> None:  # noqa: ARG002  # Faust's
        """Pretend that every changelog is empty."""
        destination.clear()
        destination.update(dict.fromkeys(tps, -1))


class ReadyTableManager(TableManager):
    """Faust's tables without its wait of a second for tables to be made, because ours exist before the app starts."""

    async def sleep(self, _seconds: timedelta | float | str) -> None:
        """Let others run once."""
        await super().sleep(0.0)


class RecordsMessage(ConsumerMessage):
    """A Faust message that carries records of several partitions in one list."""

    __slots__ = ("records",)
    records: list[SharedRecord]


def bundled(records: Iterable[tuple[TP, Any]]) -> Iterator[list[SharedRecord]]:
    """The records of aiokafka in order, in bundles within `BUNDLE_BYTES`, each with at least one record."""
    shared = (SharedRecord(*log_reader.fields_of(fetched)) for _, fetched in records)
    return size_groups(shared, attrgetter("size"), BUNDLE_BYTES)


def wait_longer_for_all(fetcher: Any, passed_over: Callable[[], Collection[str]]) -> None:
    """Let fetches of this aiokafka fetcher wait for `WHOLE_WAIT_MS` if they leave out no partition that is read soon.

    `passed_over` gives the topics that Faust does not read: their records stay prefetched.
    """
    actions = fetcher._get_actions_per_node  # noqa: SLF001

    def waiting(assignment: Any) -> Any:
        left_out = {tp.topic for tp in fetcher._records}.difference(passed_over())  # noqa: SLF001
        plan = actions(assignment)
        for _, request in plan[0]:  # one for each broker
            request._max_wait_ms = WAIT_MS if left_out else WHOLE_WAIT_MS  # noqa: SLF001
        return plan

    fetcher._get_actions_per_node = waiting  # noqa: SLF001


def ask_nothing_while_fetching(consumer: Any) -> None:
    """Let this consumer of aiokafka, which was started, look at no partition while it is fetching from every broker."""
    # It looks each time somebody takes a partition's records, and five times a second, mostly in vain: a broker gets one request
    # at a time. So it waits until a fetch ends, or the assignment does.
    fetcher = consumer._fetcher  # noqa: SLF001
    actions = fetcher._get_actions_per_node  # noqa: SLF001

    def when_free(assignment: Any) -> Any:
        nodes = {broker.nodeId for broker in fetcher._client.cluster.brokers()}  # noqa: SLF001
        # A task that ended just when the assignment did leaves its broker marked as busy until the next round, and nothing would
        # wake the fetcher: then aiokafka looks after its own time.
        under_way = sum(not task.done() for task in fetcher._pending_tasks)  # noqa: SLF001
        if nodes and nodes <= fetcher._in_flight and under_way >= len(fetcher._in_flight):  # noqa: SLF001
            return [], {}, WHOLE_WAIT_MS / 1000, False, []
        return actions(assignment)

    fetcher._get_actions_per_node = when_free  # noqa: SLF001


def break_off_after_rebalance(fetcher: Any) -> None:
    """Let this fetcher of aiokafka close the connection of a fetch whose partitions were taken from this worker.

    aiokafka forgets such a fetch, but the broker answers it before anything that comes later over the same connection.
    """
    fetch = fetcher._proc_fetch_request  # noqa: SLF001

    async def breaking_off(assignment: Any, node: int, request: Any) -> bool:
        came = await fetch(assignment, node, request)
        connection = fetcher._client._conns.get((node, ConnectionGroup.DEFAULT))  # noqa: SLF001
        if connection is not None and not assignment.active:
            connection.close()
        return bool(came)

    fetcher._proc_fetch_request = breaking_off  # noqa: SLF001


class QuickConsumerThread(AIOKafkaConsumerThread):
    """The thread of a `QuickConsumer`, in which aiokafka runs."""

    def _create_worker_consumer(self, transport: Transport) -> Any:
        consumer: Any = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = WAIT_MS  # noqa: SLF001  # read when it starts; Faust has no setting for it
        return consumer

    async def on_start(self) -> None:
        """Start aiokafka's consumer, which makes its fetcher; that asks for nothing before partitions are assigned."""
        await super().on_start()
        consumer: Any = self._ensure_consumer()
        wait_longer_for_all(consumer._fetcher, lambda: self.app.tables.changelog_topics)  # noqa: SLF001
        ask_nothing_while_fetching(consumer)
        break_off_after_rebalance(consumer._fetcher)  # noqa: SLF001

    async def _fetch_records(self, *args: Any, **options: Any) -> Any:
        """As Faust's, but returns nothing when a rebalance takes a partition in the middle."""
        try:
            return await super()._fetch_records(*args, **options)
        # aiokafka's fetcher removes what it has just returned, and raises this if that is gone. What it had taken of other
        # partitions by then is lost; the stage host finds the gap by its own offsets and reads it again.
        except KeyError as error:
            if not isinstance(error.args[0], TopicPartition):
                raise
            return {}


class _Begun(Awaitable[Any]):
    """A coroutine that has started, and what it waits for."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> None:
        self._coroutine, self._waits_for = coroutine, waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        """Go on with it."""
        waits_for = self._waits_for
        while True:
            try:
                try:
                    answer = yield waits_for
                except BaseException as error:  # noqa: BLE001  # whatever interrupts the waiting is the coroutine's to handle
                    waits_for = self._coroutine.throw(error)
                else:
                    waits_for = self._coroutine.send(answer)
            except StopIteration as done:
                return done.value


class QuickConsumer(Consumer):
    """Faust's consumer with fetches that wait `WAIT_MS` for data instead of Faust's fixed 1.5 s, or `WHOLE_WAIT_MS`.

    One fetch at a time asks for the partitions that have nothing prefetched, and waits until one of them has data or, if it
    leaves none out, as `wait_longer_for_all` says. A partition that had something prefetched when the fetch was sent is not
    fetched again until that wait ends. With 1.5 s this would limit how fast a worker catches up, and delay an OOM kill. A message
    has the name of one of its partitions, but is delivered even if that one is paused meanwhile: it has records of others, and a
    stage host skips what it does not want. Nothing here relies on Faust's offsets, or on what it drops after a seek or a
    rebalance, because the stage hosts go by the offset of each record.
    """

    async def _wait_next_records(self, timeout: float) -> Any:  # noqa: ASYNC109  # Faust's signature
        """As Faust's, with the records of active partitions in bundles, under the name of the first of them."""
        records, active = await super()._wait_next_records(timeout)
        if active is not None:
            active = active | self._buffered_partitions  # what Faust goes by; a copy, for its own follows each pause
        came = {tp: fetched for tp, fetched in (records or {}).items() if active is None or tp in active}
        first = next(iter(came), None)
        # Faust takes longer for a message than a stage takes for a tick or for a decision that comes back.
        return {} if first is None else {first: list(bundled(self._in_turn(came)))}, active

    def _in_turn(self, came: Mapping[TP, list[Any]]) -> Iterable[tuple[TP, Any]]:
        """The records as Faust mixes them, so that no partition runs far ahead; there is nothing to mix where each has one."""
        if all(len(records) == 1 for records in came.values()):
            return [(tp, record) for tp, (record,) in came.items()]
        return self.scheduler.iterate(came)

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        """The message of a bundle. Its offset is one that Faust does not take for a repeat."""
        offset, at = self._read_offset[tp] or 0, record[0].timestamp_ms / 1000
        message = RecordsMessage(
            tp.topic, tp.partition, offset, at, 0, None, None, None, None, 0, 0, tp, generation_id=self.app.consumer_generation_id
        )
        message.records = record
        return message

    async def wait_first(self, *waits: Any, timeout: Any = None) -> Any:  # noqa: ASYNC109  # Faust's signature
        """As Faust's, but a coroutine that need not wait runs at once, instead of in a task beside three more."""
        # Faust calls it for each message, to be interrupted while a full stream makes it wait. Most messages find room.
        first, *others = waits
        if timeout is not None or not asyncio.iscoroutine(first):
            return await super().wait_first(*waits, timeout=timeout)
        try:
            waits_for = first.send(None)
        except StopIteration as done:
            for other in others:
                other.close()
            return WaitResults([first], [done.value], self.should_stop)
        return await super().wait_first(_Begun(first, waits_for), *others)

    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return QuickConsumerThread(self, loop=self.loop, beacon=self.beacon)
