"""Inputs that run ahead are paused and read on from where they are wanted, also when a rebalance comes in between."""

import asyncio
from types import SimpleNamespace

from aiokafka.errors import IllegalStateError

from agents import pipeline
from agents.app.backpressure import Backpressure
from agents.app.faust_consumer import FaustConsumer
from agents.app.owned_partition import OwnedPartition, new_ledger
from agents.partition_task import Task
from agents.settings.tree import Settings
from streams.codec.event_codec import Codec, tick
from streams.log.log_port import Record
from streams.topics import Topics

T = Topics("ullage", 1)


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


def ahead(consumer: Consumer) -> tuple[Backpressure, OwnedPartition]:
    """The recommender with a whole segment of scrapes over the bound, and all other inputs behind."""
    stage = pipeline.stages(Settings())[0]
    task = Task(stage, 0, topics=T, codec=Codec(T), positions=dict.fromkeys(stage.reads, 0))
    owned = OwnedPartition(task, new_ledger([]), {}, open=True)
    backpressure = Backpressure(
        FaustConsumer(SimpleNamespace(consumer=consumer)), {name: T.wire(name) for name in stage.reads}, 1000
    )  # type: ignore[arg-type]  # a fake app
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
    assert (consumer.paused, consumer.sought, owned.paused) == (set(), [(T.wire("pod-metrics"), 2)], set())


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
