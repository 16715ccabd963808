"""A log that has lost its beginning says so, of which topics, and since when they are whole."""

from datetime import UTC, datetime, timedelta

import pytest

from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_as_of import LogAsOf
from streams.topics import Topics
from streams.truncated_topics import TruncatedTopic, late_starts, sentence
from tests.support import ticks

START = datetime(2026, 1, 1, tzinfo=UTC)
TOPICS = Topics("shop", 2)
PLANS = TOPICS.wire("pod-updates")


@pytest.fixture
def log() -> MemoryLog:
    """A record in each of two partitions for each of ten minutes."""
    log = MemoryLog()
    for name in ("control", "pod-updates"):
        log.create(TOPICS.wire(name), 2)
    log.create(TOPICS.wire("clock"), 1)
    for minute in range(10):
        at = (START + timedelta(minutes=minute)).isoformat().encode()
        log.append([NewRecord(PLANS, partition, b"k", b"{}", (("ce_time", at),)) for partition in range(2)])
        ticks.append(log, TOPICS, int(START.timestamp() * 1000) + minute * 60_000)
    return log


def test_a_whole_log_and_a_topic_that_it_never_had_have_lost_nothing(log: MemoryLog) -> None:
    assert late_starts(log, TOPICS, ("control", "pod-updates", "outcomes")) == []
    assert sentence([]) == ""


def test_a_topic_is_whole_from_the_latest_first_record_of_its_partitions_on(log: MemoryLog) -> None:
    log.truncate(PLANS, 0, 3)
    log.truncate(PLANS, 1, 5)
    found = late_starts(log, TOPICS, ("control", "pod-updates"))
    assert found == [TruncatedTopic("pod-updates", START + timedelta(minutes=5))]
    assert "pod-updates before 2026-01-01 00:05:00 UTC" in sentence(found)
    assert late_starts(log, TOPICS, ("pod-updates",), partition=0) == [
        TruncatedTopic("pod-updates", START + timedelta(minutes=3))
    ]


def test_a_reader_who_begins_where_it_is_whole_misses_nothing(log: MemoryLog) -> None:
    log.truncate(PLANS, 1, 5)
    assert late_starts(log, TOPICS, ("pod-updates",), before=START + timedelta(minutes=5)) == []
    assert late_starts(log, TOPICS, ("pod-updates",), before=START + timedelta(minutes=4)) != []


def test_a_partition_with_nothing_left_is_told_whenever_a_reader_begins(log: MemoryLog) -> None:
    log.truncate(PLANS, 1, 10)
    [found] = late_starts(log, TOPICS, ("pod-updates",), before=START + timedelta(minutes=9))
    assert str(found) == "parts of pod-updates"
    log.truncate(PLANS, 0, 10)
    [found] = late_starts(log, TOPICS, ("pod-updates",), before=START + timedelta(minutes=9))
    assert str(found) == "all of pod-updates"


def test_the_log_as_it_was_before_the_cut_has_lost_all(log: MemoryLog) -> None:
    log.truncate(PLANS, 0, 3)
    log.truncate(PLANS, 1, 3)
    past = LogAsOf(log, TOPICS, START + timedelta(minutes=1))
    assert list(map(str, late_starts(past, TOPICS, ("pod-updates",)))) == ["all of pod-updates"]
    assert late_starts(LogAsOf(MemoryLog(), TOPICS, START), TOPICS, ("pod-updates",)) == []


def test_a_first_record_without_a_time_is_passed_over() -> None:
    bare = MemoryLog()
    bare.create(PLANS, 2)
    at = START.isoformat().encode()
    headers = ((("ce_time", at),), (), (("ce_time", at),))
    bare.append([NewRecord(PLANS, 0, b"k", b"{}", each) for each in headers])
    bare.truncate(PLANS, 0, 1)
    [found] = late_starts(bare, TOPICS, ("pod-updates",))
    assert found.at == START
