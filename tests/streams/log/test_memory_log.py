"""The log in memory is a log, and what it does beyond the port."""

import itertools

import pytest

from schemas.names import Place
from streams.errors import BadInput
from streams.log.log_port import Log, NewRecord, Record
from streams.log.memory_log import MemoryLog
from tests.support.log_conformance import Conformance, World


class MemoryWorld(World):
    def __init__(self) -> None:
        self.log = MemoryLog()
        self.wide, self.narrow = "wide", "narrow"
        self.log.create("wide", 3)
        self.log.create("narrow", 1)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        self.log.truncate(topic, partition, offset)

    def another(self) -> Log:
        """Nobody else can open the memory of a process; it is its own other opening."""
        return self.log


class TestMemoryLog(Conformance):
    @pytest.fixture
    def world(self) -> MemoryWorld:
        return MemoryWorld()


def test_timestamps_come_from_the_clock_that_was_brought() -> None:
    ticks = itertools.count(1000, 10)
    log = MemoryLog(now=lambda: next(ticks))
    log.create("t", 1)
    log.append([NewRecord("t", 0, b"k", b"a"), NewRecord("t", 0, b"k", b"b")])
    assert [r.timestamp_ms for r in log.poll({("t", 0): 0})] == [1000, 1010]


def test_without_a_clock_the_timestamp_is_unknown() -> None:
    log = MemoryLog()
    log.create("t", 1)
    log.append([NewRecord("t", 0, b"k", b"a")])
    assert [r.timestamp_ms for r in log.poll({("t", 0): 0})] == [-1]


def test_a_topic_made_twice_stays_and_with_another_count_is_refused() -> None:
    log = MemoryLog()
    log.create("t", 2)
    log.append([NewRecord("t", 1, b"k", b"a")])
    log.create("t", 2)
    assert log.end("t", 1) == 1
    with pytest.raises(BadInput, match="has 2 partitions in the log in memory, not 3"):
        log.create("t", 3)
    with pytest.raises(BadInput, match="needs at least one"):
        log.create("u", 0)


def test_kept_records_keep_their_offsets_their_times_and_their_holes() -> None:
    log = MemoryLog()
    log.create("t", 1)
    records = [Record("t", 0, offset, b"k", b"v", (), 7) for offset in (5, 6, 9)]
    log.import_records(records)
    assert (log.begin("t", 0), log.end("t", 0)) == (5, 10)
    assert list(log.poll({("t", 0): 7})) == [records[2]]
    assert log.append([NewRecord("t", 0, b"k", b"v")]) == [Place("t", 0, 10)]


def test_a_record_cannot_be_kept_before_the_end() -> None:
    log = MemoryLog()
    log.create("t", 1)
    log.import_records([Record("t", 0, 5, b"k", b"v")])
    with pytest.raises(BadInput, match="t:0:5 cannot be put into the log in memory: that partition is already at 6"):
        log.import_records([Record("t", 0, 5, b"k", b"v")])
    with pytest.raises(BadInput, match=r"t:0:8 cannot be put .* already at 9"):
        log.import_records([Record("t", 0, 7, b"k", b"v"), Record("t", 0, 8, b"k", b"v"), Record("t", 0, 8, b"k", b"v")])
    assert log.end("t", 0) == 6


def test_retention_goes_neither_backwards_nor_beyond_the_end() -> None:
    log = MemoryLog()
    log.create("t", 1)
    log.append([NewRecord("t", 0, b"k", b"v")] * 3)
    log.truncate("t", 0, 2)
    log.truncate("t", 0, 1)
    assert log.begin("t", 0) == 2
    log.truncate("t", 0, 99)
    assert (log.begin("t", 0), log.end("t", 0)) == (3, 3)


def test_one_poll_takes_of_each_partition() -> None:
    log = MemoryLog()
    log.create("t", 3)
    log.append([NewRecord("t", p, b"k", b"v") for p in (0, 1, 2) for _ in range(20)])
    found = log.poll({("t", p): 0 for p in range(3)}, limit=7)
    assert [r.partition for r in found] == [0, 0, 1, 1, 2, 2]
