"""What a worker tells while it takes no turn: a metric must not stand still because the partition does."""

import asyncio

from agents import pipeline
from agents.app.checkpoint_writer import Epoch
from agents.app.owned_partition import Held, fresh
from agents.app.recovery import Recovery
from agents.app.stage_host import Host
from agents.app.worker_from_settings import plan
from agents.app.worker_observer import Watch
from agents.app.worker_plan import Plan
from agents.settings.tree import Settings
from streams.codec.event_codec import tick
from streams.log.connection import Connection
from streams.log.port import Record
from streams.topics import Topics

TASK = {"stage": "recommender", "partition": "0"}


def hosted() -> tuple[Host, Held, Watch]:
    """The recommender with partition 0 open and caught up. Neither Faust nor Kafka is needed until a record is to be sent."""
    topics = Topics("ullage", 1)
    of = Plan(Connection("127.0.0.1:1"), topics, pipeline.stages(Settings())[:1])
    watch = Watch(of)
    host = Host(of.stages[0], of, flow=None, outbox=None, watch=watch)  # type: ignore[arg-type]  # not asked for anything here
    begins = dict.fromkeys(host.wires, 0)
    held = host.held[0] = Held(host.task(0, positions=begins), fresh([]), begins, open=True)
    watch.assigned([("recommender", 0)])
    watch.opened(held)
    return host, held, watch


def ticked(host: Host, held: Held, name: str, offset: int, number: int) -> None:
    """One tick in one input."""
    new = tick(host.wires[name], 0, number)
    host.feed(held, name, Record(new.topic, 0, offset, new.key, new.value, new.headers))


def test_an_input_that_gets_no_ticks_lets_the_lag_grow_and_the_worker_is_not_ready() -> None:
    host, held, watch = hosted()
    for name in host.wires:
        ticked(host, held, name, 0, 1_000)
    assert watch.metrics.caught_up.reasons() == []
    ticked(host, held, "pod-metrics", 1, 8_000)
    ticked(host, held, "pod-metrics", 2, 16_000)
    assert watch.registry.get_sample_value("ullage_turn_lag_seconds", TASK) == 15.0
    assert watch.metrics.caught_up.reasons() == ["recommender/0 is 15.0 s of event time behind, more than 10.0 s"]


def test_a_worker_is_not_ready_while_its_partitions_are_taken_from_it() -> None:
    host, held, watch = hosted()
    Recovery((host,), None, epoch=Epoch(0, asyncio.Lock()), watch=watch).revoked()  # type: ignore[arg-type]  # Faust is not asked
    assert not held.open
    assert watch.metrics.caught_up.reasons() == ["recommender/0 is not open: its state is being recovered"]
    assert watch.registry.get_sample_value("ullage_partitions_open", {"stage": "recommender"}) == 0


def test_a_worker_with_rare_ticks_is_ready_between_two_of_them() -> None:
    assert plan(Settings()).behind == 10.0
    assert plan(Settings(clock={"period_ms": 60_000})).behind == 120.0  # type: ignore[arg-type]  # pydantic makes the part
