"""How far workers got, from their changelogs: a decision missing at the very end is noticed."""

from collections.abc import Mapping

import pytest

from agents.engine.checkpoint_selection import CheckpointLedger
from agents.run.stage_runner import Runner
from agents.verify.committed_turns import committed
from agents.verify.verification import verify
from agents.verify.verification_report import DiscrepancyKind, VerificationReport, report_lines
from streams.codec.event_codec import header
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.topics import TOPICS, Topics, changelog_topic
from tests.support import ticks
from tests.support.grouped_log import GroupedLog
from tests.support.small_pipeline import START_MS, WEB, PipelineLog, stages

LAST = START_MS + 2 * 60_000
NOWHERE: Mapping[str, int] = {}
T = Topics(partitions=2)


def marked(
    log: MemoryLog, turns: list[int], *, torn: bool = False, positions: Mapping[str, int] = NOWHERE, topics: Topics = T
) -> None:
    """Checkpoints of every stage's two partitions at these turns; `torn` leaves the last mark's chunk out."""
    for stage in stages():
        topic = changelog_topic("w", stage.name)
        if not has_topic(log, topic):
            log.create(topic, 2)
        for partition in (0, 1):
            ledger = CheckpointLedger(f"f{turns[0]}")
            for turn in turns:
                tick = ticks.place(log, topics, turn)
                plan = ledger.plan(turn=turn, positions=positions, tick=tick, dumps=[("pods/000", b"x" * 100)])
                ledger.accept(plan)
                records = [] if torn and turn == turns[-1] else plan.records
                log.append([NewRecord(topic, partition, key, value) for key, value in [*records, plan.mark]])


def test_the_newest_good_mark_of_each_partition_counts() -> None:
    log = MemoryLog()
    marked(log, [500, 1000, 1500], torn=True)
    found = committed(LogContext.of(log, T), "w", stages())
    assert {part: mark.turn for part, mark in found.items()} == {(stage.name, p): 1000 for stage in stages() for p in (0, 1)}


def test_a_log_without_changelogs_says_nothing() -> None:
    assert committed(LogContext.of(MemoryLog(), T), "w", stages()) == {}


@pytest.mark.parametrize("position", [3, 5])
def test_a_mark_that_the_log_contradicts_is_passed_over(position: int) -> None:
    bench = PipelineLog()
    for minute in (1, 2):
        bench.log.append([*bench.metrics(minute, (WEB, 0.25, 100))])
        bench.tick(minute)
    partition = bench.topics.partition_of(WEB.key)
    marked(bench.log, [LAST - 60_000], positions={"pod-metrics": 1}, topics=bench.topics)
    marked(bench.log, [LAST], positions={"pod-metrics": position}, topics=bench.topics)
    found = committed(LogContext(bench.log, bench.topics, bench.codec), "w", stages())
    assert found["adder", partition].turn == LAST - 60_000


def cut_at_the_end() -> LogContext:
    """Two minutes of a pipeline, of which the last recommendation is gone; it went to two topics under one id."""
    bench = PipelineLog()
    runner = Runner(stages(), LogContext(bench.log, bench.topics, bench.codec))
    for minute in (1, 2):
        bench.log.append([*bench.metrics(minute, (WEB, 0.25, 100 * minute))])
        bench.tick(minute)
        runner.run()
    gone = f"/{LAST}/recommended/{WEB.key}"
    log = GroupedLog()
    for topic in TOPICS:
        log.create(bench.topics.wire(topic.name), bench.topics.partitions)
        kept = [r for r in bench.all_records(topic.name) if not (header(r, "ce_id") or "").endswith(gone)]
        log.append([NewRecord(r.topic, r.partition, r.key, r.value, r.headers) for r in kept])
    return LogContext(log, bench.topics, bench.codec)


def verified(context: LogContext) -> VerificationReport:
    return verify(context, stages(), committed=committed(context, "w", stages()), again=lambda s: committed(context, "w", [s]))


def held(context: LogContext, *lacking: tuple[str, int]) -> set[tuple[str, int]]:
    """Every input of every stage but `lacking`."""
    inputs = {(context.topics.wire(name), p) for stage in stages() for name in stage.reads for p in range(2)}
    return inputs - {(context.topics.wire(name), p) for name, p in lacking}


def test_of_a_dead_log_what_was_cut_off_behind_the_marks_is_missing_with_its_place() -> None:
    context = cut_at_the_end()
    marked(log_of(context), [LAST - 60_000])
    report = verified(context)
    assert report.counts == {DiscrepancyKind.MISSING: 2}
    partition = context.topics.partition_of(WEB.key)
    (of_workload, _) = report.discrepancies
    assert of_workload.partition == partition
    assert of_workload.says.endswith(f"is not in 'ullage.recommendations.v1' partition {partition}, after offset 0")
    assert "nobody is at work on adder 0, 1; evictor 0, 1" in "\n".join(report_lines(report))


def test_what_follows_the_mark_of_a_worker_at_work_is_in_flight() -> None:
    context = cut_at_the_end()
    marked(log_of(context), [LAST - 60_000])
    log_of(context).held["w"] = held(context)
    report = verified(context)
    assert report.ok
    assert report.waiting == 2
    assert "workers are at work on adder 0, 1; evictor 0, 1" in "\n".join(report_lines(report))


def test_of_a_worker_that_has_not_marked_anything_yet_everything_may_be_in_flight() -> None:
    context = cut_at_the_end()
    log_of(context).held["w"] = held(context)
    report = verified(context)
    assert report.ok
    assert report.waiting == 2


def test_partitions_that_are_shared_out_anew_have_workers() -> None:
    context = cut_at_the_end()
    marked(log_of(context), [LAST - 60_000])
    log_of(context).held["w"] = None
    assert verified(context).ok


def test_a_worker_that_lacks_an_input_takes_no_turns_of_that_partition() -> None:
    context = cut_at_the_end()
    marked(log_of(context), [LAST - 60_000])
    partition = context.topics.partition_of(WEB.key)
    log_of(context).held["w"] = held(context, ("oom-events", partition))
    assert verified(context).counts == {DiscrepancyKind.MISSING: 2}


def test_members_of_another_group_are_no_workers_of_this_log() -> None:
    context = cut_at_the_end()
    marked(log_of(context), [LAST - 60_000])
    log_of(context).held["another"] = held(context)
    assert verified(context).counts == {DiscrepancyKind.MISSING: 2}


def test_what_a_mark_names_is_missing_also_while_a_worker_is_at_work() -> None:
    context = cut_at_the_end()
    marked(log_of(context), [LAST])
    log_of(context).held["w"] = held(context)
    assert verified(context).counts == {DiscrepancyKind.MISSING: 2}


def test_what_a_worker_has_marked_by_the_end_of_a_verification_is_missing_if_it_is_not_there() -> None:
    context = cut_at_the_end()
    marked(log_of(context), [LAST - 60_000])
    log_of(context).held["w"] = held(context)
    first = committed(context, "w", stages())
    marked(log_of(context), [LAST])
    report = verify(context, stages(), committed=first, again=lambda stage: committed(context, "w", [stage]))
    assert report.counts == {DiscrepancyKind.MISSING: 2}


def log_of(context: LogContext) -> GroupedLog:
    assert isinstance(context.log, GroupedLog)
    return context.log
