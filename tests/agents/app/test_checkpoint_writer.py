"""When a partition's checkpoint is written, and what else a host does after a turn."""

import asyncio
import gc
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agents.app.checkpoint_writer import TOGETHER, CheckpointWriter, Generation, committable, cut, in_parts
from agents.app.owned_partition import FEW, OwnedPartition, new_ledger
from agents.app.stage_host import StageHost
from agents.app.worker_observer import WorkerObserver
from agents.app.worker_plan import Pacing, WorkerPlan
from agents.run import pipeline, python_gc
from agents.settings.all_settings import Settings
from schemas.facts.pods import PodDeleted
from schemas.facts.usage import MetricsScraped
from schemas.names import PodName, Workload
from streams.clock_rules import FILL, Tick
from streams.codec.event_codec import Codec
from streams.log.kafka_connection import KafkaConnection
from streams.log.log_port import Record
from streams.topics import Topics
from tests.support import ticks

T = Topics("ullage", 2)
WEB = Workload("prod", "shop", "Deployment", "web")


class Producer:
    """It takes decisions, and any checkpoint."""

    has_room = True
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

    def __init__(self, pacing: Pacing | None = None) -> None:
        plan = WorkerPlan(KafkaConnection("nowhere"), T, pipeline.stages(Settings())[:1], pacing=pacing or Pacing())
        consumer, self.producer, self.changelog = SimpleNamespace(commit=self._commit), Producer(), Changelog()
        self.committed: list[dict[tuple[str, int], int]] = []
        wired: Any = {"consumer": consumer, "producer": self.producer, "observer": WorkerObserver(plan)}
        self.host = StageHost(plan.stages[0], plan, **wired)
        self.stage = plan.stages[0]
        task = self.host.task(0, positions=dict.fromkeys(self.stage.reads, 0))
        self.owned = self.host.owned[0] = OwnedPartition(task, new_ledger([]), {}, open=True)
        generation, changelog = Generation(0, asyncio.Lock()), self.changelog
        self.writer = CheckpointWriter([self.host], changelog=changelog, generation=generation, **wired)

    async def _commit(self, offsets: dict[tuple[str, int], int]) -> None:
        self.committed.append(offsets)

    def turn(self, number: int, *records: Record, partition: int = 0) -> None:
        owned = self.host.owned[partition]
        for record in records:
            self.host.feed(owned, T.topic(record.topic).name, record)
        took = self.host.take_tick(owned, ticks.of(owned.task, number))
        with pytest.raises(StopIteration):  # nothing in it waits, as the producer has room
            took.send(None)

    def facts(self, count: int) -> list[Record]:
        """So many records that say something, and neither usage nor nonsense."""
        first = self.owned.task.aligner.inputs["pod-changes"].next
        event = PodDeleted(datetime.fromtimestamp(60, UTC), WEB, PodName("shop", "web-1", "uid"))
        new = Codec(T).encode(event, topic="pod-changes", key=WEB.key, partition=0, source="/ullage/source/test")
        return [Record(new.topic, 0, first + n, new.key, new.value, new.headers) for n in range(count)]

    async def wrote(self, *, quiet: bool) -> bool:
        self.changelog.written.clear()
        await self.writer.write_round(quiet=quiet)
        return bool(self.changelog.written) and self.owned.ledger.marked == self.owned.task.turn


def scrape(offset: int = 0) -> Record:
    """Usage of one container, from which something is recommended in a later turn."""
    usage = (WEB.key,), ("web-1",), ("main",), np.array([0.5]), np.array([1e8])
    event = MetricsScraped(datetime.fromtimestamp(60, UTC), "prod", *usage)
    new = Codec(T).encode(event, topic="pod-metrics", key=WEB.key, partition=0, source="/ullage/source/test")
    return Record(new.topic, 0, offset, new.key, new.value, new.headers)


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


def test_few_records_wait_for_a_quiet_round_and_many_do_not() -> None:
    async def run() -> None:
        worker = Worker()
        worker.turn(500)
        assert await worker.wrote(quiet=False)
        worker.turn(1000, *worker.facts(FEW))
        assert not await worker.wrote(quiet=False)
        worker.turn(1500, *worker.facts(1))
        assert await worker.wrote(quiet=False), "together with those before they are many"
        worker.turn(2000, *worker.facts(1))
        assert not await worker.wrote(quiet=False)
        assert await worker.wrote(quiet=True)

    asyncio.run(run())


def test_a_checkpoint_after_a_scrape_waits_until_a_restart_would_have_much_to_fold() -> None:
    """A scrape changes nearly every row: one each minute would write the whole state 1,440 times a day."""

    async def run() -> None:
        worker = Worker(Pacing(samples=1))
        worker.turn(500)
        assert await worker.wrote(quiet=False)
        worker.turn(1000, scrape(0))
        assert not await worker.wrote(quiet=False), "one sample"
        assert await worker.wrote(quiet=True)
        worker.turn(1500, scrape(1))
        assert not await worker.wrote(quiet=False), "those of before are in the log"
        worker.turn(2000, scrape(2))
        assert await worker.wrote(quiet=False), "two samples"

    asyncio.run(run())


