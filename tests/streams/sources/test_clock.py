from collections.abc import Callable, Iterable, Sequence
from typing import cast

import pytest

from schemas.names import Place
from streams import clock_log
from streams.clock_rules import Counted, Tick, TimeBase
from streams.errors import BadInput, LogUnavailable, TryAgain
from streams.log.log_port import NewRecord, Positions, Record
from streams.log.memory_log import MemoryLog
from streams.sources.clock import Clock, ClockTiming
from streams.topics import TOPICS, Topics
from tests.support import ticks

PAPERS = Topics(partitions=2)
START = 1_767_225_600_123


class World:
    """True time, which the log tells; the machines of clocks may be off by `lead`. Sleeping is what makes time pass."""

    def __init__(self) -> None:
        self.time = START
        self.lead = 0
        self.slept: list[float] = []
        self.log = MemoryLog(now=lambda: self.time)
        for topic in TOPICS:
            self.log.create(PAPERS.wire(topic.name), PAPERS.partitions)

    def now(self) -> int:
        return self.time + self.lead

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += round(seconds * 1000)

    def clock(self, settings: ClockTiming | None = None, **more: object) -> Clock:
        return Clock(self.log, PAPERS, settings, now=self.now, sleep=self.sleep, **more)

    def counted(self) -> list[Tick]:
        return list(clock_log.ticks_from(self.log, PAPERS, Counted()))

    def ticks(self) -> list[int]:
        return [tick.number for tick in self.counted()]


def test_a_tick_says_how_far_every_partition_got_and_the_next_what_moved() -> None:
    world = World()
    clock = world.clock()
    world.log.append([NewRecord(PAPERS.wire("policies"), 1, b"k", b"v")] * 3)
    assert clock.step() == 1_767_225_600_000  # 123 ms past a multiple of 500
    world.log.append([NewRecord(PAPERS.wire("outcomes"), 0, b"k", b"v")])
    world.sleep(clock.wait())
    clock.step()
    first, second = world.counted()
    others = [topic.name for topic in TOPICS if topic.name != "clock"]
    assert first.moved == {(name, p): 3 if (name, p) == ("policies", 1) else 0 for name in others for p in (0, 1)}
    assert second.moved == {("outcomes", 0): 1}


def test_a_full_tick_comes_each_minute() -> None:
    world = World()
    clock = world.clock(ClockTiming(period_ms=20_000))
    for _ in range(7):
        clock.step()
        world.time += 20_000
    full = [bool(tick.moved) for tick in world.counted()]
    assert full == [True, False, False, True, False, False, True]


def test_rules_and_what_permits_are_asked_for_last() -> None:
    world, asked = World(), []
    wires = {PAPERS.wire(name): name for name in ("pod-metrics", "policies", "control", "rules")}

    class Asking(MemoryLog):
        def end(self, topic: str, partition: int) -> int:
            asked.append(wires.get(topic, ""))
            return super().end(topic, partition)

    world.log.__class__ = Asking
    world.clock().step()
    order = [name for name in dict.fromkeys(asked) if name]
    assert order[0] == "pod-metrics"
    assert set(order[1:3]) == {"policies", "control"}
    assert order[3] == "rules"


def test_an_end_that_a_log_lost_stays_in_force() -> None:
    world = World()
    clock = world.clock()
    world.log.append([NewRecord(PAPERS.wire("outcomes"), 0, b"k", b"v")] * 5)
    clock.step()
    world.log._index.topics[PAPERS.wire("outcomes")][0].end = 2
    world.time += 60_000
    clock.step()
    assert [tick.moved["outcomes", 0] for tick in world.counted()] == [5, 5]


def test_a_tick_is_written_once_and_the_next_when_it_is_due() -> None:
    world = World()
    clock = world.clock()
    assert clock.step() == 1_767_225_600_000
    assert clock.step() is None
    assert clock.wait() == pytest.approx(0.377)  # 500 - 123 ms
    world.sleep(clock.wait())
    assert clock.step() == 1_767_225_600_500


def test_a_clock_that_slept_too_long_writes_the_tick_of_now_only() -> None:
    world = World()
    clock = world.clock()
    clock.step()
    world.time += 10_000
    assert clock.step() == 1_767_225_610_000
    assert world.ticks() == [1_767_225_600_000, 1_767_225_610_000]


