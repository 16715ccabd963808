"""Reads the clock beside Faust, which could not give its one partition to several workers, and gives each tick to what is open.

It begins at the lowest mark of what is open, and begins anew after every recovery; a task ignores a tick that is not above its
turn. It also looks after inputs that a turn waits for while nothing comes, and asks every few seconds whether the logs still hold
what was read of them.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic, perf_counter
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from agents.app import log_reader, supervision
from agents.app.faust_internals import ask_nothing_while_fetching
from agents.app.owned_partition import OwnedPartition
from agents.app.stage_host import StageHost
from agents.engine.checkpoint_selection import CheckpointMark, ClockEvidence
from agents.engine.input_digest import Epochs
from streams import clock_log, truncated_topics
from streams.clock_log import ClockReader, PlaceInClock
from streams.clock_rules import PARTITION, Counted, Tick
from streams.errors import LogUnavailable
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import Record
from streams.topics import CLOCK
from streams.truncated_topics import LostRecords

WAIT = 0.75
"""Seconds that one look waits for a tick: longer than the default period, or every second one would end just before its tick."""
TOGETHER = 500
"""Ticks that are read at once, and that a task may have before it: the slowest task waits for its inputs, not for ticks."""
YIELD_AFTER = 0.03
"""Seconds after which other coroutines run."""
HELD_EVERY = 5.0
"""Seconds between two questions whether the logs still hold what was read."""
STANDS_STILL = 1.0
"""Seconds in which nothing came of an input that a turn waits for, after which it is read beside Faust."""


class ClockFeed:
    """One for each worker process. It waits for ticks in the event loop, and asks the log other things in a thread."""

    def __init__(self, hosts: tuple[StageHost, ...]) -> None:
        self._hosts, self._plan = hosts, hosts[0].plan
        self._log = KafkaLog(self._plan.where)
        self._place = TopicPartition(*clock_log.place(self._plan.topics))
        self._busy = asyncio.Lock()
        self._begun = asyncio.Event()
        self._start = 0
        """Counts beginnings."""
        self._stood: dict[tuple[OwnedPartition, str], tuple[int, float]] = {}
        """For each input that a turn waits for, its offset when it was last seen to move on, and when that was."""
        self._looked = self._asked = 0.0
        self._unnamed: set[tuple[str, int]] = set()
        """Inputs with records of which no tick had said an end when it was last looked."""
        self._reader: ClockReader | None = None
        """Has read of the clock's topic what tasks have, and some ticks that still wait in them."""

    def begin(self) -> None:
        """Partitions were opened: give them all ticks after their marks."""
        self._start += 1
        self._begun.set()

    async def evidence(self, mark: CheckpointMark) -> ClockEvidence:
        """What the clock shows of the tick that a mark names. Raises LogUnavailable."""
        offset = -1 if mark.tick is None else mark.tick[0]
        async with self._busy:
            there: PlaceInClock = await asyncio.to_thread(clock_log.look_at, self._log, self._plan.topics, offset)
        tick = None if there.record is None else (there.record.number, there.record.name)
        return ClockEvidence(there.begin, there.end, tick)

    async def held(self, read: Sequence[tuple[int, Epochs]]) -> LostRecords:
        """Whether the logs still hold what was read of these partitions. Raises LogUnavailable."""
        async with self._busy:
            return await asyncio.to_thread(truncated_topics.lost_records, self._log, self._plan.topics, read)

    async def _require_held(self) -> None:
        """End the process if the logs no longer hold what tasks here have read."""
        read = [(owned.task, owned.task.epochs.epochs()) for _, owned in self._open()]
        ticks = PARTITION, {CLOCK: tuple(self._reader.counted.epochs) if self._reader else ()}
        held = await self.held([*((task.partition, epochs) for task, epochs in read), ticks])
        # Only a checkpoint from before can be trusted, and a restart is the one way back that every recovery tests.
        if held.gone:
            error = LogUnavailable(f"{'; '.join(held.gone)}: what was decided from it is taken again, from an older checkpoint")
            supervision.end(error, doing="asking whether the logs still hold what was read")
        for task, epochs in read if held.complete else ():
            task.epochs.seen(epochs)

    async def run(self) -> None:
        """Feed until cancelled."""
        with supervision.guarded("reading the clock"):
            await self._begun.wait()
            while True:
                start = self._start
                try:
                    await self._feed(start)
                except (LogUnavailable, KafkaError):  # it is back, or the worker's own clients say that it is not
                    await asyncio.sleep(WAIT)

    async def _feed(self, start: int) -> None:
        """Give ticks until partitions are opened anew."""
        log, topics = self._log, self._plan.topics
        async with self._busy:
            counted = await asyncio.to_thread(self._counted)
        reader = self._reader = ClockReader(log, topics, counted)
        if counted.last is not None:
            await self._give([counted.last], start)
        async with log_reader.reader(self._plan.where, wait_ms=int(1000 * WAIT)) as consumer:
            ask_nothing_while_fetching(consumer)
            consumer.assign([self._place])
            consumer.seek(self._place, counted.next)
            while start == self._start:
                if self._hungry():
                    await self._give(await self._next_ticks(consumer, reader), start)
                else:
                    await asyncio.sleep(YIELD_AFTER)
                if start == self._start:
                    await self._look(reader)

    async def _next_ticks(self, consumer: Any, reader: ClockReader) -> list[Tick]:
        """The ticks that come next, after `WAIT` seconds at most."""
        at, records = reader.counted.next, []
        # What the client cannot read is read as everybody else reads the clock, whose errors say what is wrong.
        with suppress(KafkaError):
            came = await consumer.getmany(self._place, timeout_ms=int(1000 * WAIT), max_records=TOGETHER)
            records = [Record(*log_reader.fields_of(message)) for message in came.get(self._place, ())]
            if not records:
                return []
        if records and records[0].offset == at:
            return reader.take(records)
        async with self._busy:
            ticks = await asyncio.to_thread(partial(reader.catch_up, most=TOGETHER))
        consumer.seek(self._place, reader.counted.next)
        if reader.counted.next == at:  # the log has lost its end, which comes again
            await asyncio.sleep(WAIT)
        return ticks

    async def _look(self, reader: ClockReader) -> None:
        """Read the inputs that stand still, and ask whether the logs still hold what was read, each after its time."""
        start = self._start
        if monotonic() - self._looked > STANDS_STILL / 2:
            self._looked = monotonic()
            await self._read_beside()
        if start == self._start and monotonic() - self._asked > HELD_EVERY:
            self._asked = monotonic()
            await self._require_held()
            if not self._hungry():
                self._name_unnamed(reader.counted)

    def _counted(self) -> Counted:
        """What counted up to the lowest mark of what is open."""
        log, topics = self._log, self._plan.topics
        marks = [owned.task.tick for _, owned in self._open()]
        if None in marks or not marks:
            return clock_log.first_counted(log, topics)
        lowest = min(mark[0] for mark in marks if mark is not None)
        counted = clock_log.counted(log, topics, before=lowest + 1)
        # Retention has taken ticks that a task here needs.
        if counted.last is None or counted.last.offset > lowest:
            for host, _ in self._open():
                host.observer.lost(host.stage.name, *clock_log.place(topics), lowest, counted.next)
        return counted

    def _open(self) -> list[tuple[StageHost, OwnedPartition]]:
        return [(host, owned) for host in self._hosts for owned in host.owned.values() if owned.open]

    def _hungry(self) -> bool:
        """Whether some task has few ticks left."""
        return any(len(owned.task.aligner.ticks) < TOGETHER for _, owned in self._open())

    async def _give(self, ticks: Iterable[Tick], start: int) -> None:
        yielded = perf_counter()
        for tick in ticks:
            for host, owned in self._open():
                if start != self._start:
                    return
                if owned.open:
                    await host.take_tick(owned, tick)
                if perf_counter() - yielded > YIELD_AFTER:
                    await asyncio.sleep(0)
                    yielded = perf_counter()

    async def _read_beside(self) -> None:
        """Read the inputs that turns wait for and of which nothing came for some time."""
        now, stood = monotonic(), self._stood
        self._stood = {}
        for host, owned in self._open():
            for name in owned.task.aligner.lacking:
                at = owned.task.aligner.inputs[name].next
                before, since = stood.get((owned, name), (at, now))
                self._stood[owned, name] = at, since if before == at else now
                # The last offsets before an end may hold nothing that Faust delivers: the end of a transaction, or what
                # compaction took.
                if before == at and now - since > STANDS_STILL:
                    await host.read_beside(owned, name)

    def _name_unnamed(self, counted: Counted) -> None:
        """Report inputs with records of which no tick says an end: a clock that is older than this worker knows no such topic."""
        unnamed = {
            (name, owned.task.partition)
            for _, owned in self._open()
            for name, source in owned.task.aligner.inputs.items()
            if source.records and (name, owned.task.partition) not in counted.ends
        }
        # Twice in a row, because a record may have come just after the newest tick.
        self._hosts[0].observer.unnamed({name for name, _ in unnamed & self._unnamed})
        self._unnamed = unnamed
