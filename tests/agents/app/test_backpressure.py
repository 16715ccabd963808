"""Inputs that run ahead are paused and read on from where they are wanted, also when a rebalance comes in between."""

import asyncio
from types import SimpleNamespace

from aiokafka.errors import IllegalStateError

from agents import pipeline
from agents.app.backpressure import Pauses
from agents.app.faust_consumer import Flow
from agents.app.owned_partition import Held, fresh
from agents.settings.tree import Settings
from agents.task import Task
from streams.codec.event_codec import Codec, tick
from streams.log.port import Record
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


def ahead(consumer: Consumer) -> tuple[Pauses, Held]:
    """The recommender with a whole segment of scrapes over the bound, and all other inputs behind."""
    stage = pipeline.stages(Settings())[0]
    task = Task(stage, 0, topics=T, codec=Codec(T), positions=dict.fromkeys(stage.reads, 0))
    held = Held(task, fresh([]), {}, open=True)
    pauses = Pauses(Flow(SimpleNamespace(consumer=consumer)), {name: T.wire(name) for name in stage.reads}, 1000)  # type: ignore[arg-type]  # a fake app
    task.feed("pod-metrics", Record(T.wire("pod-metrics"), 0, 0, b"k", b"x" * 2000, ()))
    ticked(held, "pod-metrics", 1)
    asyncio.run(pauses.look(held, "pod-metrics"))
    return pauses, held


def ticked(held: Held, name: str, offset: int) -> None:
    new = tick(T.wire(name), 0, 500)
    held.task.feed(name, Record(new.topic, 0, offset, new.key, new.value, new.headers))


def level(pauses: Pauses, held: Held) -> None:
    """The others' ticks come in and the turn is taken."""
    for name in held.task.stage.reads:
        if name != "pod-metrics":
            ticked(held, name, 0)
    assert held.task.next_turn() is not None
    asyncio.run(pauses.look(held, "policies"))


def test_an_input_over_the_bound_waits_and_is_read_on_when_the_others_came() -> None:
    consumer = Consumer()
    pauses, held = ahead(consumer)
    assert consumer.paused == {T.wire("pod-metrics")}
    level(pauses, held)
    assert (consumer.paused, consumer.sought, held.paused) == (set(), [(T.wire("pod-metrics"), 2)], set())


def test_a_partition_that_was_taken_away_before_the_seek_ends_nothing() -> None:
    consumer = Consumer()
    pauses, held = ahead(consumer)
    consumer.taken = True
    level(pauses, held)
    assert consumer.sought == []


def test_after_a_rebalance_nothing_is_resumed_that_recovery_has_not_opened() -> None:
    consumer = Consumer()
    pauses, held = ahead(consumer)
    held.open = False
    level(pauses, held)
    assert consumer.paused == {T.wire("pod-metrics")}
