"""Inputs that run ahead are paused and read on from where they are wanted, also when a rebalance comes in between."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from aiokafka.errors import IllegalStateError

from agents.app.backpressure import Backpressure
from agents.app.faust_consumer import FaustConsumer
from agents.app.owned_partition import OwnedPartition, new_ledger
from agents.app.stage_host import StageHost
from agents.app.worker_observer import WorkerObserver
from agents.app.worker_plan import WorkerPlan
from agents.engine.turn_aligner import Input
from agents.run import pipeline
from agents.run.partition_task import Task
from agents.settings.all_settings import Settings
from streams.codec.event_codec import Codec, tick
from streams.log.kafka_connection import KafkaConnection
from streams.log.log_port import LEFT_OUT, LEFT_OUT_TO, Record
from streams.topics import Topics

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
    backpressure = Backpressure(fetched, wires, 1000, alone=frozenset(stage.reads if alone else ()))
    task.feed("pod-metrics", Record(T.wire("pod-metrics"), 0, 0, b"k", b"x" * 2000, ()))
    ticked(owned, "pod-metrics", 1)
    came(backpressure, owned, "pod-metrics")
    return backpressure, owned


def came(backpressure: Backpressure, owned: OwnedPartition, name: str) -> None:
    """What a stage host does after a record of this input."""
    backpressure.hold(owned, name)
    if owned.held:
        asyncio.run(backpressure.release(owned))


def ticked(owned: OwnedPartition, name: str, offset: int) -> None:
    new = tick(T.wire(name), 0, 500)
    owned.task.feed(name, Record(new.topic, 0, offset, new.key, new.value, new.headers))


def level(backpressure: Backpressure, owned: OwnedPartition) -> None:
    """The others' ticks come in and the turn is taken."""
    for name in owned.task.stage.reads:
        if name != "pod-metrics":
            ticked(owned, name, 0)
    assert owned.task.next_turn() is not None
    came(backpressure, owned, "policies")


def test_an_input_over_the_bound_waits_and_is_read_on_when_the_others_came() -> None:
    consumer = Consumer()
    backpressure, owned = ahead(consumer)
    assert consumer.paused == {T.wire("pod-metrics")}
    level(backpressure, owned)
    assert (consumer.paused, consumer.sought, owned.held) == (set(), [(T.wire("pod-metrics"), 2)], set())


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
    assert (consumer.sought, owned.held) == ([(T.wire("pod-metrics"), 2)], set())


def test_an_input_is_read_on_only_once_half_of_its_bound_is_free() -> None:
    consumer = Consumer()
    backpressure, owned = ahead(consumer)
    source = owned.task.aligner.inputs["pod-metrics"]
    released = []
    for size in (500, 299):  # 200 bytes more are the segment's own
        source.size = size
        asyncio.run(backpressure.release(owned))
        released.append("pod-metrics" not in owned.held)
    assert released == [False, True]


def test_an_input_that_has_a_tick_is_held_and_its_records_after_the_tick_are_kept() -> None:
    consumer = Consumer()
    backpressure, owned = ahead(consumer)
    owned.task.feed("pod-metrics", Record(T.wire("pod-metrics"), 0, 2, b"k", b"y" * 2000, ()))
    came(backpressure, owned, "pod-metrics")
    assert (owned.skimmed, owned.held, len(owned.task.aligner.inputs["pod-metrics"].open)) == (set(), {"pod-metrics"}, 1)


