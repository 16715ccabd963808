"""`replay --verify` across versions: an older version's decisions are compared after lifting, field by field."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from agents.run.stage_runner import Runner
from agents.verify.verification import verify
from agents.verify.verification_report import DiscrepancyKind, VerificationReport, report_lines
from schemas.catalogue import CATALOGUE, Catalogue
from schemas.decisions.recommendations import RequestsRecommended
from streams.codec.event_codec import Codec, header
from streams.errors import BadInput
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS
from tests.support.small_pipeline import START_MS, TILL, WEB, PipelineLog, stages

MINUTES = 6
KIND = CATALOGUE.of(RequestsRecommended)
OLD = KIND.wire
NEW = OLD.replace(f".v{KIND.version}", f".v{KIND.version + 1}")


def lift(body: dict[str, object]) -> dict[str, object]:
    """The made-up older version calls the containers `advice`."""
    return {("containers" if name == "advice" else name): value for name, value in body.items()}


TOMORROW = Catalogue(
    tuple(replace(kind, version=kind.version + 1) if kind is KIND else kind for kind in CATALOGUE.kinds),
    {**CATALOGUE.lifts, (KIND.name, KIND.version): lift},
)
"""Today's catalogue, but recommendations have one version more."""


@pytest.fixture
def bench() -> PipelineLog:
    """Six minutes of two workloads, published by today's version."""
    bench = PipelineLog()
    runner = Runner(stages(), LogContext(bench.log, bench.topics, bench.codec))
    for minute in range(1, MINUTES + 1):
        bench.log.append([*bench.metrics(minute, (WEB, 0.25, 100 * minute), (TILL, 0.5, 50))])
        bench.tick(minute)
        runner.run()
    return bench


def as_the_older_version_wrote_it(record: Record) -> Record:
    """With `advice` for `containers`, `because.settings`, which the newer version drops, and without its `because.samples`."""
    if header(record, "ce_type") != OLD:
        return record
    body = orjson.loads(record.value or b"")
    because = {"settings": {"margin": 0.15}, **{name: value for name, value in body["because"].items() if name != "samples"}}
    older = {**{("advice" if name == "containers" else name): value for name, value in body.items()}, "because": because}
    return replace(record, value=orjson.dumps(older))


def older_log(bench: PipelineLog, change: Callable[[Record], Record] = lambda record: record) -> MemoryLog:
    log = MemoryLog()
    for topic in TOPICS:
        log.create(bench.topics.wire(topic.name), bench.topics.partitions)
        log.import_records([change(as_the_older_version_wrote_it(record)) for record in bench.all_records(topic.name)])
    return log


def verified(bench: PipelineLog, log: MemoryLog) -> VerificationReport:
    return verify(LogContext(log, bench.topics, Codec(bench.topics, TOMORROW)), stages())


def is_chosen(record: Record) -> bool:
    """The recommendation for WEB in minute 3, in the topic that no stage reads."""
    wanted = f"/{START_MS + 3 * 60_000}/recommended/{WEB.key}"
    return record.topic == "ullage.recommendations.v1" and (header(record, "ce_id") or "").endswith(wanted)


def altered(change: Callable[[dict[str, object]], object]) -> Callable[[Record], Record]:
    """Change the body of the chosen record."""

    def alter(record: Record) -> Record:
        if not is_chosen(record):
            return record
        body = orjson.loads(record.value or b"")
        change(body)
        return replace(record, value=orjson.dumps(body))

    return alter


def test_what_an_older_version_published_verifies_in_every_field_that_both_versions_have(bench: PipelineLog) -> None:
    report = verified(bench, older_log(bench))
    assert report.ok, report.discrepancies
    # Two workloads in two topics each minute, and the evictions for all but the last minute's, which had one version always.
    assert (report.decisions, report.older) == (4 * MINUTES + 2 * (MINUTES - 1), 4 * MINUTES)
    assert any(f"{4 * MINUTES} of them were published by an older version" in line for line in report_lines(report))


def test_a_field_of_an_older_decision_that_says_something_else_is_found_by_name(bench: PipelineLog) -> None:
    def more_memory(body: dict[str, object]) -> None:
        body["advice"][0]["target"]["memory"] = 301  # type: ignore[index]  # JSON

    report = verified(bench, older_log(bench, altered(more_memory)))
    assert report.counts == {DiscrepancyKind.DIFFERENT: 1}
    (discrepancy,) = report.discrepancies
    assert "containers: published" in discrepancy.says
    assert f"recommended/{WEB.key}" in discrepancy.says


