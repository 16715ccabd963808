"""The real stages and the simulated shop through every driver: simulate, verify, why and backtest speak of one log."""

from dataclasses import asdict, replace

import pytest

from agents.backtest import backtest
from agents.demo import day_in_memory
from agents.demo.demo_settings import Day
from agents.run.pipeline import stages
from agents.settings import loading
from agents.settings.all_settings import Settings
from agents.verify.verification import verify
from agents.why.explanation import ExplainedRecord, Explanation, explain
from schemas.decisions.pod_updates import ResizePlanned
from schemas.decisions.recommendations import RequestsRecommended
from schemas.names import Place
from schemas.units import Fraction
from streams import clock_log
from streams.clock_rules import FILL, Counted
from streams.codec.event_codec import header, is_of_a_clock
from streams.log.log_port import Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS

ROUNDS = 45
DAY = Day(seed=7, seconds=0.001)


@pytest.fixture(scope="module")
def settings() -> Settings:
    return loading.load(flags=DAY.in_one_process()).settings


@pytest.fixture(scope="module")
def log(settings: Settings) -> MemoryLog:
    """Three quarters of an hour of the shop, in which the first pods are resized."""
    log = day_in_memory.new_log(DAY)
    rounds = day_in_memory.played(DAY, settings, log)
    for _ in range(ROUNDS):
        next(rounds)
    return log


@pytest.fixture(scope="module")
def context(log: MemoryLog) -> LogContext:
    return LogContext.of(log, DAY.topics)


def plans(context: LogContext) -> list[Record]:
    places = {(context.topics.wire("pod-updates"), p): 0 for p in range(DAY.partitions)}
    records = [r for r in context.log.poll(places) if not is_of_a_clock(r)]
    return [r for r in records if isinstance(context.codec.decode(r), ResizePlanned)]


def test_what_the_shop_was_told_verifies_byte_for_byte(context: LogContext, settings: Settings) -> None:
    verified = verify(context, stages(settings))
    assert verified.ok, verified.discrepancies
    assert verified.turns == _turns(context, settings)
    assert plans(context)
    assert verified.decisions > len(plans(context))


def _turns(context: LogContext, settings: Settings) -> int:
    """One of each stage and partition for each tick; a round has several while containers are killed."""
    ticks = len(list(clock_log.ticks_from(context.log, context.topics, Counted())))
    assert ticks > ROUNDS
    return len(stages(settings)) * DAY.partitions * ticks


def other_margin(settings: Settings) -> Settings:
    return settings.model_copy(update={"vertical": replace(settings.vertical, margin=Fraction(0.5))})


def test_a_log_verifies_by_the_rules_in_it_whatever_the_settings_are(context: LogContext, settings: Settings) -> None:
    assert verify(context, stages(other_margin(settings))).ok


def test_a_log_that_lost_its_rules_does_not_verify_by_other_settings(context: LogContext, settings: Settings) -> None:
    without = day_in_memory.new_log(DAY)
    names = {topic.name: context.topics.wire(topic.name) for topic in TOPICS}
    every = context.log.poll({(w, p): 0 for name, w in names.items() for p in range(context.topics.count(name))}, limit=1_000_000)
    without.import_records(
        replace(record, key=FILL, value=b"", headers=()) if (record.key or b"").startswith(b"stage/") else record
        for record in every
    )
    assert not verify(LogContext.of(without, DAY.topics), stages(other_margin(settings))).ok


def test_a_decision_of_the_shop_cites_its_rules_and_why_shows_every_setting(context: LogContext, settings: Settings) -> None:
    places = {(context.topics.wire("recommendations"), p): 0 for p in range(DAY.partitions)}
    record = next(r for r in context.log.poll(places) if not is_of_a_clock(r))
    event = context.codec.decode(record)
    assert isinstance(event, RequestsRecommended)
    assert "settings" not in event.because
    step = explain(context, event.id).decision
    assert step.because["settings"] == asdict(settings.vertical)


def test_a_resize_leads_back_to_usage_and_on_to_its_outcome(context: LogContext) -> None:
    first = plans(context)[0]
    chain = explain(context, header(first, "ce_id") or "")
    found = {step.what for step in walk(chain)}
    assert {"resize planned", "requests recommended", "usage scraped", "control changed", "vertical policy set"} <= found
    assert not [step for step in walk(chain) if step.gone]
    assert [step.numbers["result"] for step in chain.outcomes] == ["done"]
    assert chain.decision.place == Place(first.topic, first.partition, first.offset)


def walk(chain: Explanation) -> list[ExplainedRecord]:
    steps = [chain.decision]
    for step in steps:
        steps += step.causes
    return steps


def test_a_backtest_over_the_log_scores_every_scrape_once_and_gives_the_same_card_again(
    context: LogContext, settings: Settings
) -> None:
    pipeline = stages(settings)
    card = backtest.over_log(context.log, pipeline, context.topics)
    assert card == backtest.over_log(context.log, pipeline, context.topics)
    wire = context.topics.wire("pod-metrics")
    scrapes = [r for r in context.log.poll({(wire, p): 0 for p in range(DAY.partitions)}) if not is_of_a_clock(r)]
    rows = sum(len(event.pods) for r in scrapes if hasattr(event := context.codec.decode(r), "pods"))
    assert (card.rows, card.turns) == (rows, _turns(context, settings))
    assert card.recommendations > 0
    assert card.dead_letters == 0
