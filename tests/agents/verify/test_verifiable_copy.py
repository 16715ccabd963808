"""An exported log verifies like the original, also when workers wrote while it was copied."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agents.engine.checkpoint_selection import CheckpointLedger
from agents.run.stage_runner import Runner
from agents.verify.committed_turns import at_work, committed, copied_topics, export
from agents.verify.verification import verify
from agents.verify.verification_report import DiscrepancyKind
from streams.incidents import incident_copy
from streams.incidents.incident_copy import IncidentLog, Stretch
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord, Positions, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, changelog_topic
from tests.support import ticks
from tests.support.grouped_log import GroupedLog
from tests.support.small_pipeline import START_MS, WEB, PipelineLog, stages

WORKER = "w"


class BusyLog(GroupedLog):
    """A log to which a whole pipeline goes on writing: one more minute whenever somebody has read a stretch of it."""

    bench: PipelineLog
    runner: Runner
    minute = 0

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        records = super().poll(positions, wait=wait, limit=limit)
        if self.minute and limit == 2_000:
            self.live_on()
        return records

    def end(self, topic: str, partition: int) -> int:
        """Between two looks at ends something is written as well."""
        end = super().end(topic, partition)
        if self.minute and topic.endswith(("pod-updates.v1", "recommendations.v1")):
            self.live_on()
        return end

    def live_on(self, *, mark: bool = True) -> None:
        """A minute with usage, its decisions, and marks of every partition that name them."""
        minute, self.minute = self.minute + 1, 0
        self.append([*self.bench.metrics(minute, (WEB, 0.25, 100))])
        minute_ms = START_MS + minute * 60_000
        ticks.append(self, self.bench.topics, minute_ms)  # type: ignore[arg-type]  # it is a log in memory
        self.runner.run()
        for task in self.runner.tasks if mark else []:
            chunks = [(chunk, task.state.dump(chunk)) for chunk in task.state.chunks()]
            plan = CheckpointLedger(f"f{minute}").plan(
                turn=task.turn, positions=task.positions, dumps=chunks, tick=task.tick, inputs=task.inputs
            )
            topic = changelog_topic(WORKER, task.stage.name)
            self.append([NewRecord(topic, task.partition, key, value) for key, value in [*plan.records, plan.mark]])
        self.minute = minute


@pytest.fixture
def busy() -> LogContext:
    bench = PipelineLog()
    log = BusyLog()
    for topic in TOPICS:
        log.create(bench.topics.wire(topic.name), bench.topics.partitions)
    for stage in stages():
        log.create(changelog_topic(WORKER, stage.name), bench.topics.partitions)
    context = LogContext(log, bench.topics, bench.codec)
    log.bench, log.runner = bench, Runner(stages(), context)
    log.held[WORKER] = {(bench.topics.wire(name), p) for stage in stages() for name in stage.reads for p in range(2)}
    for _ in range(4):
        log.live_on()
    return context


def test_what_is_exported_while_workers_write_verifies(busy: LogContext, tmp_path: Path) -> None:
    with FileLog.open_or_create(tmp_path / "log") as file:
        export(busy, file, stages=stages(), worker=WORKER)
        context = LogContext.of(file, busy.topics)
        verified = verify(context, stages(), committed=committed(context, WORKER, stages()))
    assert verified.ok, verified.discrepancies
    # Four inputs a partition: of the adder oom-events and pod-metrics, of the evictor recommendations-by-cluster and outcomes.
    assert verified.digested == 4 * 2


def test_of_a_copy_of_a_log_that_nobody_works_on_every_decision_must_be_there(busy: LogContext, tmp_path: Path) -> None:
    assert isinstance(busy.log, BusyLog)
    busy.log.held.clear()
    with FileLog.open_or_create(tmp_path / "log") as file:
        export(busy, file, stages=stages(), worker=WORKER)  # its runner goes on all the same
        context = LogContext.of(file, busy.topics)
        verified = verify(context, stages(), committed=committed(context, WORKER, stages()))
    assert verified.counts.keys() == {DiscrepancyKind.MISSING}


def copy_without(busy: LogContext, folder: Path, lost: Callable[[Record, int], bool]) -> LogContext:
    """A copy of the log without some of its plans; `lost` is given each, and the number of the last one of its partition."""
    log = MemoryLog()
    with FileLog.open_or_create(folder / "log") as file:
        export(busy, file, stages=stages(), worker=WORKER)
        for topic in file.topics():
            log.create(topic, file.partitions(topic))
            for partition in range(file.partitions(topic)):
                records = list(file.poll({(topic, partition): 0}))
                last = records[-1].offset if records else -1
                log.import_records([r for r in records if not (topic.endswith(".pod-updates.v1") and lost(r, last))])
    return LogContext.of(log, busy.topics)


def test_a_copy_that_was_cut_off_excuses_nothing_any_more(busy: LogContext, tmp_path: Path) -> None:
    context = copy_without(busy, tmp_path, lambda record, last: record.offset == last)
    assert not any(mark.at_work for mark in committed(context, WORKER, stages()).values())
    assert verify(context, stages(), committed=committed(context, WORKER, stages())).counts[DiscrepancyKind.MISSING] > 0


def test_a_copy_that_is_brought_up_to_date_says_anew_who_is_at_work(busy: LogContext, tmp_path: Path) -> None:
    assert isinstance(busy.log, BusyLog)
    with FileLog.open_or_create(tmp_path / "log") as file:
        context = LogContext.of(file, busy.topics)
        export(busy, file, stages=stages(), worker=WORKER)
        assert all(mark.at_work for mark in committed(context, WORKER, stages()).values())
        busy.log.held.clear()
        busy.log.minute = 0
        export(busy, file, stages=stages(), worker=WORKER)
        assert not any(mark.at_work for mark in committed(context, WORKER, stages()).values())


def test_topics_that_an_older_version_did_not_have_are_left_out(busy: LogContext, tmp_path: Path) -> None:
    old = MemoryLog()
    wire = busy.topics.wire("pod-metrics")
    old.create(wire, 2)
    with FileLog.open_or_create(tmp_path / "log") as file:
        assert export(LogContext.of(old, busy.topics), file, stages=stages(), worker=WORKER) == {wire: 0}


def test_of_an_export_cut_off_at_the_end_the_decisions_are_missing(busy: LogContext, tmp_path: Path) -> None:
    context = copy_without(busy, tmp_path, lambda record, _: record.offset >= 1)
    verified = verify(context, stages(), committed=committed(context, WORKER, stages()))
    assert verified.counts.keys() == {DiscrepancyKind.MISSING}


def test_an_incident_file_says_on_which_partitions_workers_were_at_work(busy: LogContext, tmp_path: Path) -> None:
    topics = copied_topics(busy, stages(), WORKER)
    parts = sorted(at_work(busy, WORKER, stages()))
    assert isinstance(busy.log, BusyLog)
    incident_copy.to_file(busy, tmp_path / "a.parquet", Stretch(topics), "test", at_work=parts)
    busy.log.minute = 0
    incident_copy.to_file(busy, tmp_path / "b.parquet", Stretch(topics), "test")
    for name, expected in (("a", parts), ("b", [])):
        context = LogContext.of(IncidentLog(tmp_path / f"{name}.parquet"), busy.topics)
        assert sorted(at_work(context, WORKER, stages())) == expected
    assert parts == [(stage.name, p) for stage in stages() for p in range(2)]
