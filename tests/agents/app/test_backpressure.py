"""Inputs that run ahead are paused and read on from where they are wanted, also when a rebalance comes in between."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from aiokafka.errors import IllegalStateError
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.app.faust_internals import FaustConsumer
from agents.app.log_reader import Stretch
from agents.app.owned_partition import OwnedPartition, new_ledger
from agents.app.stage_host import Backpressure, BufferBudget, StageHost
from agents.app.worker_observer import WorkerObserver
from agents.app.worker_plan import WorkerPlan
from agents.engine.turn_aligner import Input
from agents.run import pipeline
from agents.run.partition_task import Task
from agents.settings.all_settings import Settings
from streams.clock_rules import Tick
from streams.codec.event_codec import Codec
from streams.log.kafka_connection import KafkaConnection
from streams.log.log_port import LEFT_OUT, LEFT_OUT_TO, Record
from streams.topics import Topics
from tests.support import ticks

T = Topics("ullage", 1)


class Producer:
    """As far as a turn with dead letters needs it. There is room at first."""

    has_room = True
    waited = 0

    def send_soon(self, _records: object) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    async def wait_for_room(self) -> None:
        """Then there is room."""
        self.waited += not self.has_room
        self.has_room = True


class FullProducer(Producer):
    """After each turn there is no room until somebody waits for it."""

    turns = 0

    def send_soon(self, _records: object) -> asyncio.Future[None]:
        self.has_room, self.turns = False, self.turns + 1
        return super().send_soon(_records)


class Consumer:
    """Faust's consumer, as far as a pause needs it. `taken`: the partition is no longer ours when it comes to seek."""

    def __init__(self) -> None:
        self.paused: set[str] = set()
        self.sought: list[tuple[str, int]] = []
        self.taken = False

    def pause_partitions(self, tps: set[object]) -> None:
        self.paused |= {tp.topic for tp in tps}  # type: ignore[attr-defined]  # Faust's TP

    def resume_partitions(self, tps: set[object]) -> None:
        self.paused -= {tp.topic for tp in tps}  # type: ignore[attr-defined]  # Faust's TP

    async def seek(self, tp: object, offset: int) -> None:
        if self.taken:
            raise IllegalStateError(f"No current assignment for partition {tp}")
        self.sought.append((tp.topic, offset))  # type: ignore[attr-defined]  # Faust's TP


def ahead(consumer: Consumer, *, alone: bool = True) -> tuple[Backpressure, OwnedPartition]:
    """The recommender with a whole segment of scrapes over the bound, and all other inputs behind."""
    stage = pipeline.stages(Settings())[0]
    task = Task(stage, 0, topics=T, codec=Codec(T), positions=dict.fromkeys(stage.reads, 0))
    owned = OwnedPartition(task, new_ledger([]), {}, open=True)
    wires, fetched = {name: T.wire(name) for name in stage.reads}, FaustConsumer(SimpleNamespace(consumer=consumer))  # type: ignore[arg-type]  # a fake app
    backpressure = Backpressure(fetched, wires, BufferBudget(1000), alone=frozenset(stage.reads if alone else ()))
    task.feed("pod-metrics", Record(T.wire("pod-metrics"), 0, 0, b"k", b"x" * 2000, ()))
    came(backpressure, owned, "pod-metrics")
    return backpressure, owned


def came(backpressure: Backpressure, owned: OwnedPartition, name: str) -> None:
    """What a stage host does after a record of this input."""
    backpressure.budget.count([owned])
    backpressure.hold(owned, name)
    if owned.held:
        asyncio.run(backpressure.release(owned))


def level(backpressure: Backpressure, owned: OwnedPartition) -> None:
    """A tick comes in and the turn is taken."""
    owned.task.take_tick(ticks.of(owned.task, 500))
    assert owned.task.next_turn() is not None
    came(backpressure, owned, "policies")


def test_an_input_over_the_bound_waits_and_is_read_on_when_it_was_taken() -> None:
    consumer = Consumer()
    backpressure, owned = ahead(consumer)
    assert consumer.paused == {T.wire("pod-metrics")}
    level(backpressure, owned)
    assert (consumer.paused, consumer.sought, owned.held) == (set(), [(T.wire("pod-metrics"), 1)], set())


