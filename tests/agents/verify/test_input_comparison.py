"""Inputs that changed without changing a decision: the digests in the workers' marks find them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from agents.engine.input_digest import InputDigests
from agents.engine.stage import Stage
from agents.run.stage_runner import Runner, TaskStart
from agents.verify.committed_turns import CommittedTurn
from agents.verify.verification import verify
from agents.verify.verification_report import DiscrepancyKind, VerificationReport, report_lines
from schemas.policies.vertical import VerticalPolicyRemoved
from streams.clock_rules import FILL
from streams.codec.event_codec import is_of_a_clock
from streams.log.log_port import Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS
from tests.support.small_pipeline import START, START_MS, WEB, PipelineLog, stages

Marks = dict[tuple[str, int], CommittedTurn]
OOMS = "ullage.oom-events.v1"
"""The adder reads it and takes nothing from it, so no decision rests on what stands there."""


@pytest.fixture
def bench() -> PipelineLog:
    """Four minutes; in each a workload's usage and one kill."""
    bench = PipelineLog()
    for minute in range(1, 5):
        bench.log.append([*bench.metrics(minute, (WEB, 0.25, 100)), bench.oom(minute, WEB, minute)])
        bench.tick(minute)
        if minute == 2:
            removed = VerticalPolicyRemoved(START, "*")
            bench.log.append(
                [bench.codec.encode(removed, topic="rules", key="*", partition=p, source="/ullage/test") for p in (0, 1)]
            )
    Runner(stages()[:1], context(bench)).run()
    return bench


def context(bench: PipelineLog, log: MemoryLog | None = None) -> LogContext:
    return LogContext(log or bench.log, bench.topics, bench.codec)


def marks(bench: PipelineLog, upto: int = 4) -> Marks:
    """What the adder's workers would mark after this minute."""
    return marks_of(bench, stages()[0], upto)


def marks_of(bench: PipelineLog, stage: Stage, upto: int = 4) -> Marks:
    runner = Runner([stage], context(bench))
    while runner.read():
        for task in runner.tasks:
            while task.turn < START_MS + upto * 60_000 and task.next_turn() is not None:
                pass
    return {("adder", t.partition): CommittedTurn(t.turn, t.positions, t.inputs) for t in runner.tasks}


def changed(bench: PipelineLog, change: Callable[[Record], Record | None]) -> MemoryLog:
    """A copy in which each record became what `change` says; one that goes leaves a hole."""
    log = MemoryLog()
    for topic in TOPICS:
        log.create(bench.topics.wire(topic.name), bench.topics.partitions)
        log.import_records([new for record in bench.all_records(topic.name) if (new := change(record)) is not None])
        wire = bench.topics.wire(topic.name)
        for p in range(bench.topics.partitions):
            if log.end(wire, p) < (end := bench.log.end(wire, p)):  # a log that compaction took records from keeps its end
                log.import_records([Record(wire, p, end - 1, FILL, b"")])
    return log


def run(bench: PipelineLog, log: MemoryLog | None, committed: Marks) -> VerificationReport:
    return verify(context(bench, log), stages()[:1], committed=committed)


def is_kill(record: Record, minute: int) -> bool:
    return record.topic == OOMS and not is_of_a_clock(record) and b'"restarts":%d' % minute in (record.value or b"")


def other_restarts(minute: int) -> Callable[[Record], Record]:
    def change(record: Record) -> Record:
        if not is_kill(record, minute):
            return record
        return replace(record, value=(record.value or b"").replace(b'"restarts":%d' % minute, b'"restarts":%d' % (minute + 5)))

    return change


def test_inputs_as_the_workers_read_them_are_counted(bench: PipelineLog) -> None:
    verified = run(bench, None, marks(bench))
    assert verified.ok, verified.discrepancies
    # Two inputs in each of two partitions.
    assert (verified.digested, verified.undigested) == (2 * 2, [])


def test_a_changed_input_that_changes_no_decision_is_found_by_the_digest_and_by_nothing_else(bench: PipelineLog) -> None:
    log = changed(bench, other_restarts(2))
    assert run(bench, log, {}).ok
    verified = run(bench, log, marks(bench))
    assert verified.counts == {DiscrepancyKind.INPUTS: 1}
    (found,) = verified.discrepancies
    partition = bench.topics.partition_of(WEB.key)
    # Four kills stand before offset 4.
    where = f"'{OOMS}' partition {partition} from offset 0 to 4"
    assert found.says == f"{where} is not what the worker had read by turn {START_MS + 240_000}"
    assert list(report_lines(verified))[-1] == "NOT as published"


