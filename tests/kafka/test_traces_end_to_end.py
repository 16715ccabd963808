"""The main job on real input, as a user runs it: a trace into Kafka, two workers, one of them killed midway.

What they recommend is what the backtest driver recommends on the same trace, byte for byte.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.backtest import backtest
from agents.pipeline import stages
from agents.settings.tree import Settings
from agents.verify.committed_turns import committed
from streams.codec.event_codec import header, tick_number
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.sources.traces import Trace
from streams.topics import Topics
from tests.support.commands import Commands
from tests.support.real_traces import trace

CLUSTER = "trace"
Decisions = dict[str, bytes]
"""Decisions by id."""


@pytest.fixture
def site(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> Iterator[Commands]:
    site = Commands(broker, topics_made(partitions=2), tmp_path, {"CLUSTER__NAME": CLUSTER})
    yield site
    site.close()


def expected(folder: Path, topics: Topics, monkeypatch: pytest.MonkeyPatch) -> tuple[Decisions, int]:
    """What the backtest driver recommends on the trace, and its last turn."""
    found: Decisions = {}
    hear = backtest.Backtest._hear

    def listen(self: Any, decisions: Any) -> None:
        records = list(decisions)
        found.update(_recommended(records, topics))
        hear(self, records)

    monkeypatch.setattr(backtest.Backtest, "_hear", listen)
    with Trace(folder) as trace:
        listed = stages(Settings())
        for step in backtest.over_trace(trace, listed, topics, cluster=CLUSTER):
            last = step
    assert last.card().recommendations == len(found)
    return found, last._runner.tasks[0].turn


def _recommended(records: Any, topics: Topics) -> Iterator[tuple[str, bytes]]:
    wire = topics.wire("recommendations")
    return ((str(header(r, "ce_id")), r.value) for r in records if r.topic == wire and tick_number(r) is None)


def published(log: KafkaLog, topics: Topics) -> Decisions:
    """What stands in Kafka. A decision that was said again has the same bytes."""
    found: Decisions = {}
    for partition in range(topics.partitions):
        place = (topics.wire("recommendations"), partition)
        position, end = log.begin(*place), log.end(*place)
        while position < end:
            records = log.poll({place: position}, wait=5.0)
            for identifier, value in _recommended(records, topics):
                assert found.setdefault(identifier, value) == value
            position = records[-1].offset + 1
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "days"), [("google2019-borg", None), ("bitbrains-rnd", 1)])
def test_what_two_workers_recommend_on_a_trace_is_what_the_backtest_does_even_when_one_is_killed_midway(
    site: Commands, monkeypatch: pytest.MonkeyPatch, name: str, days: int | None
) -> None:
    file = trace(name, days, site.folder)
    listed = stages(Settings())
    wanted, last = expected(file, site.topics, monkeypatch)

    def level() -> bool:
        marks = committed(log, site.topics.prefix, listed).items()
        turns = [mark.turn for (stage, _), mark in marks if stage == "recommender"]
        return turns == [last] * site.topics.partitions

    with KafkaLog(KafkaConnection(site.broker)) as log:
        site.start("source", "source", "traces", str(file), "--speed", "0")
        site.start("one", "worker")
        site.start("two", "worker")
        places = [(site.topics.wire("recommendations"), p) for p in range(site.topics.partitions)]
        site.wait(lambda: sum(log.end(*place) for place in places) > len(wanted) // 4, 120, "a quarter is recommended")
        assert sum(log.end(*place) for place in places) < len(wanted), "it was over before the worker could be killed"
        site.kill("one")
        site.start("one again", "worker")
        site.wait(level, 1200, "all turns are taken and marked")
        found = published(log, site.topics)
    assert found.keys() == wanted.keys()
    assert found == wanted
