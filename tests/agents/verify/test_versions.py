"""`replay --verify` across versions: an older version's decisions are compared after lifting, field by field."""

import lzma
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from agents import cli
from agents.logic.updates.update_settings import PROGRAM
from agents.pipeline import stages as pipeline
from agents.settings import loading
from agents.stage_runner import Runner
from agents.verify.verification import verify
from agents.verify.verification_report import DiscrepancyKind, VerificationReport, report_lines
from schemas.catalogue import CATALOGUE, Catalogue
from schemas.decisions.recommendations import RequestsRecommended
from streams.codec.event_codec import Codec, header, tick_number
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.log_range import copy_range, read_range
from streams.topics import TOPICS, Topics
from tests.support.small_pipeline import START_MS, TILL, WEB, PipelineLog, stages

MINUTES = 6
KIND = CATALOGUE.of(RequestsRecommended)
OLD = KIND.wire
NEW = OLD.replace(f".v{KIND.version}", f".v{KIND.version + 1}")
SHARED = Path(os.environ.get("ULLAGE_SHARED", "../shared")) / "logs"


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
        bench.log.append([*bench.metrics(minute, (WEB, 0.25, 100 * minute), (TILL, 0.5, 50)), *bench.ticks(minute)])
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


@pytest.fixture
def day(tmp_path: Path) -> Iterator[LogContext]:
    """The log of a simulated day that version 0.1.0 wrote."""
    packed = SHARED / "day-0.1.jsonl.xz"
    if not packed.exists():
        pytest.skip(f"there is no {packed}: it is not part of this repository")
    path = tmp_path / "day.jsonl"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    with FileLog(path) as log:
        yield LogContext.of(log, Topics(partitions=2))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_a_log_that_0_1_0_wrote_every_decision_is_as_published_but_the_one_that_was_altered(day: LogContext) -> None:
    wire = day.topics.wire("recommendations")
    log = MemoryLog()
    assert isinstance(day.log, FileLog)
    copy_range(day.log, log, [topic for topic in day.log.topics() if topic != wire])
    log.create(wire, day.topics.partitions)
    records = list(read_range(day.log, [wire]))
    chosen = records[500]
    value = (chosen.value or b"").replace(b'"lower":{"cpu":0.', b'"lower":{"cpu":1.', 1)
    assert value != chosen.value
    log.import_records([replace(record, value=value) if record is chosen else record for record in records])
    settings = loading.load(file=SHARED / "day-0.1.yaml").settings
    report = verify(LogContext.of(log, day.topics), pipeline(settings))
    assert report.counts == {DiscrepancyKind.DIFFERENT: 1}, list(report_lines(report))
    assert header(chosen, "ce_id") in report.discrepancies[0].says
    there = published(log, day.topics)
    assert report.decisions == sum(len(there[name]) for name in there if name != "pod-updates")
    assert [says.split(":")[0] for says in report.foreign] == ["updater, partition 0", "updater, partition 1"]
    assert f"a program of before rules stood in the log decided, and this program has version {PROGRAM}" in report.foreign[0]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("plan",), "  36 other pods need no change now"),
        (("why-not", "shop/Deployment/web"), "8 pods of demo/shop/Deployment/web: left alone"),
    ],
)
def test_a_log_that_0_1_0_wrote_is_asked_what_would_be_done_though_it_lacks_topics(
    words: tuple[str, ...], answer: str, day: LogContext, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(day.log, FileLog)
    assert cli.run([*words, "--log", str(day.log.path)]) == 0
    assert answer in capsys.readouterr().out


def published(log: MemoryLog, topics: Topics) -> dict[str, set[str | None]]:
    """The ids of the decisions in each topic, by the headers alone."""
    names = ("recommendations", "recommendations-by-cluster", "pod-updates")
    return {name: {header(r, "ce_id") for r in read_range(log, [topics.wire(name)]) if tick_number(r) is None} for name in names}
