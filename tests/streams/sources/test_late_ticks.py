import itertools
import random
from collections.abc import Collection, Mapping, Sequence

import pytest

from streams import clock_log, log_range
from streams.clock_rules import Counted, Tick, TimeBase
from streams.log.log_port import NewRecord, Positions, Record, TopicAndPartition
from streams.log.memory_log import MemoryLog
from streams.sources import late_ticks
from streams.sources.clock import Clock, ClockTiming
from streams.topics import TOPICS, Topics

PAPERS = Topics(partitions=2)
START = 1_767_225_600_000
PERIOD = 500


class World:
    """A log that tells the time, and a clock that sleeps in it."""

    def __init__(self, timing: ClockTiming | None = None) -> None:
        self.time = START
        self.log = MemoryLog(now=lambda: self.time)
        for topic in TOPICS:
            self.log.create(PAPERS.wire(topic.name), PAPERS.count(topic.name))
        self.clock = self.new_clock(timing)

    def new_clock(self, timing: ClockTiming | None = None) -> Clock:
        return Clock(self.log, PAPERS, timing or ClockTiming(period_ms=PERIOD), now=lambda: self.time, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.time += max(1, round(seconds * 1000))

    def append(self, name: str, count: int, partition: int = 0) -> None:
        self.log.append([NewRecord(PAPERS.wire(name), partition, b"k", b"v")] * count)

    def ticks(self) -> list[Tick]:
        return list(clock_log.ticks_from(self.log, PAPERS, Counted()))

    def runs_to_the_present(self) -> list[Tick]:
        """Let the clock tick until it has reached the present; the ticks that came."""
        before = len(self.ticks())
        self.clock.run(lambda: bool(self.ticks()[before:]) and not self.ticks()[-1].more)
        return self.ticks()[before:]

    def most(self, ticks: list[Tick], name: str, partition: int = 0, start: int = 0) -> int:
        """The most records of a partition in one of these turns, which follow the end `start`."""
        ends = [start, *(tick.moved[name, partition] for tick in ticks if (name, partition) in tick.moved)]
        return max(after - before for before, after in itertools.pairwise(ends))


def test_what_came_while_no_clock_ticked_is_named_in_turns_that_a_worker_can_hold() -> None:
    world = World()
    world.clock.step()
    for _ in range(1_000):  # a day and more, of one scrape in a hundred seconds
        world.time += 100_000
        world.append("pod-metrics", 3)
    ticks = world.runs_to_the_present()
    assert ticks[-1].moved["pod-metrics", 0] == 3_000
    assert world.most(ticks, "pod-metrics") <= late_ticks.MOST_OF_COLUMNS
    assert len(ticks) <= 3_000 / late_ticks.MOST_OF_COLUMNS + 2


def test_a_tick_that_is_made_up_for_names_what_had_come_by_its_time() -> None:
    world, taken = World(), []
    world.clock.step()
    for _ in range(500):
        world.time += 60_000
        for name in ("pod-metrics", "pod-changes"):
            world.append(name, 1, partition=1)
        taken.append(world.time)
    ticks = world.runs_to_the_present()
    assert [tick.more for tick in ticks] == [True] * (len(ticks) - 1) + [False]
    for tick in ticks[:-1]:
        by_then = sum(at < tick.number for at in taken)
        assert tick.moved["pod-metrics", 1] == tick.moved["pod-changes", 1] == by_then


def test_no_turn_has_facts_without_the_pause_that_was_before_them() -> None:
    world, taken = World(), {"control": [], "policies": [], "pod-metrics": []}
    world.clock.step()
    for _ in range(700):
        for name, times in taken.items():
            world.time += 7_000
            world.append(name, 1)
            times.append(world.time)
    ticks = world.runs_to_the_present()
    for tick in ticks:
        newest_fact = taken["pod-metrics"][tick.moved["pod-metrics", 0] - 1]
        for name in ("control", "policies"):
            assert tick.moved[name, 0] >= sum(at < newest_fact for at in taken[name])
    assert len(ticks) > 3


def test_little_is_named_by_one_tick_however_long_no_clock_ticked() -> None:
    world = World()
    world.clock.step()
    for _ in range(100):
        world.time += 3_600_000
        world.append("pod-metrics", 2)
        world.append("pod-changes", 150)
    assert [tick.number for tick in world.runs_to_the_present()] == [START + 360_000_000]


@pytest.mark.parametrize("first", [True, False])
def test_the_first_tick_of_a_log_begins_where_retention_does(first: bool) -> None:
    world = World()
    if not first:
        world.clock.step()
    for _ in range(900):
        world.time += 60_000
        world.append("load-metrics", 1)
    world.log.truncate(PAPERS.wire("load-metrics"), 0, 600)
    ticks = world.runs_to_the_present()
    assert world.most(ticks, "load-metrics", start=600) <= late_ticks.MOST_OF_COLUMNS
    assert len(ticks) == 2


def test_a_flood_within_one_period_is_one_turn_and_the_clock_keeps_up_with_any() -> None:
    """Else a source that is faster than the bound would put time off for ever."""
    world = World()
    world.clock.step()
    for _ in range(20):
        world.time += PERIOD
        world.append("pod-metrics", 5 * late_ticks.MOST_OF_COLUMNS)
        world.clock.step()
    assert [tick.number for tick in world.ticks()[-20:]] == [START + PERIOD * n for n in range(1, 21)]
    assert world.ticks()[-1].moved["pod-metrics", 0] == 20 * 5 * late_ticks.MOST_OF_COLUMNS


def test_two_clocks_that_come_back_make_up_for_the_same_stretch() -> None:
    world = World()
    world.clock.step()
    for _ in range(800):
        world.time += 60_000
        world.append("pod-metrics", 1)
    other = world.new_clock()
    while world.ticks()[-1].number < world.time // PERIOD * PERIOD:
        for clock in (world.clock, other):
            clock.step()
        world.time += 1
    assert world.ticks()[-1].moved["pod-metrics", 0] == 800
    assert world.most(world.ticks(), "pod-metrics") <= late_ticks.MOST_OF_COLUMNS


def test_event_time_of_its_own_is_made_up_for_too() -> None:
    base = TimeBase(origin=60_000_000, anchor=START, speed=1440.0)
    world = World(ClockTiming(period_ms=60_000, base=base))
    world.clock.step()
    for _ in range(600):
        world.time += 1_000
        world.append("pod-metrics", 1)
    ticks = world.runs_to_the_present()
    assert world.most(ticks, "pod-metrics") <= late_ticks.MOST_OF_COLUMNS
    assert ticks[-1].number == base.event(START + 600_000)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_came_each_record_is_in_one_turn_and_none_holds_too_much(seed: int) -> None:
    chance, world = random.Random(seed), World()
    sent = dict.fromkeys([("pod-metrics", 0), ("pod-metrics", 1), ("pod-changes", 0), ("policies", 1)], 0)
    most_at_once = dict.fromkeys(sent, 0)
    for _ in range(chance.randrange(1, 4)):
        world.clock.step()
        for _ in range(chance.randrange(1, 200)):
            world.time += chance.randrange(PERIOD, 200_000)
            place = chance.choice(list(sent))
            count = chance.choice([1, 10, 90])
            world.append(place[0], count, place[1])
            sent[place] += count
            most_at_once[place] = max(most_at_once[place], count)
        world.runs_to_the_present()
    ends: dict[tuple[str, int], int] = {}
    for tick in world.ticks():
        for place in sent:
            before = ends.get(place, 0)
            after = tick.moved.get(place, before)
            most = late_ticks.MOST_OF_COLUMNS if place[0] == "pod-metrics" else late_ticks.MOST
            assert before <= after <= before + most + most_at_once[place]
            ends[place] = after
    assert ends == sent


class Leaders(MemoryLog):
    """A log that answers by time for many partitions at once, and leaves out those that have nothing later, as Kafka does."""

    asked, reads = 0, frozenset[str]()

    def offsets_taken_at(self, places: Collection[TopicAndPartition], at_ms: int) -> Mapping[TopicAndPartition, int]:
        before = self.reads
        by_time = {place: log_range._offset_taken_at(self, place, at_ms) for place in places}
        self.asked, self.reads = self.asked + 1, before
        return {place: offset for place, offset in by_time.items() if offset < self.end(*place)}

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        self.reads |= {topic for topic, _ in positions}
        return super().poll(positions, wait=wait, limit=limit)


def test_a_clock_asks_a_few_questions_and_reads_no_fact_because_it_has_no_right_to() -> None:
    world = World()
    world.clock.step()
    for _ in range(800):
        world.time += 60_000
        world.append("pod-metrics", 1)
    world.log.__class__ = Leaders
    ticks = world.runs_to_the_present()
    assert len(ticks) <= 6
    assert world.log.asked < 30 * len(ticks)
    assert world.log.reads == {PAPERS.wire("clock")}
