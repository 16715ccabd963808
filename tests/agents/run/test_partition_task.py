"""A task over a small stage: poison is set aside in order, a redo gives the same bytes, a snapshot is as good as going on."""

import json
import tracemalloc
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.engine import checkpoint_selection
from agents.engine.checkpoint_selection import CheckpointLedger
from agents.run.partition_task import SharedRecord, Task, TurnResult
from schemas.catalogue import Event
from schemas.names import Place
from streams.clock_rules import FILL, Tick
from streams.codec.event_codec import Codec, header
from streams.log.log_port import NewRecord, Record
from tests.support import ticks
from tests.support.small_pipeline import TILL, WEB, PipelineLog, stages

OOMS, METRICS = "oom-events", "pod-metrics"


@pytest.fixture
def bench() -> PipelineLog:
    return PipelineLog()


def make(bench: PipelineLog, **at: Any) -> Task:
    stage = stages()[0]
    return Task(stage, 0, topics=bench.topics, codec=bench.codec, positions=at.pop("positions", {OOMS: 0, METRICS: 0}), **at)


def records(*new: NewRecord) -> list[Record]:
    return [Record(n.topic, n.partition, offset, n.key, n.value, n.headers) for offset, n in enumerate(new)]


def feed(task: Task, name: str, *new: NewRecord) -> None:
    for record in records(*new):
        task.feed(name, record)


def reasons(taken: TurnResult) -> list[tuple[str, int, str]]:
    bodies = [json.loads(dead.value or b"") for dead in taken.dead]
    return [(b["topic"], b["offset"], b["reason"]) for b in bodies]


def test_poisoned_records_are_set_aside_in_the_order_of_inputs_and_offsets_and_the_rest_counts(bench: PipelineLog) -> None:
    task = make(bench)
    ooms, metrics = bench.topics.wire(OOMS), bench.topics.wire(METRICS)
    (good,) = bench.metrics(1, (WEB, 0.5, 100))
    feed(task, METRICS, NewRecord(metrics, 0, b"k", b"{"), good, NewRecord(metrics, 0, None, None), good)
    feed(task, OOMS, NewRecord(ooms, 0, b"k", b"\xff"))
    assert task.next_turn() is None
    task.take_tick(ticks.of(task, 5))
    taken = task.next_turn()
    assert taken is not None
    assert [(topic, offset) for topic, offset, _ in reasons(taken)] == [(ooms, 0), (metrics, 0), (metrics, 2)]
    assert (taken.turn, taken.records, taken.samples) == (5, 2, 2)
    recommended = json.loads(taken.decisions[0].value or b"")
    assert recommended["containers"][0]["target"] == {"cpu": 1.0, "memory": 100}
    assert header(taken.decisions[0], "cause") == f'["{Place(metrics, 0, 1)}","{Place(metrics, 0, 3)}"]'
    assert task.next_turn() is None


def test_an_event_that_the_stage_refuses_is_set_aside_with_the_stages_sentence(bench: PipelineLog) -> None:
    task = make(bench)
    feed(task, OOMS, bench.oom(1, WEB, 1001), bench.oom(1, WEB, 1000))
    task.take_tick(ticks.of(task, 5))
    taken = task.next_turn()
    assert taken is not None
    assert reasons(taken) == [(bench.topics.wire(OOMS), 0, "1001 restarts cannot be")]
    assert header(taken.dead[0], "ce_source") == "/ullage/adder/0"
    assert (taken.records, list(taken.decisions)) == (1, [])


def test_what_fills_up_a_partition_is_nothing(bench: PipelineLog) -> None:
    task = make(bench)
    wire = bench.topics.wire(METRICS)
    feed(task, METRICS, NewRecord(wire, 0, FILL, b""), NewRecord(wire, 0, FILL, b"anything"))
    task.take_tick(ticks.of(task, 9))
    taken = task.next_turn()
    assert taken is not None
    assert (taken.records, taken.dead, task.positions[METRICS]) == (0, [], 2)


def test_ticks_in_which_nothing_came_are_held_once_for_all_tasks(bench: PipelineLog) -> None:
    tasks = [make(bench) for _ in range(20)]
    tracemalloc.start()
    try:
        for number in range(1000):
            tick = Tick(number, 500 * number, f"tick-{number}", {})
            for task in tasks:
                task.take_tick(tick)
        took, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert took < 1000 * 700


