from datetime import UTC, datetime

import pytest

from agents.processes import source_clock
from agents.processes.source_clock import SimulationPace
from schemas.facts.usage import MetricsScraped
from streams.codec.event_codec import Codec
from streams.log.memory_log import MemoryLog
from streams.topics import Topics
from tests.support import ticks

TOPICS = Topics(partitions=2)
AT = datetime(2026, 1, 5, tzinfo=UTC)
NUMBER = int(AT.timestamp()) * 1000


def log() -> MemoryLog:
    made = MemoryLog()
    made.create(TOPICS.wire("pod-metrics"), 2)
    made.create(TOPICS.wire("clock"), 1)
    return made


def test_a_tick_that_was_answered_by_a_scrape_is_not_waited_for() -> None:
    records = log()
    pace = SimulationPace(records, TOPICS)
    ticks.append(records, TOPICS, NUMBER)
    scrape = MetricsScraped(AT, "demo", ("demo/a/Deployment/b",), ("b",), ("c",), [0.1], [1.0])
    records.append([Codec(TOPICS).encode(scrape, topic="pod-metrics", key="demo", partition=1, source="/ullage/source/demo")])
    pace.sleep(0.0)
    assert (pace._tick, pace._scraped) == (NUMBER, NUMBER)


def test_a_world_that_does_not_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_clock, "PATIENCE", 0.1)
    records = log()
    pace = SimulationPace(records, TOPICS)
    ticks.append(records, TOPICS, NUMBER)
    pace.sleep(0.0)
    assert (pace._tick, pace._scraped) == (NUMBER, -1)
