"""A log as it was: what came later is not there, for any reader, and nothing can be appended."""

from datetime import UTC, datetime, timedelta

import pytest

from streams.errors import BadInput
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_as_of import LogAsOf
from streams.log_range import has_topic
from streams.topics import Topics, changelog_topic
from tests.support import ticks

START = datetime(2026, 1, 1, tzinfo=UTC)
TOPICS = Topics("shop", 1)
CONTROL, CHANGELOG = TOPICS.wire("control"), changelog_topic("ullage", "updater")


@pytest.fixture
def log() -> MemoryLog:
    """A record and a tick for each of ten minutes, and a changelog."""
    log = MemoryLog()
    log.create(CONTROL, 1)
    log.create(CHANGELOG, 1)
    log.create(TOPICS.wire("clock"), 1)
    for minute in range(10):
        at = START + timedelta(minutes=minute)
        log.append([NewRecord(CONTROL, 0, b"k", f"{minute}".encode(), (("ce_time", at.isoformat().encode()),))])
        ticks.append(log, TOPICS, int(at.timestamp() * 1000))
    return log


def test_it_ends_with_the_tick_of_the_moment(log: MemoryLog) -> None:
    past = LogAsOf(log, TOPICS, START + timedelta(minutes=3))
    assert (past.begin(CONTROL, 0), past.end(CONTROL, 0)) == (0, 4)
    assert [record.value for record in past.poll({(CONTROL, 0): 2}, wait=9.0)] == [b"2", b"3"]
    assert past.poll({(CONTROL, 0): 4}, wait=9.0) == []


def test_between_two_ticks_it_ends_with_the_earlier_one(log: MemoryLog) -> None:
    assert LogAsOf(log, TOPICS, START + timedelta(minutes=3, seconds=59)).end(CONTROL, 0) == 4


def test_before_its_beginning_it_is_empty_and_a_cut_beginning_is_not_after_its_end(log: MemoryLog) -> None:
    log.truncate(CONTROL, 0, 6)
    past = LogAsOf(log, TOPICS, START - timedelta(days=1))
    assert (past.begin(CONTROL, 0), past.end(CONTROL, 0)) == (6, 6)
    assert past.poll({(CONTROL, 0): 0}) == []


def test_checkpoints_are_not_there_and_nothing_is_appended(log: MemoryLog) -> None:
    past = LogAsOf(log, TOPICS, START)
    assert has_topic(log, CHANGELOG)
    assert not has_topic(past, CHANGELOG)
    with pytest.raises(BadInput, match="as it was at 2026-01-01 00:00:00 UTC"):
        past.append([NewRecord(CONTROL, 0, b"k", b"v")])