def test_every_decision_carries_stage_partition_and_turn_in_its_id_and_goes_where_its_key_says(bench: PipelineLog) -> None:
    task = make(bench)
    feed(task, METRICS, *bench.metrics(1, (TILL, 1, 1), (WEB, 1, 1)))
    task.take_tick(ticks.of(task, 60_000))
    taken = task.next_turn()
    assert taken is not None
    keys = [TILL.key, "demo", WEB.key, "demo"]
    assert [(d.key or b"").decode() for d in taken.decisions] == keys
    assert [d.partition for d in taken.decisions] == [bench.topics.partition_of(k) for k in keys]
    assert header(taken.decisions[0], "ce_id") == f"adder/0/60000/recommended/{TILL.key}"
    assert header(taken.decisions[0], "ce_time") == "1970-01-01T00:01:00Z"


entries = st.lists(st.sampled_from(["web", "till", "poison", "refused", "tick"]), max_size=30)


@dataclass(frozen=True)
class Drawn:
    """Each input's log, and the ticks of a clock that has seen more and more of them."""

    logs: dict[str, list[Record]]
    ticks: list[Tick]


def logs(bench: PipelineLog, drawn: dict[str, list[str]]) -> Drawn:
    """Words of the inputs as records; at each tick of the scrapes the other input ends as far from its beginning."""
    made: dict[str, list[Record]] = {}
    cuts: list[tuple[int, int]] = []
    for name, words in drawn.items():
        new: list[NewRecord] = []
        for i, word in enumerate(words):
            if word == "tick":
                cuts += [(i, len(new))] if name == METRICS else []
            elif word == "poison":
                new.append(NewRecord(bench.topics.wire(name), 0, b"k", b"{"))
            elif name == OOMS:
                new.append(bench.oom(i, WEB, 5000 if word == "refused" else 1))
            else:
                new += bench.metrics(i, (WEB if word == "web" else TILL, i / 8, i))
        made[name] = records(*new)
    ends = [(i, {(METRICS, 0): end, (OOMS, 0): min(i, len(made[OOMS]))}) for i, end in cuts]
    return Drawn(made, [Tick(i, 1000 + i, f"tick-{i}", each) for i, each in ends])


def run(task: Task, drawn: Drawn) -> list[TurnResult]:
    for tick in drawn.ticks:
        task.take_tick(tick)
    for name, log in drawn.logs.items():
        for record in log[task.positions[name] :]:
            task.feed(name, record)
    return list(iter(task.next_turn, None))


class CountingCodec(Codec):
    """It counts the records that were read."""

    decoded = 0

    def decode(self, record: Record) -> Event:
        self.decoded += 1
        return super().decode(record)


@given(drawn=st.fixed_dictionaries({OOMS: entries, METRICS: entries}))
def test_what_two_tasks_read_from_the_same_records_is_read_once_and_gives_each_what_it_would_alone(
    drawn: dict[str, list[str]],
) -> None:
    bench = PipelineLog(1)
    made = logs(bench, drawn)
    alone = run(make(bench), made)
    bench.codec = codec = CountingCodec(bench.topics)
    shared = Drawn({name: [SharedRecord.of(record) for record in log] for name, log in made.logs.items()}, made.ticks)
    first, second = make(bench), make(bench)
    assert run(first, shared) == alone
    once = codec.decoded
    assert run(second, shared) == alone
    assert codec.decoded == once
    assert second.inputs == first.inputs


@given(drawn=st.fixed_dictionaries({OOMS: entries, METRICS: entries}), stop=st.integers(0, 8))
def test_a_snapshot_resumed_gives_the_same_bytes_as_never_having_stopped(drawn: dict[str, list[str]], stop: int) -> None:
    bench = PipelineLog(1)
    made = logs(bench, drawn)
    never_stopped = make(bench)
    whole = run(never_stopped, made)
    assert run(make(bench), made) == whole

    first = make(bench)
    for tick in made.ticks:
        first.take_tick(tick)
    for name, log in made.logs.items():
        for record in log:
            first.feed(name, record)
    before = [taken for _ in range(stop) if (taken := first.next_turn()) is not None]
    plan = CheckpointLedger("f").plan(
        turn=first.turn,
        positions=first.positions,
        dumps=[(c, first.state.dump(c)) for c in first.state.chunks()],
        inputs=first.inputs,
        tick=first.tick,
    )
    found = checkpoint_selection.read(dict([*plan.records, plan.mark])).found
    assert found is not None
    state = stages()[0].open(0)
    for chunk in sorted(found.chunks):
        state.load(chunk, found.chunks[chunk])
    resumed = make(bench, positions=found.mark.positions, turn=found.mark.turn, state=state)
    resumed.resume(found.mark.turn, positions=found.mark.positions, tick=found.mark.tick, inputs=found.mark.inputs)
    assert before + run(resumed, made) == whole
    assert resumed.inputs == never_stopped.inputs
