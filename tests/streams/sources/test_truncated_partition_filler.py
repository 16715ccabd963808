import pytest

from schemas.names import Place
from streams import clock_log
from streams.clock_rules import FILL, PARTITION, Counted
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord
from streams.sources import truncated_partition_filler
from streams.sources.clock import Clock
from streams.topics import CLOCK, TOPICS, Topics
from tests.support.lossy_log import LossyLog

PAPERS = Topics(partitions=2)
CONTROL, FACTS = PAPERS.wire("control"), PAPERS.wire("pod-metrics")
START = 1_767_225_600_000


class Installation:
    """A log with five records in a partition of `control`, and one clock that has said so."""

    def __init__(self) -> None:
        self.time, self.warnings, self.counts = START, list[str](), list[int]()
        self.log = LossyLog(now=lambda: self.time)
        for topic in TOPICS:
            self.log.create(PAPERS.wire(topic.name), PAPERS.count(topic.name))
        self.clock = self.another_clock()
        self.append(5)
        self.clock.step()

    def another_clock(self, **more: int) -> Clock:
        return Clock(self.log, PAPERS, now=lambda: self.time, warn=self.warnings.append, report_lost=self.counts.append, **more)

    def append(self, count: int) -> None:
        self.log.append([NewRecord(CONTROL, 1, b"k", b"v")] * count)

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            self.time += 500
            self.clock.step()

    def record_keys(self) -> list[bytes | None]:
        return [record.key for record in self.log.poll({(CONTROL, 1): 0})]

    def ticks(self) -> int:
        return len(list(clock_log.ticks_from(self.log, PAPERS, Counted())))


def test_what_lost_its_end_is_filled_up_with_nothing_after_ten_seconds() -> None:
    site = Installation()
    site.log.elect(CONTROL, 1, losing=3)
    site.run(10)
    assert site.record_keys() == [b"k", b"k"]
    assert site.counts[-1] == 1
    site.run(1)
    assert site.record_keys() == [b"k", b"k", FILL, FILL, FILL]
    assert site.counts[-1] == 0
    (warning,) = site.warnings
    assert warning == (
        "'control:1' ends at 2, and a tick has said that it ends at 5: turns wait. If its leader says so for 10 s, "
        "records that are nothing take the place of what is lost"
    )


def test_what_comes_meanwhile_is_kept() -> None:
    site = Installation()
    site.log.elect(CONTROL, 1, losing=3)
    site.run(5)
    site.append(1)
    site.run(6)
    assert site.record_keys() == [b"k", b"k", b"k", FILL, FILL]


def test_each_new_leader_has_ten_seconds() -> None:
    """It may be the one that has everything."""
    site = Installation()
    site.log.elect(CONTROL, 1, losing=3)
    site.run(8)
    site.log.elect(CONTROL, 1)
    site.run(8)
    assert FILL not in site.record_keys()
    site.run(3)
    assert site.record_keys().count(FILL) == 3


def test_who_has_looked_lets_the_clock_fill_up_more() -> None:
    site = Installation()
    site.append(truncated_partition_filler.MOST)
    site.run(0.5)
    site.log.elect(CONTROL, 1, losing=truncated_partition_filler.MOST + 1)
    site.run(12)
    assert site.log.end(CONTROL, 1) == 4
    site.clock = site.another_clock(fill_most=truncated_partition_filler.MOST + 1)
    site.run(22)
    assert site.log.end(CONTROL, 1) == 5 + truncated_partition_filler.MOST
    assert {record.key for record in site.log.poll({(CONTROL, 1): 4}, limit=1 << 20)} == {FILL}


def test_a_log_that_lost_very_much_is_a_persons_affair() -> None:
    site = Installation()
    site.append(truncated_partition_filler.MOST)
    site.run(1)
    site.log.elect(CONTROL, 1, losing=truncated_partition_filler.MOST + 1)
    site.run(20)
    assert FILL not in site.record_keys()
    assert site.counts[-1] == 1
    (warning,) = site.warnings
    says = "It lacks 100001 records, more than clock.fill_most, 100000, so nothing is done before a person has looked"
    assert says in warning


def test_much_is_filled_in_parts_between_ticks() -> None:
    site = Installation()
    site.append(12_000)
    site.run(1)
    site.log.elect(CONTROL, 1, losing=12_000)
    site.run(10)
    before = site.log.end(CONTROL, 1)
    steps = []
    for _ in range(3):
        site.run(0.5)
        steps.append(site.log.end(CONTROL, 1) - before)
    assert steps == [5_000, 10_000, 12_000]


def test_a_partition_that_takes_nothing_stops_no_ticks_and_is_tried_again_after_a_minute() -> None:
    site = Installation()
    site.log.elect(CONTROL, 1, losing=1)
    append, refused = site.log.append, list[int]()

    def refuse(records: list[NewRecord]) -> list[Place]:
        if any(record.key == FILL for record in records):
            refused.append(site.time)
            raise LogUnavailable("our user lacks the right Write")
        return list(append(records))

    site.log.append = refuse
    before = site.ticks()
    site.run(140)
    assert site.ticks() == before + 280
    assert [at - refused[0] for at in refused] == [0, 60_000, 120_000]
    assert "'control:1' was not filled up: our user lacks the right Write" in site.warnings


def test_a_partition_of_facts_that_nobody_answers_for_is_left_out() -> None:
    site = Installation()
    site.log.append([NewRecord(FACTS, p, b"k", b"v") for p in (0, 1)])
    site.log.silent.add((FACTS, 1))
    site.run(0.5)
    *_, tick = clock_log.ticks_from(site.log, PAPERS, Counted())
    assert tick.moved == {("pod-metrics", 0): 1}
    site.log.silent.clear()
    site.run(0.5)
    *_, tick = clock_log.ticks_from(site.log, PAPERS, Counted())
    assert tick.moved == {("pod-metrics", 1): 1}


def test_without_the_ends_of_what_permits_no_tick_is_written() -> None:
    """Else a turn would have facts without the pause that was there before them."""
    for name in ("policies", "control", "rules"):
        site = Installation()
        site.log.silent.add((PAPERS.wire(name), 0))
        before = site.ticks()
        with pytest.raises(LogUnavailable, match=f"nobody says where '{name}:0' ends"):
            site.run(0.5)
        assert site.ticks() == before


def test_a_clock_reads_anew_when_the_clocks_own_topic_has_another_leader() -> None:
    """What comes after a tick that was lost would never count for anybody who reads the log now."""
    site = Installation()
    site.run(3)
    site.log.elect(PAPERS.wire(CLOCK), PARTITION, losing=4)
    other = site.another_clock()
    for _ in range(4):  # the log grows beyond what the first clock had read
        site.time += 500
        other.step()
    before = site.ticks()
    site.run(2)
    assert site.ticks() == before + 4
