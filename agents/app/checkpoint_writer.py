"""Writes checkpoints: consistent cuts at a turn boundary, paced by bytes, so that decisions do not wait for them.

It writes one checkpoint at a time. The cut is taken synchronously; then the writer waits until all decisions are durable, and
writes the chunks in small portions. The mark follows, then the tombstones of older families; a round ends with the group's
offsets. A failed write ends the process, because the content of its slots is uncertain.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import monotonic

from aiokafka import AIOKafkaProducer

from agents.app import kafka_client_options, supervision
from agents.app.decision_producer import DecisionProducer
from agents.app.faust_internals import FaustConsumer
from agents.app.owned_partition import OwnedPartition
from agents.app.size_groups import size_groups
from agents.app.stage_host import StageHost
from agents.app.topic_check import FRAME
from agents.app.worker_observer import WorkerObserver
from agents.app.worker_plan import Pacing
from agents.engine.checkpoint_selection import PART, CheckpointPlan
from streams.log.kafka_connection import KafkaConnection
from streams.log.log_port import NewRecord, size_of

TOGETHER = 64 << 10
"""Bytes of chunks that are written at once, in one request, or one chunk that has more. Most chunks are small."""
BETWEEN = 0.002
"""Seconds between two such writes."""
REPEATED = 7_000
"""Turns without much in them that a restart may take again, of all tasks of a worker together: a third of a second."""
OFTEN = 30
"""Rounds between two quiet ones, at least, however many tasks there are."""

ChangelogRecord = tuple[bytes, bytes | None]
"""A key, and what stands under it from now on, or None for nothing."""


class ChangelogProducer:
    """The producer of checkpoints."""

    def __init__(self, where: KafkaConnection) -> None:
        """Does not connect."""
        self.where = where
        self._producer: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Connect, once."""
        if self._producer is None:
            self._producer = kafka_client_options.producer(self.where, batch=2 * TOGETHER)
            await self._producer.start()

    async def stop(self) -> None:
        """Close the connection."""
        if self._producer is not None:
            await self._producer.stop()

    async def write(self, topic: str, partition: int, record: ChangelogRecord) -> int:
        """Write a key and a value, and return the offset once the record is durable."""
        assert self._producer is not None  # noqa: S101  # started with the first recovery, before any checkpoint
        key, value = record
        return int((await self._producer.send_and_wait(topic, value=value, key=key, partition=partition)).offset)


@dataclass(slots=True)
class Generation:
    """Counts rebalances, and keeps recovery and checkpoints from running at the same time.

    Code that awaits the broker compares `number` before and after: another number means that a rebalance came in between. Once
    `over` is set, no partition opens any more.
    """

    number: int
    busy: asyncio.Lock
    over: bool = False


