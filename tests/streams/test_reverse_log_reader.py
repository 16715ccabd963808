"""A topic read from its end: without ticks, a stretch at a time, until a moment or the beginning."""

from datetime import UTC, datetime, timedelta

import pytest

from streams import reverse_log_reader
from streams.clock_rules import TICK
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.topics import Topics

START = datetime(2026, 1, 1, tzinfo=UTC)
TOPICS = Topics("t", 2)
WIRE = TOPICS.wire("pod-changes")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """In each of two partitions a tick a second for 100 s, and after each tenth a record of that second."""
    monkeypatch.setattr(reverse_log_reader, "_FIRST", 22)
    made = MemoryLog()
    made.create(WIRE, 2)
    for second in range(100):
        at = START + timedelta(seconds=second)
        for partition in range(2):
            made.append([NewRecord(WIRE, partition, TICK, b"", (("ce_time", at.isoformat().encode()),))])
            if second % 10 == 0:
                made.append([NewRecord(WIRE, partition, b"%d" % second, b"{}", (("ce_time", at.isoformat().encode()),))])
    return made


def keys(records: object) -> list[int]:
    return [int(record.key) for record in records]  # type: ignore[attr-defined]  # records


def test_the_newest_stretch_comes_first_and_ticks_never(log: MemoryLog) -> None:
    stretches = [keys(stretch) for stretch in reverse_log_reader.since(log, WIRE, START)]
    assert stretches[0] == [80, 90, 80, 90]
    assert sorted(key for stretch in stretches for key in stretch) == sorted([*range(0, 100, 10)] * 2)
    assert len(stretches) == 3


def test_it_ends_with_the_stretch_that_begins_before_the_moment(log: MemoryLog) -> None:
    stretches = [keys(stretch) for stretch in reverse_log_reader.since(log, WIRE, START + timedelta(seconds=85))]
    assert stretches == [[80, 90, 80, 90]]


def test_a_topic_that_is_not_there_has_none(log: MemoryLog) -> None:
    assert list(reverse_log_reader.since(log, TOPICS.wire("outcomes"), START)) == []


def test_a_range_comes_without_its_ticks(log: MemoryLog) -> None:
    assert keys(reverse_log_reader.between(log, WIRE, 1, 0, 13)) == [0, 10]


def test_backwards_it_gives_every_record_of_the_ranges_once_the_newest_of_each_partition_first(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reverse_log_reader, "_HELD", 7)
    found = list(reverse_log_reader.backwards(log, {(WIRE, 0): (5, 98), (WIRE, 1): (100, 110)}))
    offsets = [[record.offset for record in found if record.partition == partition] for partition in range(2)]
    assert offsets == [list(range(97, 4, -1)), list(range(109, 99, -1))]
    assert {record.partition for record in found[:14]} == {0, 1}  # stretch after stretch, not partition after partition


def test_forwards_every_record_comes_and_no_tick(log: MemoryLog) -> None:
    assert sorted(keys(reverse_log_reader.forwards(log, WIRE))) == sorted([*range(0, 100, 10)] * 2)
    assert keys(reverse_log_reader.forwards(log, WIRE, START + timedelta(seconds=75))) == [80, 90, 80, 90]
    assert list(reverse_log_reader.forwards(log, TOPICS.wire("outcomes"))) == []