def test_a_clock_that_leaves_no_tick_out_makes_up_for_each_and_is_on_time_again() -> None:
    world = World()
    clock = world.clock(ClockTiming(period_ms=500, every_tick=True))
    first = clock.step()
    assert first == 1_767_225_600_000
    world.sleep(1.7)  # three ticks are due
    for number in (1, 2, 3):
        assert clock.wait() == 0.001
        assert clock.step() == first + number * 500
    assert clock.wait() == pytest.approx(0.177)  # 2,000 - 1,823 ms
    assert clock.step() is None
    world.sleep(clock.wait())
    assert clock.step() == first + 2_000


def test_it_runs_on_time_until_it_is_stopped() -> None:
    world = World()
    world.clock(ClockTiming(period_ms=1000)).run(lambda: world.time >= START + 5_000)
    assert world.ticks() == [1_767_225_600_000 + 1000 * i for i in range(6)]


def test_two_clocks_give_the_same_turns_as_one() -> None:
    one, two = World(), World()
    one.clock().run(lambda: one.time >= START + 3_000)
    first, second = two.clock(), two.clock()
    while two.time < START + 3_000:
        first.step()
        two.time += 5
        second.step()
        two.sleep(first.wait())
    assert one.ticks() == two.ticks()


def test_event_time_may_run_faster_than_the_wall() -> None:
    world = World()
    base = TimeBase(origin=60_000_000, anchor=START, speed=1440.0)  # a day in a minute
    clock = world.clock(ClockTiming(period_ms=60_000, base=base))
    assert clock.step() == 60_000_000
    assert clock.wait() == pytest.approx(60 / 1440, abs=0.001)
    world.time += 60_000
    assert clock.step() == 60_000_000 + 86_400_000


@pytest.mark.parametrize(
    "base",
    [
        TimeBase(origin=START + 3_600_001, anchor=START),
        TimeBase(origin=START, anchor=START - 61_000, speed=61.0),
        TimeBase(speed=1440.0),
    ],
)
def test_a_clock_whose_time_is_far_ahead_of_real_time_says_so_and_writes_no_tick(base: TimeBase) -> None:
    world = World()
    with pytest.raises(BadInput, match=r"more than five minutes ahead of real time.*clock\.origin_ms"):
        world.clock(ClockTiming(period_ms=1, base=base)).step()
    assert world.ticks() == []


@pytest.mark.parametrize(("lead", "words"), [(2_500, "2.5 s ahead of it"), (-2_500, "2.5 s behind it")])
def test_a_clock_that_is_off_writes_no_tick_and_names_both_times(lead: int, words: str) -> None:
    world = World()
    world.lead = lead
    with pytest.raises(TryAgain, match=words) as caught:
        world.clock().step()
    assert "the log says 2026-01-01T00:00:00.123+00:00" in str(caught.value)
    assert world.ticks() == []


@pytest.mark.parametrize("lead", [1_900, -1_900])
def test_a_small_skew_is_borne(lead: int) -> None:
    world = World()
    world.lead = lead
    assert world.clock().step() == (START + lead) // 500 * 500


def test_a_clock_that_is_set_right_ticks_again() -> None:
    world = World()
    world.lead = 60_000
    warnings: list[str] = []

    def stop() -> bool:
        world.lead = 60_000 if world.time < START + 6_000 else 0
        return world.time >= START + 8_000

    world.clock(warn=warnings.append).run(stop)
    assert len(warnings) == 1, "one line for three looks"
    assert world.ticks()[0] == 1_767_225_606_000  # three waits of 2 s later
    assert all(number <= world.time for number in world.ticks())


def test_a_clock_that_jumps_ahead_while_it_runs_never_writes_the_high_tick() -> None:
    world = World()
    clock = world.clock()
    clock.step()
    world.time += 500
    world.lead = 3_600_000
    for _ in range(3):
        with pytest.raises(TryAgain):
            clock.step()
    world.lead = 0
    world.time += 500
    assert clock.step() == 1_767_225_601_000
    assert world.ticks() == [1_767_225_600_000, 1_767_225_601_000]


