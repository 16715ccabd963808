"""`topics move`: a log with another number of partitions holds the same, says the same, and goes on in the same way."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from agents.commands.change import topics_move
from agents.demo import day_in_memory
from agents.demo.demo_settings import Day
from agents.run.newest_checkpoint import newest_checkpoint
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner, TaskStart
from agents.run.stage_topics import all_decision_topics, stage_names
from agents.settings import loading, log_factory
from agents.settings.all_settings import Settings
from agents.verify.verification import verify
from schemas import times
from schemas.facts.sources import SourceReported
from schemas.facts.usage import MetricsScraped
from schemas.ids import DecisionId
from schemas.names import Place
from schemas.units import Seconds
from streams import clock_log, repartitioned_copy
from streams.codec import plan_attestations
from streams.codec.event_codec import causes, header, is_of_a_clock
from streams.errors import BadInput
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.sources.clock import TickWriter, numbered
from streams.topics import TOPICS, KeySpace, changelog_topic

FROM, TO = 4, 7
_PARTITION = re.compile(rb"(recommender|conditions|updater|scaler|forecaster)/\d+/")
_PLACES = (
    re.compile(rb'"((?:ullage|wide)\.([a-z-]+)\.v1):(\d+):(\d+)"'),
    re.compile(rb'\{"topic":"((?:ullage|wide)\.([a-z-]+)\.v1)","partition":(\d+),"offset":(\d+)\}'),
)


@pytest.fixture(scope="module")
def moved() -> Any:
    """Three hours of the shop in four partitions, and the same log in seven."""
    day = Day(seed=1, seconds=0.001, partitions=FROM, length=timedelta(hours=3), pause=False)
    log, settings = day_in_memory.new_log(day), loading.load(flags=day.in_one_process()).settings
    for _ in day_in_memory.played(day, settings, log):
        pass
    there = topics_move.elsewhere(settings, TO, "wide")
    make(log, there)
    topics_move.move(log, settings, there)
    return SimpleNamespace(log=log, settings=settings, there=there, old=context(log, settings), new=context(log, there))


def context(log: MemoryLog, settings: Settings) -> LogContext:
    return LogContext.of(log, log_factory.topics(settings))


def make(log: MemoryLog, settings: Settings) -> None:
    topics = log_factory.topics(settings)
    for topic in TOPICS:
        log.create(topics.wire(topic.name), topics.count(topic.name))
    for stage in stage_names():
        log.create(changelog_topic(settings.worker.name, stage), topics.partitions)


def records(here: LogContext, name: str) -> Iterator[Record]:
    for partition in range(here.topics.count(name)):
        place = here.topics.wire(name), partition
        yield from clock_log.between(here.log, place, here.log.begin(*place), here.log.end(*place))


def rows(here: LogContext) -> Counter[Any]:
    """What was scraped, row by row."""
    events = (here.codec.decode(record) for record in records(here, "pod-metrics") if not is_of_a_clock(record))
    return Counter(
        (event.at, *row)
        for event in events
        if isinstance(event, MetricsScraped)
        for row in zip(event.workloads, event.pods, event.containers, map(float, event.cores), strict=True)
    )


def said(record: Record) -> tuple[bytes | None, bytes]:
    return record.key, _plain(record.value)


def _plain(value: bytes | None) -> bytes:
    """Without the partition in ids, and without places, which are others there."""
    value = _PARTITION.sub(rb"\1/", value or b"")
    for pattern in _PLACES:
        value = pattern.sub(rb"\2", value)
    return value


def test_each_record_stands_where_its_key_belongs_and_none_is_lost(moved: Any) -> None:
    assert rows(moved.new) == rows(moved.old) != Counter()
    for topic in TOPICS:
        if topic.keyed in (KeySpace.WORKLOAD, KeySpace.CLUSTER, KeySpace.OBJECT) and topic.name != "pod-metrics":
            assert Counter(map(said, records(moved.new, topic.name))) == Counter(map(said, records(moved.old, topic.name)))
            for record in records(moved.new, topic.name):
                assert record.partition == moved.new.topics.partition_of((record.key or b"").decode())
        elif topic.keyed is KeySpace.BROADCAST:
            parts = [[said(r) for r in records(moved.new, topic.name) if r.partition == p] for p in range(TO)]
            assert parts == [[said(r) for r in records(moved.old, topic.name) if r.partition == 0]] * TO


def test_what_is_recomputed_from_there_on_is_compared_and_the_rest_is_shown(moved: Any) -> None:
    assert verify(moved.old, stages(moved.settings)).ok
    report = verify(moved.new, stages(moved.there))
    assert (report.ok, report.decisions) == (True, 0)


def test_causes_and_ids_lead_to_the_same_records(moved: Any) -> None:
    ids = {header(record, "ce_id") for name in all_decision_topics() for record in records(moved.new, name)}
    outcomes = [moved.new.codec.decode(record) for record in records(moved.new, "outcomes")]
    assert outcomes
    assert all(outcome.decision in ids for outcome in outcomes)
    by_place = {record.place: record for topic in TOPICS for record in records(moved.new, topic.name)}
    decisions = [record for name in all_decision_topics() for record in records(moved.new, name)]
    there = {place for record in decisions for place in causes(record)}
    bodies = [record.value or b"" for record in decisions]
    there |= {Place(m[1].decode(), int(m[3]), int(m[4])) for body in bodies for p in _PLACES for m in p.finditer(body)}
    assert {place.topic.split(".")[1] for place in there} >= {"rules", "pod-metrics"}
    assert there <= by_place.keys()


def test_plans_are_attested_to_in_the_copy(moved: Any) -> None:
    """A consumer believes those that it believed before."""

    def vouched(here: LogContext) -> int:
        attested = {d for r in records(here, plan_attestations.TOPIC) for d in here.codec.decode(r).digests}  # type: ignore[union-attr]
        return sum(plan_attestations.digest(r) in attested for name in plan_attestations.PLAN_TOPICS for r in records(here, name))

    assert vouched(moved.new) == vouched(moved.old) > 0


def test_a_forged_plan_is_attested_to_by_none(moved: Any) -> None:
    plan = next(r for r in records(moved.old, "pod-updates") if b"planned" in dict(r.headers)["ce_type"])
    log = MemoryLog()
    make(log, moved.settings)
    make(log, moved.there)
    log.append([NewRecord(plan.topic, plan.partition, plan.key, plan.value, plan.headers)])
    TickWriter(log, moved.old.topics, draw=numbered).write(DecisionId.turn_of(header(plan, "ce_id") or ""))
    topics_move.move(log, moved.settings, moved.there)
    new = context(log, moved.there)
    assert len(list(records(new, "pod-updates"))) == 1
    assert not list(records(new, "plan-attestations"))


def continued(here: LogContext, settings: Settings, starts: Mapping[tuple[str, int], TaskStart]) -> list[Any]:
    """What is decided in the half hour after: the containers use four times as much as they did last."""
    runner = Runner(stages(settings), here, starts)
    while runner.read():
        for _ in runner.turns():
            pass
    newest = clock_log.newest(here.log, here.topics)
    assert newest is not None
    last = newest.number // 60_000 * 60_000
    scrapes = [r for r in records(here, "pod-metrics") if not is_of_a_clock(r)]
    at = max(here.codec.decode(r).at for r in scrapes)
    newest_scrapes = [r for r in scrapes if here.codec.decode(r).at == at]
    writer, decided = TickWriter(here.log, here.topics, draw=numbered), []
    for minute in range(1, 31):
        moment = last + minute * 60_000
        for record in newest_scrapes:
            event = here.codec.decode(record)
            assert isinstance(event, MetricsScraped)
            more = replace(event, at=times.from_ms(moment), cores=tuple(4 * float(c) for c in event.cores))
            key = (record.key or b"").decode()
            here.log.append([here.codec.encode(more, topic="pod-metrics", key=key, partition=record.partition, source="/test")])
        writer.write(moment)
        decided += [(t, d) for t in runner.run() for d in t.decisions]
    wires = {here.topics.wire(name): name for name in all_decision_topics()}
    return sorted((wires[d.topic], d.key, _plain(d.value)) for _, d in decided if d.topic in wires)


def test_the_stages_go_on_from_their_state_as_they_would_have_gone_on_here(moved: Any) -> None:
    starts = {}
    for stage in stages(moved.there):
        for partition in range(TO):
            state = newest_checkpoint(moved.new, stage, partition, "wide").found
            assert state is not None
            opened = stage.open(partition)
            for name in sorted(state.chunks):
                opened.load(name, state.chunks[name])
            starts[stage.name, partition] = TaskStart(state.mark.turn, state.mark.positions, opened, state.mark.tick)
    there = continued(moved.new, moved.there, starts)
    here = continued(moved.old, moved.settings, {})
    assert len(here) > 10
    assert there == here


@pytest.mark.parametrize(
    ("ago", "says"), [(0.0, "'kube' of cluster 'demo' reported 0 s ago"), (74.0, "reported 74 s ago"), (76.0, ""), (-76.0, "")]
)
def test_while_a_source_reports_nothing_is_moved(ago: float, says: str, moved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once every stage has taken the last turn; those of an empty log have nothing to take."""
    log, now = MemoryLog(), times.from_ms(10**12)
    make(log, moved.settings)
    here = context(log, moved.settings)
    report = SourceReported(now - timedelta(seconds=ago), "demo", "kube", ("pod-changes",), Seconds(30.0))
    log.append(here.codec.encode_for_all(report, topic="cluster-changes", key="demo", source="/test"))
    monkeypatch.setattr(topics_move, "stages", lambda _settings: [])
    with pytest.raises(BadInput, match=says) if says else nullcontext():
        topics_move.require_quiet(here, moved.settings, now)


def test_a_prefix_that_was_used_is_refused(moved: Any) -> None:
    with pytest.raises(BadInput, match="is not empty"):
        repartitioned_copy.copy(moved.old, moved.new)
    with pytest.raises(BadInput, match="another for both"):
        topics_move.elsewhere(moved.settings, TO, "ullage")