def test_a_partition_that_was_taken_away_before_the_seek_ends_nothing() -> None:
    consumer = Consumer()
    backpressure, owned = ahead(consumer)
    consumer.taken = True
    level(backpressure, owned)
    assert consumer.sought == []


def test_after_a_rebalance_nothing_is_resumed_that_recovery_has_not_opened() -> None:
    consumer = Consumer()
    backpressure, owned = ahead(consumer)
    owned.open = False
    level(backpressure, owned)
    assert consumer.paused == {T.wire("pod-metrics")}


def test_an_input_that_others_read_too_goes_on_for_them_and_is_read_again_when_it_is_wanted() -> None:
    consumer = Consumer()
    backpressure, owned = ahead(consumer, alone=False)
    assert (consumer.paused, owned.held) == (set(), {"pod-metrics"})
    level(backpressure, owned)
    assert (consumer.sought, owned.held) == ([(T.wire("pod-metrics"), 1)], set())


def test_an_input_is_read_on_only_once_half_of_the_budget_is_free() -> None:
    consumer = Consumer()
    backpressure, owned = ahead(consumer)
    source = owned.task.aligner.inputs["pod-metrics"]
    released = []
    for size in (500, 499):
        source.size = backpressure.budget.size = size
        asyncio.run(backpressure.release(owned))
        released.append("pod-metrics" not in owned.held)
    assert released == [False, True]


