"""Sixty damages of a workers' log: each is found with the smallest range that the marks allow, or listed as not provable.

docs/incidents.md has the table. Six minutes of usage, kills and decisions, of which workers marked the first five.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agents.engine.checkpoint_selection import CheckpointLedger
from agents.run.stage_runner import Runner
from agents.verify.committed_turns import committed
from agents.verify.verification import verify
from agents.verify.verification_report import VerificationReport, report_lines
from schemas.outcomes import ActionFinished
from streams.codec.event_codec import is_of_a_clock
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import CLOCK, TOPICS, changelog_topic
from tests.support import examples
from tests.support.small_pipeline import WEB, PipelineLog, stages

WORKER, MINUTES, MARKED = "w", 6, 5
HERE = PipelineLog().topics.partition_of(WEB.key)
Damage = Callable[[list[Record], int], list[Record]]


@pytest.fixture(scope="module")
def bench() -> PipelineLog:
    bench = PipelineLog()
    runner = Runner(stages(), LogContext(bench.log, bench.topics, bench.codec))
    ledgers: dict[tuple[str, int], CheckpointLedger] = {}
    for stage in stages():
        bench.log.create(changelog_topic(WORKER, stage.name), bench.topics.partitions)
    for minute in range(1, MINUTES + 1):
        act = replace(next(each for each in examples.EVENTS if isinstance(each, ActionFinished)), id=f"act{minute}")
        done = bench.codec.encode(act, topic="outcomes", key=WEB.key, partition=HERE, source="/ullage/test")
        bench.log.append([*bench.metrics(minute, (WEB, 0.25, 100)), bench.oom(minute, WEB, minute), done])
        bench.tick(minute)
        runner.run()
        for task in runner.tasks if minute <= MARKED else []:
            ledger = ledgers.setdefault(
                (task.stage.name, task.partition), CheckpointLedger(f"f{task.stage.name}{task.partition}")
            )
            chunks = [(chunk, task.state.dump(chunk)) for chunk in task.state.chunks()]
            plan = ledger.plan(turn=task.turn, positions=task.positions, dumps=chunks, tick=task.tick, inputs=task.inputs)
            ledger.accept(plan)
            topic = changelog_topic(WORKER, task.stage.name)
            bench.log.append([NewRecord(topic, task.partition, key, value) for key, value in [*plan.records, plan.mark]])
    return bench


def removed(records: list[Record], at: int) -> list[Record]:
    return records[:at] + records[at + 1 :]


def doubled(records: list[Record], at: int) -> list[Record]:
    return [*records[: at + 1], *records[at:]]


def swapped(records: list[Record], at: int) -> list[Record]:
    """With the tick after it, or the record before it."""
    other = at - 1 if at + 1 >= len(records) else at + 1
    changed = list(records)
    changed[at], changed[other] = changed[other], changed[at]
    return changed


def altered(records: list[Record], at: int) -> list[Record]:
    return [*records[:at], replace(records[at], headers=(*records[at].headers, ("x", b"y"))), *records[at + 1 :]]


def told_later(records: list[Record], at: int) -> list[Record]:
    """A tick of another time."""
    return told_other(records, at, lambda tick: tick | {"at": tick["at"] + 1})


def told_shorter(records: list[Record], at: int) -> list[Record]:
    """A tick that says of usage that it ended a record before."""
    shorter = lambda ends: {partition: max(0, end - 1) for partition, end in ends.items()}  # noqa: E731  # a line of a sum
    return told_other(
        records, at, lambda tick: tick | {"ends": tick["ends"] | {"pod-metrics": shorter(tick["ends"]["pod-metrics"])}}
    )


def told_other(records: list[Record], at: int, change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[Record]:
    changed = json.dumps(change(json.loads(records[at].value or b""))).encode()
    return [*records[:at], replace(records[at], value=changed), *records[at + 1 :]]


def cut(records: list[Record], at: int) -> list[Record]:
    return records[:at]


def verified(
    bench: PipelineLog, topic: str, minute: int, damage: Damage, *, holes: bool = False
) -> tuple[int, VerificationReport]:
    """The log with one damage to the record of a minute; also where it stood. Offsets are given anew unless `holes` stay."""
    log, place = MemoryLog(), -1
    changelogs = [changelog_topic(WORKER, stage.name) for stage in stages()]
    wires = [*(bench.topics.wire(each.name) for each in TOPICS), *changelogs]
    for wire in wires:
        log.create(wire, bench.topics.partitions)
        for p in range(bench.topics.partitions):
            records = read(bench, wire, p)
            if wire == bench.topics.wire(topic) and p == damaged_partition(bench, wire):
                place = minute - 1 if topic == CLOCK else records_of(bench, wire, p)[minute - 1]
                kept = damage(records, place)
            else:
                kept = records
            log.import_records(kept if holes or kept is records else [replace(r, offset=n) for n, r in enumerate(kept)])
    context = LogContext(log, bench.topics, bench.codec)
    return place, verify(context, stages(), committed=committed(context, WORKER, stages()))


def damaged_partition(bench: PipelineLog, wire: str) -> int:
    """The one that has records: by workload, or by cluster."""
    return 0 if wire == bench.topics.wire(CLOCK) else HERE if records_of(bench, wire, HERE) else 1 - HERE


def read(bench: PipelineLog, wire: str, partition: int) -> list[Record]:
    return list(bench.log.poll({(wire, partition): 0}, limit=1_000_000))


def records_of(bench: PipelineLog, wire: str, partition: int) -> list[int]:
    """The offsets of the records of a partition that are no ticks."""
    return [r.offset for r in read(bench, wire, partition) if not is_of_a_clock(r)]


INPUTS, DECISIONS = ("pod-metrics", "oom-events", "outcomes"), ("recommendations", "pod-updates")
DAMAGES: Sequence[tuple[Damage, bool]] = (
    (removed, False),
    (removed, True),
    (doubled, False),
    (swapped, False),
    (altered, False),
    (cut, False),
)
MINUTES_OF = {cut: (MARKED,), doubled: (2, 3, 4)}
"""A record that comes twice is read a turn later: of the last minute that a mark covers, when no mark covers it any more."""
INPUT_CASES = [(t, m, *each) for t in INPUTS for each in DAMAGES for m in MINUTES_OF.get(each[0], (2, 3, 4, MARKED))]
TICK_CASES = [
    *((minute, *each) for each in DAMAGES if each[0] not in {altered, doubled} for minute in range(1, MINUTES + 1)),
    *((minute, doubled, False) for minute in range(1, MARKED)),
    *((minute, damage, False) for damage in (told_later, told_shorter) for minute in range(1, MINUTES + 1)),
]
DECISION_CASES = [(t, m, *each) for t in DECISIONS for m in (2, 3) for each in DAMAGES if each[0] not in {doubled, swapped}]


@pytest.mark.parametrize(("topic", "minute", "damage", "holes"), INPUT_CASES)
def test_a_damaged_input_is_found_with_the_smallest_range_between_two_marks(
    bench: PipelineLog, topic: str, minute: int, damage: Damage, holes: bool
) -> None:
    place, report = verified(bench, topic, minute, damage, holes=holes)
    said = "\n".join(report_lines(report))
    assert not report.ok, said
    ranges = re.findall(rf"'ullage\.{topic}\.v1' (?:partition \d )?from offset (\d+) to (\d+)", said)
    place += damage is doubled  # the second one stands behind it
    assert any(int(begin) <= place < int(end) for begin, end in ranges), (place, said)
    assert min(int(end) - int(begin) for begin, end in ranges) <= 3, said


@pytest.mark.parametrize(("topic", "minute", "damage", "holes"), DECISION_CASES)
def test_a_damaged_decision_is_found(bench: PipelineLog, topic: str, minute: int, damage: Damage, holes: bool) -> None:
    _, report = verified(bench, topic, minute, damage, holes=holes)
    assert not report.ok


@pytest.mark.parametrize(("minute", "damage", "holes"), TICK_CASES)
def test_a_damaged_tick_is_found(bench: PipelineLog, minute: int, damage: Damage, holes: bool) -> None:
    _, report = verified(bench, CLOCK, minute, damage, holes=holes)
    assert not report.ok


@pytest.mark.parametrize(("damage", "minute"), [(altered, 3), (doubled, MARKED), (doubled, MINUTES)])
def test_a_tick_that_is_repeated_after_the_newest_mark_or_has_a_header_that_nobody_reads_changes_nothing(
    bench: PipelineLog, damage: Damage, minute: int
) -> None:
    _, report = verified(bench, CLOCK, minute, damage)
    assert report.ok


@pytest.mark.parametrize("damage", [doubled, swapped])
def test_a_decision_that_is_repeated_or_moved_is_as_published_because_workers_repeat_and_readers_take_the_newest_turn(
    bench: PipelineLog, damage: Damage
) -> None:
    _, report = verified(bench, "recommendations", 3, damage)
    assert report.ok


@pytest.mark.parametrize("damage", [doubled, altered])
def test_what_no_mark_covers_is_named_as_not_proven(bench: PipelineLog, damage: Damage) -> None:
    """After the newest mark a kill changes no decision here, so nothing can show that it was tampered with."""
    _, report = verified(bench, "oom-events", MINUTES, damage)
    assert report.ok
    said = "\n".join(report_lines(report))
    assert "not proven: " in said
    assert "of which a change shows only if it changes a decision" in said


def test_where_the_newest_record_is_gone_its_turn_is_too_so_it_is_found(bench: PipelineLog) -> None:
    """The clock says where the input ended, and it does not reach so far: the turn is never complete."""
    _, report = verified(bench, "oom-events", MINUTES, removed)
    assert any("but no turn gives it" in line for line in report_lines(report)), report_lines(report)


@pytest.mark.parametrize("topic", [*INPUTS, *DECISIONS])
def test_a_log_that_begins_later_is_as_one_that_retention_cut(bench: PipelineLog, topic: str) -> None:
    """Nobody can tell them apart, so it is said: an input is out of reach, and decisions were forgotten."""
    _, report = verified(bench, topic, 1, removed, holes=True)
    said = "\n".join(report_lines(report))
    assert ("is kept from offset 1 on, and offset 0 is needed" if topic in INPUTS else "before the first offset that") in said


def test_there_are_sixty() -> None:
    assert len(INPUT_CASES) + len(DECISION_CASES) + len(TICK_CASES) + 3 + 2 + 2 + 1 + 5 >= 60


def test_of_a_whole_log_it_is_said_what_is_proven_and_what_is_not(bench: PipelineLog) -> None:
    _, report = verified(bench, "oom-events", 1, lambda records, _: records)
    assert report.ok
    [proven] = [line for line in report_lines(report) if line.startswith("proven: ")]
    assert proven.startswith("proven: 17 decisions, recomputed from what the log has; "), proven
