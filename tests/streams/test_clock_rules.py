"""Random clocks, workers and logs against each other, one small step at a time: every turn is taken as a plain reading gives it.

Clocks freeze between asking for ends and appending, are killed, and append twice; records of the clock are lost when an
election goes wrong, and their offsets come again. Whoever reads, from the beginning or from a full record in the middle,
finds the same ticks and the same ends, no end goes back, and no record of the log is in two turns or, once a living clock has
gone on, in none.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest

from streams import clock_rules
from streams.clock_rules import FILL, MOST_AHEAD, TICK, ClockRecord, Counted, Tick
from streams.log.log_port import NewRecord, Record

WIRE = "ullage.clock.v1"
PLACES = [(name, p) for name in ("facts", "control") for p in (0, 1)]
RUNS = 60


@dataclass
class World:
    """The topic of the clock, and how far each partition has got. `after` makes what a clock believes to come after."""

    rng: random.Random
    ends: dict[tuple[str, int], int] = field(default_factory=lambda: dict.fromkeys(PLACES, 0))
    clock: list[Record] = field(default_factory=list)
    now: int = 0
    names: Iterator[int] = field(default_factory=count)
    taken: Callable[[Counted, Record], Tick | None] = Counted.take
    remembers: bool = False
    """Whether a clock tells what moved by what it wrote last, and not by what counts."""

    def append(self, new: NewRecord) -> None:
        self.clock.append(Record(WIRE, 0, len(self.clock), new.key, new.value, new.headers, self.now))

    def read(self) -> tuple[Counted, list[Tick]]:
        counted, ticks = Counted(), []
        for record in self.clock:
            tick = self.taken(counted, record)
            ticks += [] if tick is None else [tick]
        return counted, ticks


def clock(world: World) -> Iterator[None]:
    """One clock, whose time may be ahead of that of others. At each `yield` it may be frozen or killed."""
    wrote: dict[tuple[str, int], int] = {}
    while True:
        counted, _ = world.read()
        yield
        number = world.now + world.rng.randrange(6)
        yield
        ends = dict(world.ends)
        yield
        full = counted.last is None or world.rng.random() < 0.5
        if number > counted.number:
            before = wrote if world.remembers else counted.ends
            moved = {p: max(end, counted.end(*p)) for p, end in ends.items() if full or end > before.get(p, 0)}
            wrote = ends
            said = ClockRecord(number, f"n{next(world.names)}", counted.place, moved, full)
            for _ in range(1 + (world.rng.random() < 0.1)):
                world.append(said.encode(WIRE))
        yield


def explore(seed: int, **broken: Any) -> World:
    world = World(random.Random(seed), **broken)
    rng = world.rng
    clocks = [clock(world) for _ in range(3)]
    asleep = [0, 0, 0]
    for step in range(400):
        world.now += rng.random() < 0.5
        n = rng.randrange(3)
        if rng.random() < 0.3:
            world.ends[rng.choice(PLACES)] += 1
        elif asleep[n] <= step:
            next(clocks[n])
            asleep[n] = step + rng.randrange(30) if rng.random() < 0.3 else 0
            if rng.random() < 0.02:
                clocks[n] = clock(world)
        if rng.random() < 0.02:
            world.append(NewRecord(WIRE, 0, TICK, b'{"at":%d}' % world.now))
        if rng.random() < 0.02:  # an election went wrong
            del world.clock[-rng.randrange(1, 3) :]
    for _ in range(8):
        world.now += 2
        next(clocks[0])
    return world


def faults(world: World) -> list[str]:
    """What a reader finds wrong; none if all rules are kept."""
    found = []
    _, ticks = world.read()
    ends = dict.fromkeys(PLACES, 0)
    in_force: dict[int, dict[tuple[str, int], int]] = {}
    for before, tick in zip([None, *ticks], ticks, strict=False):
        if before is not None and tick.number <= before.number:
            found.append("a turn comes twice")
        if any(end < ends[place] for place, end in tick.moved.items()):
            found.append("an end goes back, so that records are in two turns")
        ends |= tick.moved
        in_force[tick.offset] = dict(ends)
    if ends != world.ends:
        found.append("records are in no turn although a clock is at work")
    return found + [fault for start in range(len(world.clock)) for fault in _faults_from(world, start, ticks, in_force)]


def _faults_from(world: World, start: int, ticks: list[Tick], in_force: dict[int, dict[tuple[str, int], int]]) -> list[str]:
    """What a reader who begins at a record in the middle finds otherwise than one who has read everything."""
    counted = clock_rules.begin_in_middle(world.clock[start:])
    if counted is None:
        return []
    found, from_there = [], []
    for record in world.clock:
        tick = world.taken(counted, record)
        if tick is not None:
            from_there.append(tick)
            if counted.ends != in_force.get(tick.offset):
                found.append("who begins in the middle finds other ends")
    if from_there != ticks[len(ticks) - len(from_there) :]:
        found.append("who begins in the middle finds other ticks")
    return found


def test_any_clocks_give_the_same_turns_to_everybody() -> None:
    for seed in range(RUNS):
        assert faults(explore(seed)) == [], seed


def without_chain(counted: Counted, record: Record) -> Tick | None:
    """Counts by number alone, whatever it comes after."""
    said = ClockRecord.decode(record)
    if said is None or said.number <= counted.number:
        return Counted.take(counted, record)
    counted.ends |= {place: min(end, said.ends[place]) for place, end in counted.ends.items() if place in said.ends}
    changed = replace(said, after=counted.place)
    return Counted.take(counted, replace(record, value=changed.encode(WIRE).value))


def without_numbers(counted: Counted, record: Record) -> Tick | None:
    """Takes what was taken before again."""
    tick = Counted.take(counted, record)
    said = ClockRecord.decode(record)
    if tick is None and said is not None and counted.last is not None and said.name == counted.last.name:
        return counted.last
    return tick


@pytest.mark.parametrize("broken", [{"taken": without_chain}, {"taken": without_numbers}, {"remembers": True}])
def test_each_rule_is_needed(broken: dict[str, Any]) -> None:
    assert any(faults(explore(seed, **broken)) for seed in range(RUNS))


def test_a_full_record_that_no_later_one_comes_after_is_no_place_to_begin() -> None:
    """Without that, a reader begins at records that never counted."""
    misled = 0
    for seed in range(RUNS):
        world = explore(seed)
        _, ticks = world.read()
        offsets = {tick.offset for tick in ticks}
        full = {record.offset for record in world.clock if Counted.at_full(record) is not None}
        misled += bool(full - offsets)
        for start in range(len(world.clock)):
            counted = clock_rules.begin_in_middle(world.clock[start:])
            assert counted is None or counted.last is None or counted.last.offset in offsets
    assert misled > RUNS // 10


def record(offset: int, said: ClockRecord, at: int = -1) -> Record:
    new = said.encode(WIRE)
    return Record(WIRE, 0, offset, new.key, new.value, (), at)


FIRST = ClockRecord(1_000, "a", None, {("facts", 0): 5, ("facts", 1): 2}, full=True)


def counts(*records: Record) -> list[int]:
    counted = Counted()
    return [tick.number for each in records if (tick := counted.take(each)) is not None]


def test_the_same_offset_with_another_name_is_another_record() -> None:
    """A log that lost its end gives an offset anew."""
    late = ClockRecord(3_000, "c", (0, "a"), {("facts", 0): 9})
    anew = replace(FIRST, name="b")
    assert counts(record(0, FIRST), record(1, late)) == [1_000, 3_000]
    assert counts(record(0, anew), record(1, late)) == [1_000]


def test_a_tick_far_ahead_of_its_append_counts_for_nothing_and_one_a_little_ahead_does() -> None:
    late = replace(FIRST, number=1_000_000)
    for ahead, expected in ((MOST_AHEAD, [1_000_000]), (MOST_AHEAD + 1, [])):
        assert counts(record(0, late, 1_000_000 - ahead)) == expected


def test_an_end_that_goes_back_makes_its_record_nothing_and_one_beyond_the_log_does_not() -> None:
    back = ClockRecord(2_000, "b", (0, "a"), {("facts", 0): 4})
    beyond = ClockRecord(2_000, "b", (0, "a"), {("facts", 0): 1 << 40})
    assert counts(record(0, FIRST), record(1, back)) == [1_000]
    assert counts(record(0, FIRST), record(1, beyond)) == [1_000, 2_000]


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"at":5}',
        b'{"at":-1,"name":"a","ends":{}}',
        b'{"at":5,"name":"","ends":{}}',
        b'{"at":5,"name":"a","ends":{"facts":{"x":1}}}',
        b'{"at":5,"name":"a","ends":{"facts":{"00":1}}}',
        b'{"at":5,"name":"a","ends":{"facts":{"0":-1}}}',
        b'{"at":253402300800000,"name":"a","ends":{}}',
        b'{"at":5,"name":"a","after":[1],"ends":{}}',
    ],
)
def test_what_is_no_record_of_a_clock_is_nothing(value: bytes | None) -> None:
    assert ClockRecord.decode(Record(WIRE, 0, 0, TICK, value, (), -1)) is None
    assert counts(Record(WIRE, 0, 0, TICK, value, (), -1), record(1, FIRST)) == [1_000]


def test_a_record_is_read_as_it_was_written() -> None:
    for said in (FIRST, ClockRecord(2_000, "b", (7, "a"), {("control", 3): 1})):
        assert ClockRecord.decode(said.encode(WIRE)) == said
    assert ClockRecord.decode(NewRecord(WIRE, 0, FILL, FIRST.encode(WIRE).value)) is None


def test_a_full_record_is_no_place_to_begin_because_one_names_it_that_does_not_count() -> None:
    """In a torture two clocks wrote a full record each in one millisecond, and a broken one wrote old ends after its own."""
    ends = {("facts", 0): 9, ("facts", 1): 4}
    counts, lost = (ClockRecord(2_000, name, (0, "a"), ends, full=True) for name in ("b", "c"))
    old = ClockRecord(2_001, "c", (2, "c"), {("facts", 0): 8, ("facts", 1): 3}, full=True)
    later = ClockRecord(3_000, "d", (1, "b"), {("facts", 0): 10})
    records = [record(offset, said) for offset, said in enumerate((FIRST, counts, lost, old, later))]
    for start in range(2):
        begun = clock_rules.begin_in_middle(records[start:])
        assert begun is not None
        assert begun.place == (1, "b")
    assert clock_rules.begin_in_middle(records[2:]) is None