class Site:
    """The first stage in a worker that buffers 1,000 bytes of an input, and a log that can be read beside Faust."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.consumer, self.producer, self.read = Consumer(), Producer(), list[tuple[str, int, int]]()
        plan = WorkerPlan(KafkaConnection("127.0.0.1:1"), T, pipeline.stages(Settings()), buffer=1000)
        fetched = FaustConsumer(SimpleNamespace(consumer=self.consumer))  # type: ignore[arg-type]  # a fake app
        self.host = StageHost(plan.stages[0], plan, consumer=fetched, producer=self.producer, observer=WorkerObserver(plan))  # type: ignore[arg-type]  # a fake
        begins = dict.fromkeys(self.host.wires, 0)
        self.owned = self.host.owned[0] = OwnedPartition(self.host.task(0, positions=begins), new_ledger([]), begins, open=True)
        self.log: dict[str, list[Record]] = {}
        monkeypatch.setattr("agents.app.log_reader.read_stretch", self.read_stretch)

    async def read_stretch(self, _where: object, stretch: Stretch, **_: object) -> AsyncIterator[tuple[list[Record], int]]:
        self.read.append((T.short(stretch.place[0]), stretch.start, stretch.end))
        yield [r for r in self.log.get(stretch.place[0], []) if stretch.start <= r.offset < stretch.end], stretch.end

    def came(self, name: str, offset: int, *, told: bool = True) -> None:
        """A record of 700 bytes is in the log; and Faust delivers it, if `told`."""
        kept = self.log.setdefault(T.wire(name), [])
        kept.append(Record(T.wire(name), 0, offset, b"k", b"x" * 700, ()))
        if told:
            asyncio.run(self.host.handle(kept[-1]))

    def tick(self, number: int, **ends: int) -> None:
        moved = {(name.replace("_", "-"), 0): end for name, end in ends.items()}
        asyncio.run(self.host.take_tick(self.owned, Tick(number, number, f"tick-{number}", moved)))

    def input(self, name: str) -> Input[Record]:
        return self.owned.task.aligner.inputs[name]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def test_an_input_is_held_while_no_turn_wants_it_and_read_on_for_the_turn_that_does(site: Site) -> None:
    policies = site.input("policies")
    for offset in range(10):
        site.came("policies", offset)
    assert (policies.next, len(policies.records), site.owned.held) == (2, 2, {"policies"})
    site.tick(500, policies=10)
    assert (site.owned.held, site.consumer.sought, site.owned.task.turn) == (set(), [(T.wire("policies"), 2)], -1)
    for record in site.log[T.wire("policies")]:  # Faust delivers some of them again
        asyncio.run(site.host.handle(record))
    assert (site.owned.task.turn, site.owned.task.positions["policies"]) == (500, 10)


def test_a_record_that_was_jumped_over_is_read_beside_faust(site: Site) -> None:
    site.came("policies", 0, told=False)
    site.came("policies", 1)
    assert (site.read, site.input("policies").next) == ([("policies", 0, 1)], 2)


def test_last_offsets_that_hold_nothing_are_read_beside_faust(site: Site) -> None:
    site.came("policies", 0)
    site.tick(500, policies=3, pod_metrics=1)
    assert site.owned.task.aligner.lacking == ("policies", "pod-metrics")
    asyncio.run(site.host.read_beside(site.owned, "policies"))
    assert site.owned.task.turn == -1
    site.came("pod-metrics", 0, told=False)
    asyncio.run(site.host.read_beside(site.owned, "pod-metrics"))
    site.came("pod-metrics", 0)  # Faust delivers it after all
    assert (site.owned.task.turn, site.input("pod-metrics").records) == (500, deque())


def test_a_full_producer_is_waited_for(site: Site) -> None:
    site.producer.has_room = False
    site.came("policies", 0)
    assert (site.producer.waited, site.input("policies").next) == (1, 1)


def test_a_partition_has_caught_up_once_every_input_has_come_to_its_end(site: Site) -> None:
    site.owned.goals = {"policies": 2, "pod-metrics": 1}
    seen = []
    for name, offset in (("policies", 0), ("pod-metrics", 0), ("policies", 1)):
        site.came(name, offset)
        seen.append(site.owned.caught_up)
    assert seen == [False, False, True]


def test_a_record_that_stands_for_what_was_left_out_may_come_past_the_end(site: Site) -> None:
    site.owned.goals = {"policies": 3}
    left_out = ((LEFT_OUT, b"a batch that cannot be read"), (LEFT_OUT_TO, b"5"))
    asyncio.run(site.host.handle(Record(T.wire("policies"), 0, 0, None, None, left_out)))
    assert (site.owned.caught_up, site.input("policies").next) == (True, 6)


def test_turns_that_complete_at_once_wait_for_room_one_by_one(site: Site) -> None:
    site.host.producer = producer = FullProducer()  # type: ignore[assignment]  # a fake
    site.came("policies", 0, told=False)
    site.came("policies", 1, told=False)
    for number in (1, 2, 3):
        site.tick(500 * number, policies=number)
    before = producer.waited
    site.came("policies", 2)  # those before it are read beside Faust, and complete three turns
    assert (site.owned.task.turn, producer.turns, producer.waited - before) == (1500, 3, 3)


PLAN = WorkerPlan(KafkaConnection("127.0.0.1:1"), T, pipeline.stages(Settings()))
INPUTS = len(PLAN.inputs())


class Delivery:
    """All stages of a worker with one budget, a log with one partition, and Faust that delivers what is not paused."""

    def __init__(self, budget: int, log: list[list[int]]) -> None:
        """`log`: for each input, the bytes of its records."""
        plan = PLAN
        self.observer, self.budget, self.consumer = WorkerObserver(plan), BufferBudget(budget), Consumer()
        self.log = {
            wire: [Record(wire, 0, n, b"k", b"x" * size, ()) for n, size in enumerate(sizes)]
            for wire, sizes in zip(plan.inputs(), log, strict=True)
        }
        self.at = dict.fromkeys(self.log, 0)
        self.hosts = []
        for stage in plan.stages:
            fetched = FaustConsumer(SimpleNamespace(consumer=self.consumer))  # type: ignore[arg-type]  # a fake app
            host = StageHost(stage, plan, consumer=fetched, producer=Producer(), observer=self.observer, budget=self.budget)  # type: ignore[arg-type]  # a fake
            begins = dict.fromkeys(host.wires, 0)
            host.owned[0] = OwnedPartition(host.task(0, positions=begins), new_ledger([]), begins, open=True)
            self.hosts.append(host)
        self.budget.count(host.owned[0] for host in self.hosts)

    async def read_stretch(self, _where: object, stretch: Stretch, **_: object) -> AsyncIterator[tuple[list[Record], int]]:
        yield self.log[stretch.place[0]][stretch.start : stretch.end], stretch.end

    @property
    def more(self) -> list[str]:
        """The topics of which something can be delivered."""
        for topic, offset in self.consumer.sought:
            self.at[topic] = offset
        self.consumer.sought.clear()
        return [wire for wire, records in self.log.items() if self.at[wire] < len(records) and wire not in self.consumer.paused]

    async def deliver(self, wire: str) -> None:
        record = self.log[wire][self.at[wire]]
        self.at[wire] += 1
        for host in self.hosts:
            if wire in host.names:
                await host.handle(record)

    async def tick(self, tick: Tick) -> None:
        for host in self.hosts:
            await host.take_tick(host.owned[0], tick)

    async def read_beside(self) -> None:
        """What the clock's reader does when nothing came of an input for a second."""
        for host in self.hosts:
            for name in host.owned[0].task.aligner.lacking:
                await host.read_beside(host.owned[0], name)

    @property
    def unwanted(self) -> int:
        """Bytes that wait and that no tick wants yet."""
        aligners = [host.owned[0].task.aligner for host in self.hosts]
        return sum(
            sum(size for offset, _, size in i.records if offset >= a.wanted(n)) for a in aligners for n, i in a.inputs.items()
        )


