"""How far workers got, from their changelogs: a decision missing at the very end is noticed."""

from collections.abc import Mapping

import pytest

from agents.engine.checkpoint_selection import CheckpointLedger
from agents.log_runner import Runner
from agents.verify.committed_turns import committed
from agents.verify.verification import DiscrepancyKind, verify
from streams.codec.event_codec import header
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.topics import TOPICS, Topics, changelog_topic
from tests.support.small_pipeline import START_MS, WEB, PipelineLog, stages

LAST = START_MS + 2 * 60_000
NOWHERE: Mapping[str, int] = {}


def marked(log: MemoryLog, turns: list[int], *, torn: bool = False, positions: Mapping[str, int] = NOWHERE) -> None:
    """Checkpoints of every stage's two partitions at these turns; `torn` leaves the last mark's chunk out."""
    for stage in stages():
        topic = changelog_topic("w", stage.name)
        if not has_topic(log, topic):
            log.create(topic, 2)
        for partition in (0, 1):
            ledger = CheckpointLedger(f"f{turns[0]}")
            for turn in turns:
                plan = ledger.plan(turn=turn, positions=positions, dumps=[("pods/000", b"x" * 100)])
                ledger.accept(plan)
                records = [] if torn and turn == turns[-1] else plan.records
                log.append([NewRecord(topic, partition, key, value) for key, value in [*records, plan.mark]])


def test_the_newest_good_mark_of_each_partition_counts() -> None:
    log = MemoryLog()
    marked(log, [500, 1000, 1500], torn=True)
    found = committed(LogContext.of(log, Topics("t", 2)), "w", stages())
    assert {part: mark.turn for part, mark in found.items()} == {(stage.name, p): 1000 for stage in stages() for p in (0, 1)}


def test_a_log_without_changelogs_says_nothing() -> None:
    assert committed(LogContext.of(MemoryLog(), Topics("t", 2)), "w", stages()) == {}


@pytest.mark.parametrize("position", [1, 2, 3, 5])
def test_a_mark_that_the_log_contradicts_is_passed_over(position: int) -> None:
    bench = PipelineLog()
    for minute in (1, 2):
        bench.log.append([*bench.metrics(minute, (WEB, 0.25, 100)), *bench.ticks(minute)])
    partition = bench.topics.partition_of(WEB.key)
    marked(bench.log, [LAST - 60_000], positions={"pod-metrics": 2})
    marked(bench.log, [LAST], positions={"pod-metrics": position})
    found = committed(LogContext(bench.log, bench.topics, bench.codec), "w", stages())
    assert found["adder", partition].turn == LAST - 60_000


def test_a_decision_that_is_missing_at_the_very_end_is_found() -> None:
    bench = PipelineLog()
    runner = Runner(stages(), LogContext(bench.log, bench.topics, bench.codec))
    for minute in (1, 2):
        bench.log.append([*bench.metrics(minute, (WEB, 0.25, 100 * minute)), *bench.ticks(minute)])
        runner.run()
    # It went to two topics under one id.
    gone = f"/{LAST}/recommended/{WEB.key}"
    log = MemoryLog()
    for topic in TOPICS:
        log.create(bench.topics.wire(topic.name), bench.topics.partitions)
        kept = [r for r in bench.all_records(topic.name) if not (header(r, "ce_id") or "").endswith(gone)]
        log.append([NewRecord(r.topic, r.partition, r.key, r.value, r.headers) for r in kept])
    context = LogContext(log, bench.topics, bench.codec)
    marked(log, [LAST - 60_000])
    assert verify(context, stages(), committed=committed(context, "w", stages())).ok
    marked(log, [LAST])
    assert verify(context, stages(), committed=committed(context, "w", stages())).counts == {DiscrepancyKind.MISSING: 2}
