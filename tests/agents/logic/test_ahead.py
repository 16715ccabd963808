"""Events from the future: how far ahead is let pass, what the refusal says, and that the stage stays as it was."""

from dataclasses import replace
from typing import Any

import pytest
from cluster_events import API, GIB, MINUTE, START, scrape, when

from agents.logic.refusal.ahead import MOST_AHEAD, ahead
from agents.logic.updates.settings import UpdateSettings
from agents.logic.vertical.settings import VerticalSettings
from agents.pipeline import stages
from agents.task import Taken, Task
from schemas.facts import CheckpointSeen, ContainerOOMKilled, MetricsScraped, SavedHistogram, SourceReported
from schemas.names import PodName
from streams import codec
from streams.codec import Codec
from streams.log import NewRecord, Record
from streams.topics import Topics

AHEAD = START + int(MOST_AHEAD * 1000)
HOUR = 60 * MINUTE
KEPT = SavedHistogram(START / 1000, 1.0, {"3": 10_000})
SEED = CheckpointSeen(when(START), API, "api", "app", "v3", START / 1000, START / 1000, 1, KEPT, KEPT)


def killed(number: int) -> ContainerOOMKilled:
    return ContainerOOMKilled(when(number), API, PodName("web", "a", "u"), "app", 1, GIB, None)  # type: ignore[arg-type]  # units


def used(number: int, **changed: Any) -> MetricsScraped:
    return scrape(number, [(API.key, "a", "app", 0.1, GIB), (API.key, "b", "app", 0.1, GIB)], **changed)


@pytest.mark.parametrize("make", [used, killed, lambda number: SourceReported(when(number), "demo", "kube", ())])
def test_what_lies_a_little_ahead_of_the_turn_is_taken_and_more_is_refused(make: Any) -> None:
    assert ahead(make(START - 400 * 24 * HOUR), START) is None
    assert ahead(make(AHEAD), START) is None
    assert ahead(make(AHEAD + 500), START) == (
        "at is 2026-01-01T00:05:00.500000+00:00, 300.5 s after the turn of 2026-01-01T00:00:00+00:00; 300 s are let pass"
    )


def test_of_a_scrape_with_ages_the_youngest_row_counts() -> None:
    assert ahead(used(AHEAD + HOUR, ages=(3600.0, 7200.0)), START) is None
    assert ahead(used(AHEAD + HOUR, ages=(7200.0, 3599.0)), START) is not None


def test_a_checkpoint_may_have_a_reference_ahead_and_no_sample() -> None:
    day = 86_400.0
    assert ahead(replace(SEED, cpu=replace(KEPT, reference=START / 1000 + 7 * day)), START) is None
    said = ahead(replace(SEED, memory=replace(KEPT, reference=START / 1000 + 40 * day)), START)
    assert said is not None
    assert said.startswith("memory.reference is 2026-02-10T00:00:00+00:00, ")
    said = ahead(replace(SEED, last=1e15), START)
    assert said is not None
    assert said.startswith("last is 1e+15, ")


def taken(*events: Any) -> Taken:
    """What the recommender does of these events in one turn at START."""
    topics = Topics("ullage", 1)
    coder, stage = Codec(topics), stages(VerticalSettings(), UpdateSettings())[0]
    task = Task(stage, 0, topics=topics, codec=coder, positions=dict.fromkeys(stage.reads, 0))
    for name in stage.reads:
        mine = [event for event in events if name == ("pod-metrics" if isinstance(event, MetricsScraped) else "oom-events")]
        new = [coder.encode(event, topic=name, key=API.key, partition=0, source="/test") for event in mine]
        for offset, record in enumerate([*new, codec.tick(topics.wire(name), 0, START)]):
            task.feed(name, _record(record, offset))
    done = task.take()
    assert done is not None
    return done


def _record(new: NewRecord, offset: int) -> Record:
    return Record(new.topic, new.partition, offset, new.key, new.value, new.headers)


def test_a_sample_from_the_future_goes_to_dead_letters_with_value_and_place_and_the_rest_counts() -> None:
    done = taken(used(START - MINUTE), used(START + 24 * HOUR), used(START), killed(START + HOUR))
    assert done.records == 2
    said = sorted((dead.value or b"").decode() for dead in done.dead)
    assert len(said) == 2
    assert '"topic":"ullage.pod-metrics.v1"' in said[1]
    assert '"offset":1' in said[1]
    assert "at is 2026-01-02T00:00:00+00:00, 86400 s after the turn" in said[1]
    assert "at is 2026-01-01T01:00:00+00:00, 3600 s after the turn" in said[0]