class CheckpointWriter:
    """The checkpoints of all stages of one worker."""

    def __init__(  # noqa: PLR0913  # wired once, by keyword
        self,
        hosts: Iterable[StageHost],
        consumer: FaustConsumer,
        *,
        changelog: ChangelogProducer,
        generation: Generation,
        observer: WorkerObserver,
        producer: DecisionProducer,
    ) -> None:
        """`generation` is shared with recovery. `producer` takes the dead letter of a checkpoint that cannot be written."""
        self.hosts, self.consumer, self.producer = tuple(hosts), consumer, producer
        self.changelog, self.generation, self.observer = changelog, generation, observer
        self._set_aside: set[tuple[str, int]] = set()

    async def run(self, pacing: Pacing) -> None:
        """Write round after round until cancelled. The bytes of one round decide when the next one starts."""
        all_written = monotonic()
        with supervision.guarded("writing checkpoints"):
            while True:
                self.observer.liveness.beat()
                began = monotonic()
                quiet = began - all_written >= self.quiet_rounds(pacing) * pacing.least
                all_written = began if quiet else all_written
                written = await self.write_round(quiet=quiet)
                await asyncio.sleep(max(0.0, began + pacing.interval(written) - monotonic()))

    def quiet_rounds(self, pacing: Pacing) -> int:
        """Rounds until every partition that took a turn is marked again."""
        tasks = sum(len(host.owned) for host in self.hosts)
        return min(pacing.quiet, max(OFTEN, REPEATED // max(1, tasks)))

    async def write_round(self, *, quiet: bool = True) -> int:
        """Write a checkpoint of every partition that took a turn since its last one; returns the bytes written.

        Without `quiet`, only of those whose turns took in much usage or many records.
        """
        written, marked = 0, set[int]()
        for host in self.hosts:
            samples = host.plan.pacing.samples
            for partition in [p for p, owned in sorted(host.owned.items()) if (owned.due if quiet else owned.urgent(samples))]:
                async with self.generation.busy:
                    # Again, because a rebalance may have taken it while the lock was awaited.
                    owned = host.owned.get(partition)
                    if owned is not None and owned.due:
                        written += await self._write(host, owned)
                        marked.add(partition)
        if marked:
            async with self.generation.busy:
                await self._commit(marked)
        return written

    async def _commit(self, partitions: Iterable[int]) -> None:
        """Commit the offsets from which these partitions would be read again, in one request. As a hint it may come late."""
        with supervision.guarded("committing offsets"):
            wanted: dict[tuple[str, int], int] = {}
            for partition in partitions:
                wanted |= committable(self.hosts, partition)
            await self.consumer.commit(wanted)

    async def finish(self) -> None:
        """Write the last checkpoints, then close every partition for good: neither messages nor a rebalance reopen them."""
        await self.write_round()
        # Faust goes on delivering and may rebalance while it leaves the group.
        self.generation.number, self.generation.over = self.generation.number + 1, True
        for host in self.hosts:
            for owned in host.owned.values():
                owned.open = False
            host.owned.clear()

    async def _write(self, host: StageHost, owned: OwnedPartition) -> int:
        began, generation = monotonic(), self.generation.number
        where = {"stage": host.stage.name, "partition": owned.task.partition, "turn": owned.task.turn}
        with supervision.guarded("writing a checkpoint", **where):
            positions = owned.task.positions
            # Before the cut, and nothing is awaited in between: these are the decisions of exactly the turns in it.
            unacked, owned.unacked = owned.unacked, []
            topic = host.plan.changelog(host.stage)
            plan = cut(owned, part=min(PART, self.producer.bounds.most(topic) - FRAME))
            # A mark must not name a turn whose decisions the log may still lose: after a crash nobody would take it again.
            await asyncio.gather(*unacked)
            if self._refused(topic, owned, plan) or not await self._write_records(host, owned, plan, generation):
                owned.abandon([*plan.tombstones, *(key for key, _ in plan.records)])
                return 0
            owned.marked = positions
        self.observer.checkpoint(owned, plan.size, monotonic() - began)
        return plan.size

    def _refused(self, topic: str, owned: OwnedPartition, plan: CheckpointPlan) -> bool:
        """Set a checkpoint aside whose mark the changelog refuses for good."""
        # The state lives on; recovery would use an older checkpoint.
        written = (NewRecord(topic, owned.task.partition, *record) for record in (*plan.records, plan.mark))
        largest = max(written, key=size_of)
        why = self.producer.bounds.refusal(largest)
        if why is None:
            return False
        # One dead letter says it; the next round would refuse the same mark again.
        if (topic, owned.task.partition) not in self._set_aside:
            self._set_aside.add((topic, owned.task.partition))
            self.producer.send_soon(self.producer.bounds.letters(largest, why))
        return True

    async def _write_records(self, host: StageHost, owned: OwnedPartition, plan: CheckpointPlan, generation: int) -> bool:
        """Write chunks, mark and tombstones. False: a rebalance came in between, and the mark was not written."""
        topic, partition = host.plan.changelog(host.stage), owned.task.partition
        for records in in_parts(plan.records):
            await self._write_together(topic, partition, records)
            # Chunks share the event loop and the broker with decisions.
            await asyncio.sleep(BETWEEN)
            # A rebalance came: somebody else may own the partition by now, so the mark is never written and the family is
            # abandoned.
            if generation != self.generation.number:
                return False
        owned.end = await self.changelog.write(topic, partition, plan.mark) + 1
        owned.ledger.accept(plan)
        owned.whole = False
        # The first checkpoint after a start buries as many keys as the state has chunks.
        for records in in_parts((key, None) for key in plan.tombstones):
            owned.end = await self._write_together(topic, partition, records) + 1
        owned.ledger.buried()
        return True

    async def _write_together(self, topic: str, partition: int, records: Iterable[ChangelogRecord]) -> int:
        """Write records of one partition, which go out as one batch; returns the last offset once all are durable."""
        return max(await asyncio.gather(*(self.changelog.write(topic, partition, record) for record in records)))


def in_parts(records: Iterable[ChangelogRecord]) -> Iterator[list[ChangelogRecord]]:
    """These records in order, in groups within `TOGETHER`, each with at least one record."""
    return size_groups(records, lambda record: len(record[0]) + len(record[1] or b""), TOGETHER)


def cut(owned: OwnedPartition, *, part: int = PART) -> CheckpointPlan:
    """The checkpoint of the turn just taken. It does not await, so all chunks are of the same turn."""
    owned.ledger.part, owned.set_aside, owned.taken, owned.samples = part, False, 0, 0
    state = owned.task.state
    # Taken even where the whole state is written, so that the next cut does not write these once more.
    dirty = state.take_dirty()
    names = sorted(state.chunks()) if owned.whole else sorted(dirty)
    dumps = ((name, state.dump(name)) for name in names)
    task = owned.task
    return owned.ledger.plan(
        turn=task.turn,
        positions=task.positions,
        tick=task.tick,
        dumps=dumps,
        inputs=task.inputs,
        epochs=task.epochs.epochs(),
    )


def committable(hosts: Iterable[StageHost], partition: int) -> dict[tuple[str, int], int]:
    """For each input at this partition, the lowest offset that a stage here would read again after a restart."""
    lowest: dict[tuple[str, int], int] = {}
    for topic, offset in _marked(hosts, partition):
        lowest[topic, partition] = min(offset, lowest.get((topic, partition), offset))
    return lowest


def _marked(hosts: Iterable[StageHost], partition: int) -> Iterator[tuple[str, int]]:
    for host in hosts:
        if partition in host.owned:
            for name, offset in host.owned[partition].marked.items():
                yield host.wires[name], offset