LOGS = st.lists(st.lists(st.integers(1, 900), max_size=12), min_size=INPUTS, max_size=INPUTS)


@settings(max_examples=25)
@given(st.integers(1, 20_000), LOGS, st.randoms(use_true_random=False))
def test_however_small_the_budget_every_turn_ends_and_what_waits_for_a_tick_is_bounded(
    budget: int, log: list[list[int]], chance: Random
) -> None:
    site = Delivery(budget, log)
    ends, number, largest = dict.fromkeys(site.log, 0), 0, 900 + 251

    async def play() -> None:
        nonlocal number
        while number < 10 or site.more:
            if (more := site.more) and chance.random() < 0.8:
                await site.deliver(chance.choice(more))
            else:
                number += 1
                last = number >= 10
                for wire, records in site.log.items():
                    ends[wire] = len(records) if last else chance.randint(ends[wire], len(records))
                await site.tick(Tick(number, number, f"t{number}", {(T.short(wire), 0): end for wire, end in ends.items()}))
            inputs = [i for host in site.hosts for i in host.owned[0].task.aligner.inputs.values()]
            assert site.budget.size == sum(i.size for i in inputs)
            assert site.unwanted <= budget + len(inputs) * (site.budget.share + largest)

        for _ in range(number):  # a tick each time
            await site.read_beside()

    with patch("agents.app.log_reader.read_stretch", site.read_stretch):
        asyncio.run(play())
    assert {host.owned[0].task.turn for host in site.hosts} == {number}
    assert site.budget.size == 0


def test_while_no_tick_comes_the_budget_fills_once_and_no_more() -> None:
    budget = 20_000
    site = Delivery(budget, [[500] * 100] * INPUTS)

    async def play() -> None:
        while more := site.more:
            await site.deliver(more[0])

    asyncio.run(play())
    inputs = sum(len(host.wires) for host in site.hosts)
    # Each input may have its share although the sum is over, and the record that went over it.
    assert budget < site.unwanted <= budget + inputs * (site.budget.share + 751)


def test_what_fills_the_buffer_while_no_clock_ticks_is_said_by_readiness_and_a_metric(site: Site) -> None:
    now = 0.0
    site.host.observer = observer = WorkerObserver(site.host.plan, clock=lambda: now)
    where = {"stage": "recommender", "partition": "0", "topic": "policies"}
    for offset in range(10):
        site.came("policies", offset)
    now = 4.9
    assert not any("policies" in reason for reason in observer.own_reasons())
    now = 5.0
    assert "'policies' is read no further: what came fills worker.buffer, and no tick takes it" in observer.own_reasons()
    assert observer.registry.get_sample_value("ullage_input_held", where) == 1.0
    site.tick(500, policies=10)
    assert observer.registry.get_sample_value("ullage_input_held", where) is None
    assert not any("policies" in reason for reason in observer.own_reasons())