@pytest.mark.parametrize(("stages", "partitions", "rounds"), [(1, 1, 240), (7, 4, 240), (7, 8, 125), (7, 64, 30)])
def test_the_more_tasks_a_worker_has_the_sooner_comes_a_quiet_round(stages: int, partitions: int, rounds: int) -> None:
    """All of them would be taken again together."""
    writer = Worker().writer
    writer.hosts = tuple(SimpleNamespace(owned=dict.fromkeys(range(partitions))) for _ in range(stages))  # type: ignore[assignment]  # all it looks at
    assert writer.quiet_rounds(Pacing()) == rounds


def test_the_group_hears_once_a_round_from_where_on_partitions_are_wanted() -> None:
    async def run() -> None:
        worker = Worker()
        other = worker.host.task(1, positions=dict.fromkeys(worker.stage.reads, 0))
        worker.host.owned[1] = OwnedPartition(other, new_ledger([]), {}, open=True)
        other.aligner.inputs["policies"].skip_to(3)
        worker.turn(500)
        worker.turn(500, partition=1)
        assert await worker.wrote(quiet=False)
        wanted = {(T.wire(name), partition): 0 for name in worker.stage.reads for partition in (0, 1)}
        assert worker.committed == [{**wanted, (T.wire("policies"), 1): 3}]
        await worker.writer.write_round()
        assert len(worker.committed) == 1, "nothing was marked"

    asyncio.run(run())


def test_where_two_stages_read_an_input_the_lower_of_their_offsets_is_committed() -> None:
    hosts: list[Any] = [
        SimpleNamespace(wires={"policies": "p"}, owned={0: SimpleNamespace(marked={"policies": offset})}) for offset in (7, 3, 5)
    ]
    assert committable(hosts, 0) == {("p", 0): 3}
    assert committable(hosts, 1) == {}


def test_no_chunk_is_written_before_the_decisions_of_its_turn_are_durable() -> None:
    async def run() -> tuple[bool, bool]:
        worker = Worker()
        worker.turn(500)
        decision = asyncio.get_running_loop().create_future()
        worker.owned.unacked.append(decision)
        writing = asyncio.create_task(worker.writer.write_round())
        for _ in range(100):  # turns of the loop, which is all that it could need
            await asyncio.sleep(0)
        early = bool(worker.changelog.written)
        decision.set_result(None)
        await writing
        return early, bool(worker.changelog.written)

    assert asyncio.run(run()) == (False, True)


def test_a_checkpoint_that_a_rebalance_overtakes_has_no_mark_and_the_next_one_writes_every_chunk_into_a_new_family() -> None:
    async def run() -> None:
        worker = Worker()
        worker.turn(500)
        assert await worker.wrote(quiet=True)
        family = worker.owned.ledger.family
        worker.turn(60_000, scrape())
        write = worker.changelog.write

        async def overtaken(topic: str, partition: int, record: tuple[bytes, bytes | None]) -> int:
            worker.writer.generation.number += 1
            return await write(topic, partition, record)

        worker.changelog.write = overtaken  # type: ignore[method-assign]  # the rebalance comes while a chunk is written
        assert not await worker.wrote(quiet=True)
        assert [key for key, _ in worker.changelog.written if b"/mark/" in key] == []
        assert worker.owned.ledger.family != family
        assert {key.split(b"/", 1)[1].rpartition(b"/")[0].decode() for key, _ in cut(worker.owned).records} == set(
            worker.owned.task.state.chunks()
        )

    asyncio.run(run())


def test_small_chunks_are_written_together_and_large_ones_alone() -> None:
    small, large = (b"k", bytes(TOGETHER // 3)), (b"l", bytes(TOGETHER))
    parts = list(in_parts([small, small, small, large, small]))
    assert parts == [[small, small], [small], [large], [small]]
    assert list(in_parts([])) == []


def test_decisions_that_follow_from_the_clock_alone_wait_for_a_quiet_round() -> None:
    async def run() -> None:
        worker = Worker()
        worker.turn(60_000, scrape())
        assert await worker.wrote(quiet=False)
        before = worker.producer.sent
        worker.turn(7_200_000)
        assert worker.producer.sent == before + 2, "a recommendation, and its copy by cluster"
        assert not await worker.wrote(quiet=False)
        assert await worker.wrote(quiet=True)

    asyncio.run(run())


def test_garbage_is_looked_for_more_rarely_after_decisions_far_behind_the_newest_tick() -> None:
    async def run() -> tuple[int, int]:
        worker, first = Worker(), "pod-metrics"
        worker.host.feed(worker.owned, first, scrape())
        for number, policies in ((60_000, 1), (3_600_000, 1), (7_200_000, 2)):
            worker.owned.task.take_tick(Tick(number, number, f"tick-{number}", {(first, 0): 1, ("policies", 0): policies}))
        thresholds = []
        for offset in (0, 1):
            worker.host.feed(worker.owned, "policies", Record(T.wire("policies"), 0, offset, FILL, b""))
            thresholds.append(gc.get_threshold()[0])
        behind, near = thresholds
        return behind, near

    before = gc.get_threshold()
    python_gc.relax()
    behind, near = asyncio.run(run())
    relaxed, _ = gc.get_threshold()[0], gc.set_threshold(*before)
    assert behind > near == relaxed
