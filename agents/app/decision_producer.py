"""Carries decisions and dead letters to the log without making the turn wait.

A turn queues its records and goes on; a background task sends them in order. Checkpoints have a producer of their own, or
decisions would queue behind them. No record is dropped: one that cannot be sent ends the process, and one that its topic refuses
for good is set aside.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence

from aiokafka import AIOKafkaProducer

from agents.app import kafka_client_options, supervision
from agents.app.size_groups import size_groups
from agents.app.topic_check import RecordBounds
from streams.log.kafka_connection import KafkaConnection
from streams.log.log_port import NewRecord, size_of

_BATCH = 1 << 20
"""Bytes of records of one partition that go out together, unless one alone has more."""
_OVERHEAD = 128
"""Bytes that Kafka adds at most to a record within a batch, for as many headers as ours have."""
FULL = 16 << 20
"""Bytes of records that may be queued or unacknowledged; above it, the worker takes no more turns."""


class DecisionProducer:
    """One for each worker process."""

    def __init__(self, where: KafkaConnection, bounds: RecordBounds) -> None:
        """Does not connect."""
        self.where, self.bounds = where, bounds
        self.waiting = 0
        """Bytes of records that are queued or unacknowledged."""
        self._queue: deque[tuple[Sequence[NewRecord], int, asyncio.Future[None]]] = deque()
        self._wake = asyncio.Event()
        self._room, self._empty = asyncio.Event(), asyncio.Event()
        self._room.set()
        self._empty.set()
        self._producer: AIOKafkaProducer | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connect, once."""
        if self._producer is None:
            # `_batches` decides what goes together; the client's batch must take all of it.
            self._producer = kafka_client_options.producer(self.where, batch=2 * _BATCH)
            await self._producer.start()
            self._keep(asyncio.create_task(self._run()))

    async def stop(self) -> None:
        """Wait until everything that is queued is durable, then close the connection. Queue nothing from here on."""
        if self._producer is not None:
            await self._empty.wait()
            await self._producer.stop()

    def send_soon(self, records: Sequence[NewRecord]) -> asyncio.Future[None]:
        """Queue these records; the future is done when all of them are durable."""
        records = self.bounds.admissible(records)
        # No coroutine: nothing may be awaited between taking a turn and queueing its decisions, so that a checkpoint sees both or
        # neither.
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        size = sum(size_of(record) + _OVERHEAD for record in records)
        self.waiting += size
        self._queue.append((records, size, durable))
        self._wake.set()
        self._empty.clear()
        if self.waiting > FULL:
            self._room.clear()
        return durable

    @property
    def has_room(self) -> bool:
        """Whether `wait_for_room` would return at once."""
        return self._room.is_set()

    async def wait_for_room(self) -> None:
        """Wait while too much is queued or unacknowledged."""
        await self._room.wait()

    async def _run(self) -> None:
        with supervision.guarded("sending decisions"):
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._queue:
                    queued, self._queue = self._queue, deque()
                    records = [record for some, _, _ in queued for record in some]
                    size = sum(size for _, size, _ in queued)
                    sent = await self._send(records)
                    # Not awaited here: the next batches go out while the broker acknowledges these.
                    self._keep(asyncio.create_task(self._settle(sent, size, [durable for _, _, durable in queued])))

    async def _send(self, records: Sequence[NewRecord]) -> list[asyncio.Future[object]]:
        """Send records in batches of one partition each, in their order there; a future for each batch."""
        # A batch costs the client a fraction of what its records would cost one by one.
        partitions: dict[tuple[str, int], list[NewRecord]] = {}
        for record in records:
            partitions.setdefault((record.topic, record.partition), []).append(record)
        return [sent for place, some in partitions.items() for sent in await self._send_partition(*place, some)]

    async def _send_partition(self, topic: str, partition: int, records: Sequence[NewRecord]) -> list[asyncio.Future[object]]:
        assert self._producer is not None  # noqa: S101  # `start` connects before this task begins
        producer, sent = self._producer, []
        for some in self._batches(topic, records):
            batch = producer.create_batch()
            for r in some:
                if batch.append(timestamp=None, key=r.key, value=r.value, headers=list(r.headers)) is None:
                    raise RuntimeError(f"a batch for {topic} has no room for a record of {size_of(r)} bytes")
            sent.append(await producer.send_batch(batch, topic, partition=partition))
        return sent

    def _batches(self, topic: str, records: Sequence[NewRecord]) -> Iterator[Sequence[NewRecord]]:
        """The records in order, in groups that fit into one batch and the topic's bound, which holds for a batch as a whole."""
        most = min(_BATCH, self.bounds.most(topic))
        return size_groups(records, lambda record: size_of(record) + _OVERHEAD, most)

    async def _settle(self, sent: Sequence[asyncio.Future[object]], size: int, durables: Sequence[asyncio.Future[None]]) -> None:
        """Wait for the acknowledgements of batches whose records have so many bytes."""
        with supervision.guarded("sending decisions"):
            await asyncio.gather(*sent)
            self.waiting -= size
            # At half, so that the worker does not stop and go with each batch.
            if self.waiting < FULL // 2:
                self._room.set()
            if not self.waiting:
                self._empty.set()
            for durable in durables:
                # Who waited for it may have been cancelled, and the future with it.
                if not durable.done():
                    durable.set_result(None)

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Hold a reference to the task: the event loop keeps only weak ones."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