@pytest.mark.parametrize("part", ["key", "headers"])
def test_changed_keys_and_headers_of_inputs_are_found(bench: PipelineLog, part: str) -> None:
    def change(record: Record) -> Record:
        if not is_kill(record, 2):
            return record
        return replace(record, key=b"x") if part == "key" else replace(record, headers=(*record.headers, ("more", b"")))

    assert run(bench, changed(bench, change), marks(bench)).counts == {DiscrepancyKind.INPUTS: 1}


def test_an_input_record_that_is_gone_is_found(bench: PipelineLog) -> None:
    log = changed(bench, lambda record: None if is_kill(record, 3) else record)
    assert run(bench, log, marks(bench)).counts == {DiscrepancyKind.INPUTS: 1}


def test_what_stands_after_the_mark_is_not_the_marks_business(bench: PipelineLog) -> None:
    assert run(bench, changed(bench, other_restarts(4)), marks(bench, upto=3)).ok


def test_a_mark_of_a_turn_that_the_ticks_do_not_give_is_found(bench: PipelineLog) -> None:
    def cut(record: Record) -> Record | None:
        late = record.topic == bench.topics.wire("clock") and record.offset == bench.log.end(record.topic, 0) - 1
        return None if late else record

    verified = run(bench, changed(bench, cut), marks(bench))
    says = [each.says for each in verified.discrepancies if each.kind is DiscrepancyKind.INPUTS]
    assert [f"a worker took turn {START_MS + 240_000}" in each for each in says] == [True, True]


@pytest.mark.parametrize("how", ["gone", "altered"])
def test_what_compaction_may_have_taken_is_said_and_what_was_altered_is_wrong(bench: PipelineLog, how: str) -> None:
    """Policies are compacted in the end. The adder would not mind: it reads them here and takes nothing from them."""
    policies = bench.topics.wire("rules")
    stage = replace(stages()[0], reads=("rules", *stages()[0].reads))

    def change(record: Record) -> Record | None:
        if record.topic != policies or is_of_a_clock(record):
            return record
        return None if how == "gone" else replace(record, key=b"?")

    verified = verify(context(bench, changed(bench, change)), [stage], committed=marks_of(bench, stage))
    assert verified.digested == 2 * 2
    if how == "gone":
        assert verified.ok
        assert all(f"compaction took records of '{policies}' partition {p}" in verified.undigested[p] for p in (0, 1))
    else:
        assert verified.counts == {DiscrepancyKind.INPUTS: 2}


def test_a_mark_without_digests_proves_nothing_about_inputs_and_that_is_said(bench: PipelineLog) -> None:
    bare = {part: replace(mark, inputs=None) for part, mark in marks(bench).items()}
    verified = run(bench, changed(bench, other_restarts(2)), bare)
    assert verified.ok
    assert len(verified.undigested) == 2
    assert any(line.startswith("not proven: adder, partition") for line in report_lines(verified))


def test_digests_that_began_later_cover_what_came_later(bench: PipelineLog) -> None:
    """A worker that went on from a mark of a version without digests keeps them from that turn on."""
    second = START_MS + 2 * 60_000
    runner = Runner(stages()[:1], context(bench))
    while runner.read():
        for task, taken in runner.turns():
            if taken.turn == second:
                task.inputs = InputDigests.begin(task.stage.reads, since=second)
    late = {("adder", t.partition): CommittedTurn(t.turn, t.positions, t.inputs) for t in runner.tasks}
    assert run(bench, None, late).digested == 2 * 2
    assert run(bench, changed(bench, other_restarts(2)), late).ok
    assert run(bench, changed(bench, other_restarts(3)), late).counts == {DiscrepancyKind.INPUTS: 1}


def test_a_start_behind_the_mark_leaves_the_inputs_alone(bench: PipelineLog) -> None:
    runner = Runner(stages()[:1], context(bench))
    while runner.read():
        for _ in runner.turns():
            pass
    starts = {("adder", t.partition): TaskStart(t.turn, t.positions, t.state) for t in runner.tasks}
    verified = verify(context(bench), stages()[:1], starts=starts, committed=marks(bench))
    assert verified.ok
    assert verified.digested == 0
