"""When a partition's checkpoint is written."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np

from agents import pipeline
from agents.app.checkpoint_writer import CheckpointWriter, Generation
from agents.app.owned_partition import OwnedPartition, new_ledger
from agents.app.stage_host import StageHost
from agents.app.worker_observer import WorkerObserver
from agents.app.worker_plan import WorkerPlan
from agents.settings.tree import Settings
from schemas.facts.usage import MetricsScraped
from streams.codec.event_codec import Codec, tick
from streams.log.kafka_connection import KafkaConnection
from streams.log.log_port import Record
from streams.topics import Topics

T = Topics("ullage", 1)


class Producer:
    """It takes decisions, and any checkpoint."""

    bounds = SimpleNamespace(most=lambda _topic: 1 << 20, refusal=lambda _record: None)

    def __init__(self) -> None:
        self.sent = 0

    def send_soon(self, records: Sequence[object]) -> asyncio.Future[None]:
        self.sent += len(records)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


class Changelog:
    """What is written."""

    def __init__(self) -> None:
        self.written: list[tuple[bytes, bytes | None]] = []

    async def write(self, _topic: str, _partition: int, record: tuple[bytes, bytes | None]) -> int:
        self.written.append(record)
        return len(self.written)


class Worker:
    """A recommender's partition, as far as its checkpoints need it."""

    def __init__(self) -> None:
        plan = WorkerPlan(KafkaConnection("nowhere"), T, pipeline.stages(Settings())[:1])
        consumer, self.producer, self.changelog = SimpleNamespace(commit=self._commit), Producer(), Changelog()
        wired: Any = {"consumer": consumer, "producer": self.producer, "observer": WorkerObserver(plan)}
        self.host = StageHost(plan.stages[0], plan, **wired)
        self.stage = plan.stages[0]
        task = self.host.task(0, positions=dict.fromkeys(self.stage.reads, 0))
        self.owned = self.host.owned[0] = OwnedPartition(task, new_ledger([]), {}, open=True)
        generation, changelog = Generation(0, asyncio.Lock()), self.changelog
        self.writer = CheckpointWriter([self.host], changelog=changelog, generation=generation, **wired)

    async def _commit(self, _offsets: object) -> None:
        """There is a group."""

    def turn(self, number: int, *records: Record) -> None:
        for record in records:
            self.host.feed(self.owned, T.topic(record.topic).name, record)
        for name in self.stage.reads:
            new = tick(T.wire(name), 0, number)
            offset = self.owned.task.aligner.inputs[name].next
            self.host.feed(self.owned, name, Record(new.topic, 0, offset, new.key, new.value, new.headers))

    async def wrote(self, *, quiet: bool) -> bool:
        self.changelog.written.clear()
        await self.writer.write_round(quiet=quiet)
        return bool(self.changelog.written) and self.owned.ledger.marked == self.owned.task.turn


def test_where_nothing_but_ticks_came_a_checkpoint_waits_for_a_quiet_round() -> None:
    async def run() -> None:
        worker = Worker()
        worker.turn(500)
        assert await worker.wrote(quiet=False), "the first one writes everything"
        worker.turn(1000)
        assert not await worker.wrote(quiet=False)
        assert await worker.wrote(quiet=True)
        worker.turn(1500, Record(T.wire("policies"), 0, worker.owned.task.aligner.inputs["policies"].next, b"k", b"no event"))
        worker.turn(2000)
        assert await worker.wrote(quiet=False), "a record came, if only one that was set aside"
        worker.turn(2500)
        assert not await worker.wrote(quiet=False)

    asyncio.run(run())


def test_decisions_that_follow_from_the_clock_alone_wait_for_a_quiet_round() -> None:
    async def run() -> None:
        worker = Worker()
        usage = ("prod/shop/Deployment/web",), ("web-1",), ("main",), np.array([0.5]), np.array([1e8])
        event = MetricsScraped(datetime.fromtimestamp(60, UTC), "prod", *usage)
        new = Codec(T).encode(event, topic="pod-metrics", key=usage[0][0], partition=0, source="/ullage/source/test")
        worker.turn(60_000, Record(new.topic, 0, 0, new.key, new.value, new.headers))
        assert await worker.wrote(quiet=False)
        before = worker.producer.sent
        worker.turn(7_200_000)
        assert worker.producer.sent == before + 2, "a recommendation, and its copy by cluster"
        assert not await worker.wrote(quiet=False)
        assert await worker.wrote(quiet=True)

    asyncio.run(run())
