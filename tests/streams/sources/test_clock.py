from collections.abc import Iterable, Sequence

import pytest

from agents.engine.turn_aligner import Aligner
from agents.run.stage_topics import ticked_topics
from schemas.names import Place
from streams.codec import event_codec
from streams.errors import BadInput, LogUnavailable, TryAgain
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.sources.clock import Clock, ClockTiming, TimeBase
from streams.topics import TOPICS, Topics

READ = ticked_topics()
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
        return Clock(self.log, PAPERS, settings, ticked=READ, now=self.now, sleep=self.sleep, **more)

    def records(self, name: str, partition: int) -> Sequence[Record]:
        return self.log.poll({(PAPERS.wire(name), partition): 0})

    def ticks(self, name: str = "policies", partition: int = 0) -> list[int | None]:
        return [event_codec.tick_number(r) for r in self.records(name, partition)]


def test_a_tick_goes_to_every_partition_of_every_topic_that_a_stage_reads() -> None:
    world = World()
    assert world.clock().step() == 1_767_225_600_000  # 123 ms past a multiple of 500
    for topic in TOPICS:
        for partition in range(2):
            expected = [1_767_225_600_000] if topic.name in READ else []
            if topic.name == "dead-letters":
                expected = [START]  # the probe
            assert world.ticks(topic.name, partition) == expected


def test_a_tick_is_written_once_and_the_next_when_it_is_due() -> None:
    world = World()
    clock = world.clock()
    assert clock.step() == 1_767_225_600_000
    assert clock.step() is None
    assert clock.wait() == pytest.approx(0.377)  # 500 - 123 ms
    world.sleep(clock.wait())
    assert clock.step() == 1_767_225_600_500


def test_one_tick_is_one_append_and_a_last_one_for_the_rules() -> None:
    world = World()
    appends: list[int] = []

    class Counting(MemoryLog):
        def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
            batch = list(records)
            appends.append(len(batch))
            return super().append(batch)

    world.log.__class__ = Counting
    clock = world.clock()
    clock.step()
    world.sleep(clock.wait())
    clock.step()
    others = (len(READ) - 1) * 2
    assert appends == [2, others, 2, others, 2]  # a probe of each partition, then two ticks


def test_a_clock_that_slept_too_long_writes_the_tick_of_now_only() -> None:
    world = World()
    clock = world.clock()
    clock.step()
    world.time += 10_000
    assert clock.step() == 1_767_225_610_000
    assert world.ticks() == [1_767_225_600_000, 1_767_225_610_000]


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
    assert set(one.ticks()) == set(two.ticks())
    assert turns(one) == turns(two) == one.ticks()


def turns(world: World) -> list[int]:
    aligner: Aligner[Record] = Aligner(dict.fromkeys(READ, 0))
    for name in READ:
        for record in world.records(name, 0):
            number = event_codec.tick_number(record)
            assert number is not None
            aligner.inputs[name].tick(record.offset, number)
    found = []
    while (cut := aligner.next_turn()) is not None:
        found.append(cut.number)
    return found


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
    assert world.log.end(PAPERS.wire("policies"), 0) == 0


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
    world.log.append([event_codec.tick(PAPERS.wire("policies"), 0, START + 240_000)])
    warnings: list[str] = []
    world.clock(warn=warnings.append).run(lambda: world.time >= START + 3_000)
    (warning,) = warnings
    assert warning == (
        "'ullage.policies.v1' partition 0 holds a tick of 2026-01-01T00:04:00.123+00:00, "
        "and ours is 2026-01-01T00:00:00.000+00:00: turns wait until then"
    )


def test_a_tick_of_the_future_in_any_partition_of_any_topic_is_warned_of_also_when_it_comes_later() -> None:
    world = World()
    warnings: list[str] = []
    last = max(READ)
    clock = world.clock(warn=warnings.append)

    def stop() -> bool:
        if world.time >= START + 5_000 and world.log.end(PAPERS.wire(last), 1) < 1_000 and not late:
            late.extend(world.log.append([event_codec.tick(PAPERS.wire(last), 1, START + 240_000)]))
            world.log.append([event_codec.tick(PAPERS.wire(last), 0, START + 864_000_000)])  # too far ahead to stop anything
        return world.time >= START + 25_000

    late: list[Place] = []
    clock.run(stop)
    assert len(warnings) == 1
    assert warnings[0].startswith(
        f"'{PAPERS.wire(last)}' partition 1 holds a tick of 2026-01-01T00:04:00.123+00:00, and ours is "
    )


def test_a_broker_whose_clock_differs_is_found_whichever_partition_it_leads() -> None:
    world = World()

    class Skewed(MemoryLog):
        def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
            places = []
            for record in records:
                world.time += 60_000 * record.partition
                places += super().append([record])
                world.time -= 60_000 * record.partition
            return places

    world.log.__class__ = Skewed
    with pytest.raises(TryAgain, match=r"in partition 1: 60\.0 s behind it"):
        world.clock().step()


def test_another_clock_that_is_a_little_ahead_is_not_warned_of() -> None:
    world = World()
    world.log.append([event_codec.tick(PAPERS.wire("policies"), 0, START + 1_500)])
    warnings: list[str] = []
    world.clock(warn=warnings.append).run(lambda: world.time >= START + 3_000)
    assert warnings == []


def test_a_log_without_times_is_trusted() -> None:
    log = MemoryLog()
    for topic in TOPICS:
        log.create(PAPERS.wire(topic.name), PAPERS.partitions)
    assert Clock(log, PAPERS, ticked=READ, now=lambda: 1_000).step() == 1_000


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
    assert turns(world) == world.ticks()
    assert world.ticks()[-1] == 1_767_225_605_000


@pytest.mark.parametrize("settings", [{"period_ms": 0}, {"base": TimeBase(speed=0.0)}])
def test_a_clock_that_could_never_tick_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="clock"):
        ClockTiming(**settings)
