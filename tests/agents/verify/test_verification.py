"""`replay --verify`: what was published is compared with what the log gives, byte for byte."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.run.stage_runner import Runner, TaskStart
from agents.verify.committed_turns import CommittedTurn
from agents.verify.verification import verify
from agents.verify.verification_report import DiscrepancyKind, VerificationReport, report_lines
from streams.codec.event_codec import header, is_of_a_clock
from streams.errors import BadInput
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord, Positions, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.log_range import copy_range
from streams.topics import TOPICS
from tests.support.small_pipeline import START_MS, TILL, WEB, PipelineLog, stages

MINUTES = 12
POISON = 3


@pytest.fixture
def bench() -> PipelineLog:
    """Twelve minutes on two partitions: two workloads, one poisoned record, every turn taken and published."""
    bench = PipelineLog()
    runner = Runner(stages(), context(bench))
    for minute in range(1, MINUTES + 1):
        bench.log.append(bench.metrics(minute, (WEB, 0.25, 100 * minute), (TILL, 0.5, 50)))
        if minute == POISON:
            bench.log.append([replace(bench.oom(minute, WEB, 1), value=b"{")])
        bench.tick(minute)
        runner.run()
    return bench


def context(bench: PipelineLog, log: MemoryLog | None = None) -> LogContext:
    return LogContext(log or bench.log, bench.topics, bench.codec)


def changed(bench: PipelineLog, change: Callable[[Record], list[Record]]) -> MemoryLog:
    """A copy of the log in which each record became what `change` says; offsets are given anew."""
    log = MemoryLog()
    for topic in TOPICS:
        log.create(bench.topics.wire(topic.name), bench.topics.partitions)
        for record in bench.all_records(topic.name):
            for new in change(record):
                log.import_records([replace(new, offset=log.end(new.topic, new.partition))])
    return log


def is_recommendation(record: Record, minute: int, workload: str) -> bool:
    wanted = f"/{START_MS + minute * 60_000}/recommended/{workload}"
    return record.topic == "ullage.recommendations.v1" and (header(record, "ce_id") or "").endswith(wanted)


def run(bench: PipelineLog, log: MemoryLog | None = None) -> VerificationReport:
    return verify(context(bench, log), stages())


def test_what_was_published_by_the_same_stages_verifies_in_full(bench: PipelineLog) -> None:
    verified = run(bench)
    # Adder: 2 workloads x 2 topics x 12 minutes and 1 dead letter. Evictor: what was recommended in minutes 1-11 (the ticks of
    # minute 12 stand before the recommendations of minute 12). 2 stages x 2 partitions x 12 turns.
    assert verified.ok
    assert (verified.decisions, verified.turns) == (2 * 2 * 12 + 1 + 2 * 11, 2 * 2 * 12)
    assert (verified.repeats, verified.waiting, verified.forgotten) == (0, 0, 0)
    assert list(report_lines(verified))[-1] == "every decision is as published"


def test_a_tampered_value_is_found_and_its_first_difference_shown(bench: PipelineLog) -> None:
    def tamper(record: Record) -> list[Record]:
        if is_recommendation(record, 5, WEB.key):
            return [replace(record, value=(record.value or b"").replace(b'"memory":500', b'"memory":501', 1))]
        return [record]

    verified = run(bench, changed(bench, tamper))
    assert verified.counts == {DiscrepancyKind.DIFFERENT: 1}
    (discrepancy,) = verified.discrepancies
    assert discrepancy.stage == "adder"
    assert "of the value: published" in discrepancy.says
    assert f"recommended/{WEB.key}" in discrepancy.says
    assert not verified.ok


@pytest.mark.parametrize(("field", "says"), [("headers", "header 4 is"), ("key", "the key is b'other'")])
def test_tampered_headers_and_keys_are_found(bench: PipelineLog, field: str, says: str) -> None:
    def tamper(record: Record) -> list[Record]:
        if not is_recommendation(record, 5, WEB.key):
            return [record]
        headers = [(n, b"/ullage/adder/9" if n == "ce_source" else v) for n, v in record.headers]
        return [replace(record, headers=tuple(headers)) if field == "headers" else replace(record, key=b"other")]

    verified = run(bench, changed(bench, tamper))
    assert verified.counts == {DiscrepancyKind.DIFFERENT: 1}
    assert says in verified.discrepancies[0].says


def test_a_decision_that_is_not_there_is_missing(bench: PipelineLog) -> None:
    verified = run(bench, changed(bench, lambda r: [] if is_recommendation(r, 5, WEB.key) else [r]))
    assert verified.counts == {DiscrepancyKind.MISSING: 1}
    assert f"recommended/{WEB.key}' of turn {START_MS + 5 * 60_000} is not in" in verified.discrepancies[0].says


def test_a_decision_that_no_turn_gives_is_extra(bench: PipelineLog) -> None:
    def double(record: Record) -> list[Record]:
        if not is_recommendation(record, 5, WEB.key):
            return [record]
        headers = tuple((n, b"adder/0/1/made-up" if n == "ce_id" else v) for n, v in record.headers)
        return [record, replace(record, headers=headers)]

    verified = run(bench, changed(bench, double))
    assert verified.counts == {DiscrepancyKind.EXTRA: 1}
    assert "'adder/0/1/made-up'" in verified.discrepancies[0].says


def test_a_record_of_nobody_in_an_output_topic_is_extra(bench: PipelineLog) -> None:
    def slip_in(record: Record) -> list[Record]:
        return [record, replace(record, headers=())] if is_recommendation(record, 5, WEB.key) else [record]

    assert run(bench, changed(bench, slip_in)).counts == {DiscrepancyKind.EXTRA: 1}


def test_repeats_with_equal_bytes_are_fine_and_counted_also_when_they_go_back_in_time(bench: PipelineLog) -> None:
    log = changed(bench, lambda record: [record])
    log.append([r for r in bench.all_records("recommendations") if is_recommendation(r, 2, WEB.key)] * 2)
    verified = run(bench, log)
    assert verified.ok
    assert verified.repeats == 2


def test_two_contents_under_one_id_are_found_even_if_the_first_is_right(bench: PipelineLog) -> None:
    log = changed(bench, lambda record: [record])
    other = [replace(r, value=b"{}") for r in bench.all_records("recommendations") if is_recommendation(r, 2, WEB.key)]
    log.append(other)
    assert run(bench, log).counts == {DiscrepancyKind.TWO_CONTENTS: 1}


def test_other_settings_than_those_of_the_time_give_differences_in_every_decision(bench: PipelineLog) -> None:
    verified = verify(context(bench), stages(factor=1.5))
    assert verified.counts == {
        DiscrepancyKind.DIFFERENT: 2 * 2 * MINUTES
    }  # the evictions do not depend on the factor, nor dead letters
    assert list(report_lines(verified))[-1] == "NOT as published"


def is_of_minute(record: Record, minute: int) -> bool:
    return f"/{START_MS + minute * 60_000}/" in (header(record, "ce_id") or "")


def marks(minute: int, *, at_work: bool = True) -> dict[tuple[str, int], CommittedTurn]:
    """Every worker says that it has published everything up to this minute, and nothing about what it read."""
    turn = CommittedTurn(START_MS + minute * 60_000, {}, None, at_work)
    return {(stage.name, p): turn for stage in stages() for p in range(2)}


def test_decisions_cut_off_at_the_end_are_missing_where_no_worker_says_that_they_are_in_flight(bench: PipelineLog) -> None:
    log = changed(bench, lambda record: [] if is_of_minute(record, 12) or is_of_minute(record, 11) else [record])
    # Of two minutes two recommendations in two topics; the evictor reads the log as it is now, which still holds its input
    # of minute 10 (decided on in minute 11), but no longer those of minutes 11 and 12.
    assert run(bench, log).counts == {DiscrepancyKind.MISSING: 2 * 2 * 2 + 2}


def test_decisions_after_a_workers_newest_mark_are_waiting_and_those_before_it_are_missing(bench: PipelineLog) -> None:
    log = changed(bench, lambda record: [] if is_of_minute(record, MINUTES) else [record])
    verified = verify(context(bench, log), stages(), committed=marks(MINUTES - 1))
    assert verified.ok
    # Minute 12: two recommendations in two topics, and the evictions for minute 11's.
    assert verified.waiting == 2 * 2 + 2
    lines = list(report_lines(verified))
    assert any("in flight" in line for line in lines)
    assert lines[-1] == "every decision up to the workers' marks is as published"
    assert verify(context(bench, log), stages(), committed=marks(MINUTES)).counts == {DiscrepancyKind.MISSING: 6}
    dead = verify(context(bench, log), stages(), committed=marks(MINUTES - 1, at_work=False))
    assert (dead.counts, dead.waiting) == ({DiscrepancyKind.MISSING: 6}, 0)
    assert dead.newest["adder", 0] == START_MS + MINUTES * 60_000


def test_a_missing_decision_is_said_with_its_partition_and_the_offsets_between_which_it_belongs(bench: PipelineLog) -> None:
    log = changed(bench, lambda r: [] if is_recommendation(r, 5, WEB.key) else [r])
    (missing,) = run(bench, log).discrepancies
    partition = bench.topics.partition_of(WEB.key)
    # WEB is alone in its partition: minutes 1 to 4 stand at offsets 0 to 3, and minute 6 came to offset 4.
    place = f"is not in 'ullage.recommendations.v1' partition {partition}, after offset 3 and before offset 4"
    assert missing.says.endswith(place)
    assert missing.partition == partition


def test_where_nothing_is_published_at_all_everything_is_missing(bench: PipelineLog) -> None:
    log = changed(bench, lambda record: [] if record.topic == bench.topics.wire("pod-updates") else [record])
    assert run(bench, log).counts == {DiscrepancyKind.MISSING: 2 * 11}


def test_retention_of_an_input_is_said_with_the_place_and_that_partition_is_left_out(bench: PipelineLog) -> None:
    bench.log.truncate("ullage.oom-events.v1", 0, 1)
    verified = run(bench)
    assert verified.counts == {DiscrepancyKind.UNREACHABLE: 1}
    # The only kill is gone: the first turn whose end is kept in all inputs is the one that ends behind it.
    wish = f"give the state (a checkpoint) of turn {START_MS + 3 * 60_000} or later"
    where = "partition 0 of 'ullage.oom-events.v1' is kept from offset 1 on, and offset 0 is needed"
    assert verified.discrepancies[0].says == f"{where}: {wish}"
    assert ("adder", 0) not in verified.newest
    assert verified.newest["adder", 1] == START_MS + MINUTES * 60_000


def test_ticks_that_retention_took_accuse_nobody_and_what_is_not_proven_is_said(bench: PipelineLog) -> None:
    bench.log.truncate("ullage.clock.v1", 0, 4)
    verified = run(bench)
    assert verified.counts == {DiscrepancyKind.UNREACHABLE: 2 * 2}
    [first] = {line.says for line in verified.discrepancies}
    # Offset 4 has the tick of minute 4, after the one of the start; with the state of that turn all later ones can be recomputed.
    kept = "the ticks in 'ullage.clock.v1' are kept from offset 4 on, and offset 0 is needed"
    assert first == f"{kept}: give the state (a checkpoint) of turn {START_MS + 5 * 60_000} or later"
    lines = list(report_lines(verified))
    assert lines[-2] == "proven: 0 decisions, recomputed from what the log has; 0 inputs, by digests of what was read"
    assert lines[-1] == "NOT verified: nothing that was compared differs, but 4 lines say what was not"
    bench.log.truncate("ullage.clock.v1", 0, bench.log.end("ullage.clock.v1", 0))
    [none] = {line.says for line in run(bench).discrepancies}
    assert none == "all ticks are gone, and offset 0 is needed: there is no whole turn after it"


def test_from_a_start_that_is_still_kept_the_rest_verifies(bench: PipelineLog) -> None:
    early = Runner(stages()[:1], context(bench))
    while early.read(limit=1):
        if all(task.turn < START_MS + 6 * 60_000 for task in early.tasks):
            for _ in early.turns():
                pass
    starts = {("adder", t.partition): TaskStart(t.turn, t.positions, t.state) for t in early.tasks}
    for task in early.tasks:
        for name, position in task.positions.items():
            bench.log.truncate(bench.topics.wire(name), task.partition, position)
    verified = verify(context(bench), stages(), starts=starts)
    assert verified.ok
    assert 0 < verified.turns < 2 * 2 * MINUTES


def test_decisions_that_their_own_topic_no_longer_keeps_are_counted_as_forgotten(bench: PipelineLog) -> None:
    partition = bench.topics.partition_of(WEB.key)
    bench.log.truncate("ullage.recommendations.v1", partition, 3)
    verified = run(bench)
    assert verified.ok
    assert verified.forgotten == 3
    assert any("before the first offset" in line for line in report_lines(verified))


class LateLog(MemoryLog):
    """A log to which a worker goes on publishing: what is `held` back appears when inputs have been read once."""

    held: list[Record]

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        records = super().poll(positions, wait=wait, limit=limit)
        if any(topic == "ullage.pod-metrics.v1" for topic, _ in positions) and self.held:
            held, self.held = self.held, []
            self.append(NewRecord(r.topic, r.partition, r.key, r.value, r.headers) for r in held)
        return records


def test_what_a_worker_publishes_while_we_look_is_neither_missing_nor_extra(bench: PipelineLog) -> None:
    log = LateLog()
    log.held = [r for r in bench.all_records("recommendations") if is_recommendation(r, 11, WEB.key)]
    assert log.held
    for topic in TOPICS:
        log.create(bench.topics.wire(topic.name), bench.topics.partitions)
        for record in bench.all_records(topic.name):
            if not is_recommendation(record, 11, WEB.key):
                log.append([NewRecord(record.topic, record.partition, record.key, record.value, record.headers)])
    verified = run(bench, log)
    assert verified.ok, verified.discrepancies
    assert verified.decisions == 2 * 2 * 12 + 1 + 2 * 11


def test_a_log_in_a_file_verifies_like_the_one_it_was_copied_from(bench: PipelineLog, tmp_path: Path) -> None:
    with FileLog.open_or_create(tmp_path / "log") as file:
        copy_range(bench.log, file, [bench.topics.wire(topic.name) for topic in TOPICS])
        assert verify(LogContext(file, bench.topics, bench.codec), stages()) == run(bench)


def published_places(bench: PipelineLog) -> list[tuple[str, int, int]]:
    """Every decision and dead letter."""
    names = ("recommendations", "recommendations-by-cluster", "pod-updates", "dead-letters")
    records = [r for name in names for r in bench.all_records(name) if not is_of_a_clock(r)]
    return [(r.topic, r.partition, r.offset) for r in records]


def damaged(record: Record, how: str, at: int) -> list[Record]:
    value, headers = record.value or b"", list(record.headers)
    place = at % len(value)
    name, content = headers[at % len(headers)]
    results = {
        "as it was": [record],
        "twice": [record, record],
        "away": [],
        "a bit of the value": [replace(record, value=value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :])],
        "cut short": [replace(record, value=value[:place])],
        "a header": [replace(record, headers=tuple((n, c + b"x" if n == name else c) for n, c in headers))],
        "no value": [replace(record, value=None)],
        "twice, once otherwise": [record, replace(record, key=(record.key or b"") + b"x")],
    }
    assert content is not None
    return results[how]


HOW = ["as it was", "twice", "away", "a bit of the value", "cut short", "a header", "no value", "twice, once otherwise"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.integers(0, 1 << 16), how=st.sampled_from(HOW), at=st.integers(0, 1 << 16))
def test_any_damage_to_anything_published_is_found_and_nothing_else_is(bench: PipelineLog, which: int, how: str, at: int) -> None:
    places = published_places(bench)
    chosen = places[which % len(places)]
    log = changed(bench, lambda r: damaged(r, how, at) if (r.topic, r.partition, r.offset) == chosen else [r])
    if chosen[0] == bench.topics.wire("recommendations-by-cluster"):
        # The evictor reads this topic: what is damaged there changes what it does, too. Only the adder is asked.
        assert verify(context(bench, log), stages()[:1]).ok == (how in ("as it was", "twice"))
    else:
        assert run(bench, log).ok == (how in ("as it was", "twice"))


def test_a_stage_that_the_log_is_older_than_is_not_compared_unless_a_worker_had_it(bench: PipelineLog) -> None:
    newer = replace(stages()[1], name="newer", writes=("vpa-conditions",))
    old = MemoryLog()
    for topic in TOPICS:
        if topic.name != "vpa-conditions":
            old.create(bench.topics.wire(topic.name), bench.topics.partitions)
            old.import_records(bench.all_records(topic.name))
    report = verify(context(bench, old), [*stages(), newer])
    assert report.ok
    assert report.absent == ["newer: the log has no topic 'ullage.vpa-conditions.v1'; it is older than this stage"]
    assert f"not compared: {report.absent[0]}" in list(report_lines(report))
    marked = {("newer", 0): CommittedTurn(START_MS, {}, None)}
    with pytest.raises(BadInput, match=r"no topic 'ullage\.vpa-conditions\.v1'"):
        verify(context(bench, old), [newer], committed=marked)
    at_work = {("newer", 0): CommittedTurn(-1, {}, None, at_work=True)}
    assert verify(context(bench, old), [newer], committed=at_work).absent == report.absent
