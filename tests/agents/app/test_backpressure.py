"""Inputs that run ahead are paused and read on from where they are wanted, also when a rebalance comes in between."""

import asyncio
from types import SimpleNamespace

from aiokafka.errors import IllegalStateError

from agents import pipeline
from agents.app.backpressure import Backpressure
from agents.app.faust_consumer import FaustConsumer
from agents.app.owned_partition import OwnedPartition, new_ledger
from agents.app.stage_host import StageHost
from agents.app.worker_observer import WorkerObserver
from agents.app.worker_plan import WorkerPlan
from agents.partition_task import Task
from agents.settings.tree import Settings
from streams.codec.event_codec import Codec, tick
from streams.log.kafka_connection import KafkaConnection
from streams.log.log_port import Record
from streams.topics import Topics

T = Topics("ullage", 1)


class Producer:
    """As far as a turn with dead letters needs it."""

    def send_soon(self, _records: object) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    async def wait_for_room(self) -> None:
        """There is room."""


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
    asyncio.run(backpressure.update(owned, "pod-metrics"))
    return backpressure, owned


def ticked(owned: OwnedPartition, name: str, offset: int) -> None:
    new = tick(T.wire(name), 0, 500)
    owned.task.feed(name, Record(new.topic, 0, offset, new.key, new.value, new.headers))


def level(backpressure: Backpressure, owned: OwnedPartition) -> None:
    """The others' ticks come in and the turn is taken."""
    for name in owned.task.stage.reads:
        if name != "pod-metrics":
            ticked(owned, name, 0)
    assert owned.task.next_turn() is not None
    asyncio.run(backpressure.update(owned, "policies"))


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


def test_ticks_alone_fill_an_input_too_while_others_wait() -> None:
    consumer = Consumer()
    backpressure, owned = ahead(consumer)
    for offset in range(6):
        new = tick(T.wire("oom-events"), 0, 500 * (offset + 1))
        owned.task.feed("oom-events", Record(new.topic, 0, offset, new.key, new.value, new.headers))
        asyncio.run(backpressure.update(owned, "oom-events"))
    assert consumer.paused == {T.wire("pod-metrics"), T.wire("oom-events")}


def test_a_stage_buffers_no_more_of_an_input_that_it_shares_than_its_bound_and_nothing_is_lost() -> None:
    consumer = Consumer()
    plan = WorkerPlan(KafkaConnection("127.0.0.1:1"), T, pipeline.stages(Settings()), buffer=1000)
    fetched = FaustConsumer(SimpleNamespace(consumer=consumer))  # type: ignore[arg-type]  # a fake app
    host = StageHost(plan.stages[0], plan, consumer=fetched, producer=Producer(), observer=WorkerObserver(plan))  # type: ignore[arg-type]  # a fake
    begins = dict.fromkeys(host.wires, 0)
    owned = host.owned[0] = OwnedPartition(host.task(0, positions=begins), new_ledger([]), begins, open=True)

    def came(name: str, offset: int, number: int = 0) -> None:
        key, value = (b"k", b"x" * 900) if not number else (b"tick", tick(T.wire(name), 0, number).value)
        asyncio.run(host.handle(Record(T.wire(name), 0, offset, key, value, (), number)))

    policies = owned.task.aligner.inputs["policies"]
    came("policies", 0)
    came("policies", 1, 500)
    for offset in range(2, 50):
        came("policies", offset)
    assert (policies.next, len(policies.open), consumer.paused) == (2, 0, set())
    for name in plan.stages[0].reads[1:]:
        came(name, 0, 500)
    assert (owned.task.turn, consumer.sought) == (500, [(T.wire("policies"), 2)])
    came("policies", 2)
    assert (policies.next, len(policies.open)) == (3, 1)