def test_a_slow_drift_is_found_at_the_next_look() -> None:
    world = World()
    clock = world.clock()
    for _ in range(15):  # each step is 650 ms for this machine; after 10 s, at step 16, it looks again
        clock.step()
        world.time += 500
        world.lead += 150
    world.lead += 500
    with pytest.raises(TryAgain, match=r"2\.8 s ahead"):  # 15 * 0.15 + 0.5 = 2.75
        clock.step()
    assert max(world.ticks()) <= world.time + 2_500


def test_a_tick_of_the_future_in_the_log_is_warned_of_once() -> None:
    world = World()
    ticks.append(world.log, PAPERS, START + 240_000)
    warnings: list[str] = []
    world.clock(warn=warnings.append).run(lambda: world.time >= START + 3_000)
    (warning,) = warnings
    assert warning == (
        "'ullage.clock.v1' holds a tick of 2026-01-01T00:04:00.123+00:00, "
        "and ours is 2026-01-01T00:00:00.000+00:00: turns wait until then"
    )


def test_another_clock_that_is_a_little_ahead_is_not_warned_of() -> None:
    world = World()
    ticks.append(world.log, PAPERS, START + 1_500)
    warnings: list[str] = []
    world.clock(warn=warnings.append).run(lambda: world.time >= START + 3_000)
    assert warnings == []


def test_a_log_without_times_is_trusted() -> None:
    log = MemoryLog()
    for topic in TOPICS:
        log.create(PAPERS.wire(topic.name), PAPERS.partitions)
    assert Clock(log, PAPERS, now=lambda: 1_000).step() == 1_000


def test_a_log_that_is_away_for_a_while_costs_ticks_and_nothing_else() -> None:
    world = World()
    warnings: list[str] = []
    append = world.log.append

    def broken(records: Iterable[NewRecord]) -> Sequence[Place]:
        if START + 1_000 <= world.time < START + 3_000:
            raise LogUnavailable("the broker is away; start it")
        return append(records)

    world.log.append = broken
    world.clock(warn=warnings.append).run(lambda: world.time >= START + 5_000)
    assert warnings == [], "the process says so, once"
    assert world.ticks()[-1] == 1_767_225_605_000


@pytest.mark.parametrize("settings", [{"period_ms": 0}, {"base": TimeBase(speed=0.0)}])
def test_a_clock_that_could_never_tick_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="clock"):
        ClockTiming(**settings)


class Counting(MemoryLog):
    """Notes how many records each poll delivers, and which ends are asked for."""

    delivered: list[int]

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        records = super().poll(positions, wait=wait, limit=limit)
        self.delivered.append(len(records))
        return records


def read_by_ticks(world: World, *, between: Callable[[], object] = lambda: None) -> list[int]:
    """How many records a clock reads for each of three ticks, with something done before each."""
    clock = world.clock(ClockTiming(check_ms=1_000_000))
    clock.step()
    world.log.__class__ = Counting
    counting = cast(Counting, world.log)
    read = []
    for _ in range(3):
        world.sleep(clock.wait())
        between()
        counting.delivered = []
        assert clock.step() is not None
        read.append(sum(counting.delivered))
    return read


def test_a_clock_reads_nothing_back_while_nobody_else_writes() -> None:
    world = World()
    assert read_by_ticks(world) == [0, 0, 0]
    assert len(world.ticks()) == 4


def test_a_clock_reads_what_somebody_else_wrote() -> None:
    world = World()
    junk = NewRecord(PAPERS.wire("clock"), 0, b"other", b"no tick")
    assert read_by_ticks(world, between=lambda: world.log.append([junk])) == [1, 1, 1]
    assert len(world.ticks()) == 4


def test_a_clock_reads_a_tick_back_that_may_be_too_far_ahead_to_count() -> None:
    """Event time may be up to five minutes ahead, and whether a tick counts is by the log's time."""
    world = World()
    clock = world.clock(ClockTiming(base=TimeBase(origin=1_000), check_ms=1_000_000))
    clock.step()
    world.log.__class__ = Counting
    counting = cast(Counting, world.log)
    world.sleep(clock.wait())
    counting.delivered = []
    clock.step()
    assert counting.delivered == [1]
