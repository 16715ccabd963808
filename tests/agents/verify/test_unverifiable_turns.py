"""`replay --verify` of a log whose rules are of another version of the program, for one stage of two."""

from dataclasses import replace

import pytest

from agents.engine.stage import Stage
from agents.run import rules_in_log
from agents.run.stage_runner import Runner
from agents.verify.verification import verify
from agents.verify.verification_report import DiscrepancyKind, report_lines
from streams.codec.event_codec import is_of_a_clock
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from tests.support.small_pipeline import START, START_MS, TILL, WEB, PipelineLog, stages

CHANGE, MINUTES = 7, 12


def adder(program: int) -> Stage:
    """Version 2 recommends twice as much."""
    stage = stages(factor=float(program))[0]
    return replace(stage, reads=("rules", *stage.reads), program=program, defaults={})


EVICTOR = stages()[1]


@pytest.fixture
def context() -> LogContext:
    """Twelve minutes, the first six decided by version 1 of the adder, the rest by version 2; the evictor is the same."""
    bench = PipelineLog()
    context = LogContext(bench.log, bench.topics, bench.codec)
    rules_in_log.publish(context, [adder(1)], START)
    runner = Runner([adder(1), EVICTOR], context)
    for minute in range(1, MINUTES + 1):
        if minute == CHANGE:
            rules_in_log.publish(context, [adder(2)], START)
            for task in runner.tasks:
                if task.stage.name == "adder":
                    task.state.factor = 2.0  # type: ignore[attr-defined]  # the adder's
        bench.log.append(bench.metrics(minute, (WEB, 0.25, 100 * minute), (TILL, 0.5, 50)))
        bench.log.append([replace(bench.oom(minute, WEB, 1), value=b"{")])
        bench.tick(minute)
        runner.run()
    return context


def test_turns_of_another_version_are_named_with_version_and_first_turn_and_all_else_verifies(context: LogContext) -> None:
    verified = verify(context, [adder(1), EVICTOR])
    assert verified.ok, verified.discrepancies
    turn = START_MS + CHANGE * 60_000
    assert [says.split(" (")[0] for says in verified.foreign] == [f"adder, partition {p}: from turn {turn}" for p in (0, 1)]
    assert "version 2 of the program's rules decided" in verified.foreign[0]
    assert "this program has version 1" in verified.foreign[0]
    # adder: 6 turns, evictor: 12. A turn of the adder: 2 workloads in 2 topics, and a dead letter; the evictor: minutes 1-11.
    assert verified.turns == 2 * (6 + 12)
    assert verified.decisions == 6 * (2 * 2 + 1) + 11 * 2
    assert "every decision that was compared is as published" in list(report_lines(verified))


def test_the_younger_version_names_the_first_turn_of_the_older_and_still_verifies_other_stages(
    context: LogContext,
) -> None:
    verified = verify(context, [adder(2), EVICTOR])
    assert verified.ok, verified.discrepancies
    assert len(verified.foreign) == 2
    assert f"from turn {START_MS + 60_000} " in verified.foreign[0]
    assert verified.turns == 2 * 12


def test_a_decision_that_is_gone_before_the_change_is_still_missing(context: LogContext) -> None:
    log = MemoryLog()
    for topic in sorted({topic.name for topic in context.topics.specs(1)}):
        log.create(topic, context.topics.partitions)
        records = [r for p in range(2) for r in context.log.poll({(topic, p): 0}, limit=100_000)]
        if topic == context.topics.wire("recommendations"):
            records.remove(next(r for r in records if not is_of_a_clock(r)))
        log.append(NewRecord(r.topic, r.partition, r.key, r.value, r.headers) for r in records)
    verified = verify(LogContext(log, context.topics, context.codec), [adder(1), EVICTOR])
    assert verified.counts == {DiscrepancyKind.MISSING: 1}
