"""Writes checkpoints: consistent cuts at a turn boundary, paced by bytes, out of the decisions' way.

One at a time. Everything is taken in one go, synchronously; then decisions are awaited, then the chunks go out one by one with
a pause between (they share the loop and the broker with decisions), then the mark, then the tombstones of older families, then
the group's offsets. A checkpoint that a rebalance overtakes is abandoned, and its family with it. Refuses to go on after a
failed write: half-known slots must not be written on.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import monotonic

from aiokafka import AIOKafkaProducer

from agents.app import kafka_client_options, supervision
from agents.app.faust_consumer import Flow
from agents.app.owned_partition import Held
from agents.app.stage_host import Host
from agents.app.worker_observer import Watch
from agents.app.worker_plan import Pacing
from agents.engine.checkpoint import CheckpointPlan
from streams.log.connection import Connection

BETWEEN = 0.002
"""Seconds between two chunks."""


class Changelog:
    """The producer of checkpoints: one record in flight."""

    def __init__(self, where: Connection) -> None:
        """Does not connect."""
        self.where = where
        self._producer: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Connect, once."""
        if self._producer is None:
            self._producer = AIOKafkaProducer(
                **kafka_client_options.options(self.where), acks="all", enable_idempotence=True, max_request_size=8 << 20
            )
            await self._producer.start()

    async def stop(self) -> None:
        """Let go."""
        if self._producer is not None:
            await self._producer.stop()

    async def write(self, topic: str, partition: int, record: tuple[bytes, bytes | None]) -> int:
        """Write a key and value; the offset, once it is durable."""
        assert self._producer is not None  # noqa: S101  # started with the first recovery, before any checkpoint
        key, value = record
        return int((await self._producer.send_and_wait(topic, value=value, key=key, partition=partition)).offset)


@dataclass(slots=True)
class Epoch:
    """Counts rebalances, and keeps recovery and checkpoints apart. `over`: nothing is opened any more."""

    number: int
    busy: asyncio.Lock
    over: bool = False


class Checkpoints:
    """The checkpoints of all stages of one worker."""

    def __init__(self, hosts: Iterable[Host], flow: Flow, *, changelog: Changelog, epoch: Epoch, watch: Watch) -> None:
        """`epoch` is shared with recovery."""
        self.hosts, self.flow = tuple(hosts), flow
        self.changelog, self.epoch, self.watch = changelog, epoch, watch

    async def forever(self, pacing: Pacing) -> None:
        """Round after round, each as long after the one before as its bytes ask for."""
        with supervision.guarded("writing checkpoints"):
            while True:
                self.watch.pulse.beat()
                began = monotonic()
                written = await self.round()
                await asyncio.sleep(max(0.0, began + pacing.interval(written) - monotonic()))

    async def round(self) -> int:
        """A checkpoint of every partition whose turn moved; the bytes written."""
        written = 0
        for host in self.hosts:
            for partition in [p for p, held in sorted(host.held.items()) if held.due]:
                async with self.epoch.busy:
                    held = host.held.get(partition)
                    if held is not None and held.due:
                        written += await self._write(host, held)
        return written

    async def last(self) -> None:
        """Write what there is; from then on nothing is taken in, neither by what is under way nor after another rebalance."""
        await self.round()
        self.epoch.number, self.epoch.over = self.epoch.number + 1, True
        for host in self.hosts:
            for held in host.held.values():
                held.open = False
            host.held.clear()

    async def _write(self, host: Host, held: Held) -> int:
        began, epoch = monotonic(), self.epoch.number
        where = {"stage": host.stage.name, "partition": held.task.partition, "turn": held.task.turn}
        with supervision.guarded("writing a checkpoint", **where):
            positions = held.task.positions
            unacked, held.unacked = held.unacked, []
            plan = cut(held)
            await asyncio.gather(*unacked)
            if not await self._chunks(host, held, plan, epoch):
                held.abandon([*plan.tombstones, *(key for key, _ in plan.records)])
                return 0
            held.marked = positions
            await self.flow.commit(committable(self.hosts, held.task.partition))
        self.watch.checkpoint(held, plan.size, monotonic() - began)
        return plan.size

    async def _chunks(self, host: Host, held: Held, plan: CheckpointPlan, epoch: int) -> bool:
        """Chunks, mark, tombstones. False: a rebalance came in between and the mark was not written."""
        topic, partition = host.plan.changelog(host.stage), held.task.partition
        for record in plan.records:
            await self.changelog.write(topic, partition, record)
            await asyncio.sleep(BETWEEN)
            if epoch != self.epoch.number:
                return False
        held.end = await self.changelog.write(topic, partition, plan.mark) + 1
        held.ledger.accept(plan)
        held.whole = False
        for key in plan.tombstones:
            held.end = await self.changelog.write(topic, partition, (key, None)) + 1
        held.ledger.buried()
        return True


def cut(held: Held) -> CheckpointPlan:
    """The checkpoint of this very turn. Nothing awaits in here."""
    state = held.task.state
    dirty = state.take_dirty()
    names = sorted(state.chunks()) if held.whole else sorted(dirty)
    dumps = ((name, state.dump(name)) for name in names)
    return held.ledger.plan(turn=held.task.turn, positions=held.task.positions, dumps=dumps)


def committable(hosts: Iterable[Host], partition: int) -> dict[tuple[str, int], int]:
    """For each input at this partition, the lowest offset that a stage here would read again after a restart."""
    lowest: dict[tuple[str, int], int] = {}
    for topic, offset in _marked(hosts, partition):
        lowest[topic, partition] = min(offset, lowest.get((topic, partition), offset))
    return lowest


def _marked(hosts: Iterable[Host], partition: int) -> Iterator[tuple[str, int]]:
    for host in hosts:
        if partition in host.held:
            for name, offset in host.held[partition].marked.items():
                yield host.wires[name], offset