def test_ticks_alone_fill_an_input_too_while_others_wait() -> None:
    consumer = Consumer()
    backpressure, owned = ahead(consumer)
    for offset in range(6):
        new = tick(T.wire("oom-events"), 0, 500 * (offset + 1))
        owned.task.feed("oom-events", Record(new.topic, 0, offset, new.key, new.value, new.headers))
        came(backpressure, owned, "oom-events")
    assert consumer.paused == {T.wire("pod-metrics"), T.wire("oom-events")}


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
        monkeypatch.setattr("agents.app.log_reader.records_before", self.records_before)

    async def records_before(self, _where: object, came: Record, *, start: int, **_: object) -> AsyncIterator[list[Record]]:
        self.read.append((T.short(came.topic), start, came.offset))
        yield self.log[came.topic][start : came.offset]

    def came(self, name: str, offset: int, number: int = 0, *, told: bool = True) -> None:
        """A record of 700 bytes, or a tick, is in the log; and Faust delivers it, if `told`."""
        key, value = (b"k", b"x" * 700) if not number else (b"tick", tick(T.wire(name), 0, number).value)
        kept = self.log.setdefault(T.wire(name), [])
        assert len(kept) in (offset, 50)
        kept.append(Record(T.wire(name), 0, offset, key, value, (), number))
        if told:
            asyncio.run(self.host.handle(kept[-1]))

    def others_tick(self) -> None:
        """Every input but the policies gets its first tick."""
        for name in self.host.stage.reads:
            if name != "policies":
                self.came(name, 0, 500)

    def input(self, name: str) -> Input[Record]:
        return self.owned.task.aligner.inputs[name]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def test_an_input_without_a_tick_is_not_kept_beyond_the_bound_and_read_again_when_one_comes(site: Site) -> None:
    for offset in range(40):
        site.came("policies", offset)
        assert site.input("policies").buffered <= 1000
    assert (site.input("policies").next, site.read) == (40, [])
    site.others_tick()
    site.came("policies", 40, 500)
    assert site.read == [("policies", 0, 40)], "all of the segment is read again"
    assert site.owned.task.turn == 500
    assert site.owned.task.positions["policies"] == 41
    site.came("policies", 41)
    assert len(site.input("policies").open) == 1, "what follows is kept as ever"


def test_a_tick_that_was_jumped_over_while_skimming_is_found(site: Site) -> None:
    for offset in range(10):
        site.came("policies", offset)
    site.came("policies", 10, 500, told=False)
    site.others_tick()
    site.came("policies", 11)
    assert (site.owned.task.turn, site.owned.task.positions["policies"]) == (500, 11)
    assert site.read == [("policies", 10, 11), ("policies", 0, 11)], "first the gap, then all of the segment"


def test_a_hole_in_the_log_ends_no_skimming(site: Site) -> None:
    for offset in range(10):
        site.came("policies", offset)
    for offset in (10, 11):
        site.came("policies", offset, told=False)
    site.came("policies", 12)
    assert (site.read, site.input("policies").next) == ([("policies", 10, 12)], 13)
    assert site.input("policies").buffered == 0


def test_a_tick_that_counts_for_nothing_ends_no_skimming(site: Site) -> None:
    for offset in range(5):
        site.came("policies", offset)
    site.came("policies", 5, -1)
    assert (site.read, site.owned.skimmed) == ([], {"policies"})
    site.owned.rewind()
    assert site.owned.skimmed == set()


def test_a_stage_buffers_no_more_of_an_input_that_it_shares_than_its_bound_and_nothing_is_lost(site: Site) -> None:
    policies = site.input("policies")
    site.came("policies", 0)
    site.came("policies", 1, 500)
    for offset in range(2, 50):
        site.came("policies", offset)
    assert (policies.next, len(policies.open), site.consumer.paused) == (2, 0, set())
    site.others_tick()
    assert (site.owned.task.turn, site.consumer.sought) == (500, [(T.wire("policies"), 2)])
    site.came("policies", 2)
    assert (policies.next, len(policies.open)) == (3, 1)


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


def test_a_partition_that_skims_up_to_its_end_has_caught_up(site: Site) -> None:
    site.owned.goals = {"policies": 10}
    seen = []
    for offset in range(10):
        site.came("policies", offset)
        seen.append(site.owned.caught_up)
    assert site.owned.skimmed == {"policies"}
    assert seen == [False] * 9 + [True]


def test_a_record_that_stands_for_what_was_left_out_may_come_past_the_end(site: Site) -> None:
    site.owned.goals = {"policies": 3}
    left_out = ((LEFT_OUT, b"a batch that cannot be read"), (LEFT_OUT_TO, b"5"))
    asyncio.run(site.host.handle(Record(T.wire("policies"), 0, 0, None, None, left_out)))
    assert (site.owned.caught_up, site.input("policies").next) == (True, 6)