def test_an_entry_of_because_that_says_something_else_is_found_by_name(bench: PipelineLog) -> None:
    report = verified(bench, older_log(bench, altered(lambda body: body["because"].update(factor=2.0))))  # type: ignore[attr-defined]  # JSON
    assert report.counts == {DiscrepancyKind.DIFFERENT: 1}
    assert "because.factor: published …b'2.0', recomputed …b'1.0'" in report.discrepancies[0].says


def test_a_field_that_both_versions_have_and_one_record_lacks_is_found(bench: PipelineLog) -> None:
    report = verified(bench, older_log(bench, altered(lambda body: body["because"].pop("factor"))))  # type: ignore[attr-defined]  # JSON
    assert report.counts == {DiscrepancyKind.DIFFERENT: 1}
    assert "'because.factor'" in report.discrepancies[0].says


@pytest.mark.parametrize("damage", ["key", "header", "value"])
def test_what_is_around_the_fields_counts_too_but_for_the_type(bench: PipelineLog, damage: str) -> None:
    def change(record: Record) -> Record:
        if not is_chosen(record):
            return record
        if damage == "key":
            return replace(record, key=b"another")
        if damage == "value":
            return replace(record, value=b"{")
        return replace(record, headers=tuple((n, b"/x" if n == "ce_subject" else v) for n, v in record.headers))

    report = verified(bench, older_log(bench, change))
    assert report.counts == {DiscrepancyKind.DIFFERENT: 1}


def republished(bench: PipelineLog, log: MemoryLog, factor: float) -> None:
    """What a worker of the newer version, with this factor, publishes when it takes the first two turns again."""
    codec = Codec(bench.topics, TOMORROW)
    runner = Runner(stages(factor)[:1], LogContext(log, bench.topics, codec))
    runner.read()
    records = [record for _, taken in runner.turns() for record in taken.decisions if taken.turn <= START_MS + 2 * 60_000]
    assert all(dict(record.headers)["ce_type"] == NEW.encode() for record in records)
    log.append(NewRecord(r.topic, r.partition, r.key, r.value, r.headers) for r in records)


def test_a_worker_of_a_newer_version_may_publish_the_same_turns_again(bench: PipelineLog) -> None:
    log = older_log(bench)
    republished(bench, log, factor=1.0)
    report = verify(LogContext(log, bench.topics, Codec(bench.topics, TOMORROW)), stages()[:1])
    assert report.ok, report.discrepancies
    assert report.repeats == 4 * 2  # two workloads in two topics, two turns


def test_but_not_with_another_content(bench: PipelineLog) -> None:
    log = older_log(bench)
    republished(bench, log, factor=2.0)
    report = verify(LogContext(log, bench.topics, Codec(bench.topics, TOMORROW)), stages()[:1])
    assert report.counts == {DiscrepancyKind.TWO_CONTENTS: 4 * 2}


def test_a_file_that_another_version_wrote_is_refused_by_one_sentence(bench: PipelineLog, tmp_path: Path) -> None:
    """Not read as if it were empty: rules have been in every log since 0.1.0, and newer bodies cannot be lifted down."""

    def saved(name: str, records: Iterable[Record], without: str = "") -> FileLog:
        log = FileLog.open_or_create(tmp_path / name)
        for topic in TOPICS:
            if topic.name != without:
                log.create(bench.topics.wire(topic.name), bench.topics.partitions)
        log.import_records(records)
        return log

    assert LogContext.of(saved("today.jsonl", bench.all_records("recommendations")), bench.topics)
    with pytest.raises(BadInput, match=r"old\.jsonl' has no rules: a program before 0\.1\.0 wrote it"):
        LogContext.of(saved("old.jsonl", [], without="rules"), bench.topics)
    newer = (replace(r, headers=(("ce_type", NEW.encode()),)) for r in bench.all_records("recommendations"))
    with pytest.raises(BadInput, match="a requests-recommended of version 2, and this program reads version 1: a newer program"):
        LogContext.of(saved("newer.jsonl", newer), bench.topics)
