"""Clocks, workers and consumers against a log that loses its oldest and its newest records, in random steps.

All that runs is the product's: the clock's writer and what fills up lost ends, the rules of what counts, a task with its marks,
and the questions whether a log still holds what was read. Clocks freeze and die between any two questions to the log, their
requests arrive late, twice or never. Every turn has to be what a literal reading of the log gives, no record may be in no turn or
in two, and nobody may wait for ever. Then each rule is left out in turn, and is seen to be needed.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from agents.engine import checkpoint_selection
from agents.engine.checkpoint_selection import CheckpointMark, ClockEvidence
from agents.run.partition_task import Task
from schemas.names import Place
from streams import clock_log, clock_rules, truncated_topics
from streams.clock_log import ClockReader
from streams.clock_rules import FILL, ClockRecord, Counted, Tick, TimeBase
from streams.errors import LogUnavailable
from streams.log.log_port import LogEnd, NewRecord, Positions, Record, TopicAndPartition
from streams.sources import clock as clock_source
from streams.sources import late_ticks
from streams.sources.clock import TickWriter
from streams.sources.late_ticks import LateTicks
from streams.sources.truncated_partition_filler import PATIENCE_MS, TruncatedPartitionFiller
from streams.topics import CLOCK, Topics
from streams.truncated_topics import LostRecords
from tests.support.lossy_log import LossyLog
from tests.support.stepped_actors import SteppedActor
from tests.torture import recomputation

PAPERS = Topics("t", 2)
FACTS, LAW = ("oom-events", "pod-metrics"), ("control",)
READS = (*FACTS, *LAW)
WIRE = {name: PAPERS.wire(name) for name in (*READS, CLOCK)}
PLACES = [(WIRE[name], p) for name in READS for p in range(2)]
AT_CLOCK = (WIRE[CLOCK], 0)
PERIOD, STEPS, RUNS, TRIES = 5, 500, 12, 200
look, objection = truncated_topics.lost_records, checkpoint_selection.objection
"""The questions as they are, whatever a test leaves out."""


@pytest.fixture(autouse=True)
def _full_ticks_come_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_source, "FULL_MS", 6 * PERIOD)


class WholeLog(LossyLog):
    """Retention takes nothing here, it only hides it: what happened is judged by all that ever was in the log."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(now)
        self.begins: dict[TopicAndPartition, int] = defaultdict(int)
        for name, wire in WIRE.items():
            self.create(wire, PAPERS.count(name))

    def begin(self, topic: str, partition: int) -> int:
        return self.begins[topic, partition]

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        return super().poll({at: max(offset, self.begins[at]) for at, offset in positions.items()}, wait=wait, limit=limit)

    def everything(self, topic: str, partition: int) -> Sequence[Record]:
        return super().poll({(topic, partition): 0}, limit=1 << 30)

    def hole(self, topic: str, partition: int) -> None:
        """An offset that nobody is given: the end of a transaction, or what compaction took."""
        self._index.at(topic, partition).end += 1


@dataclass(frozen=True)
class ClocksLog:
    """The log as one clock sees it: it pauses before each question, and its requests arrive when the world lets them."""

    world: "World"
    pause: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.log, name)

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        self.pause()
        return self.world.log.poll(positions, wait=wait, limit=limit)

    def ends(self, places: Collection[TopicAndPartition]) -> Mapping[TopicAndPartition, LogEnd]:
        """Each leader answers in its own time, and one in twenty does not."""
        found: dict[TopicAndPartition, LogEnd] = {}
        for place in self.world.rng.sample(sorted(places), len(places)):
            self.pause()
            if self.world.alive or place == AT_CLOCK or self.world.rng.random() > 0.05:
                found |= self.world.log.ends([place])
        return found

    def append(self, records: Collection[NewRecord]) -> Sequence[Place]:
        batch = list(records)
        self.world.flight.append(batch)
        self.pause()
        if any(waiting is batch for waiting in self.world.flight):
            self.world.deliver(batch)
        return [self.world.landed.pop(id(batch))]


@dataclass
class Rules:
    """What each actor goes by; a test leaves one out."""

    writer: type[TickWriter] = TickWriter
    fills: bool = True
    passes_holes: bool = True
    keeps: bool = True
    reads_law_to_end: bool = True
    asks: Callable[..., LostRecords] = look


class State:
    """What a stage has taken: for each turn, its records."""

    def __init__(self, taken: Mapping[int, tuple[bytes, ...]] | None = None) -> None:
        self.taken = dict(taken or {})

    def step(self, turn: Any) -> Sequence[Any]:
        self.taken[turn.number] = tuple(r.event for name in READS for r in turn.of(name))
        return ()


STAGE: Any = SimpleNamespace(
    name="any", reads=READS, open=lambda _p: State(), refuse=lambda _e: None, ahead=lambda _e, _t: None, vouches=lambda _e: False
)
CODEC: Any = SimpleNamespace(decode=lambda record: record.value, dead_letter=None)


@dataclass
class World:
    seed: int
    losses: bool
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        self.rng, self.log = random.Random(self.seed), WholeLog(lambda: self.now)
        self.now, self.step, self.made, self.alive = 0, 0, 0, False
        self.flight: list[list[NewRecord]] = []
        self.landed: dict[int, Place] = {}
        """Where the first of each batch came to stand, which is what the log answers."""
        self.born: dict[bytes, tuple[int, TopicAndPartition]] = {}
        self.marks: dict[int, list[tuple[CheckpointMark, State]]] = {0: [], 1: []}
        self.taken: dict[tuple[int, int], set[tuple[bytes, ...]]] = defaultdict(set)
        self.holes: dict[TopicAndPartition, int] = defaultdict(int)
        self.faults: list[str] = []

    def deliver(self, batch: list[NewRecord]) -> None:
        self.flight = [waiting for waiting in self.flight if waiting is not batch]
        places = [self.log.append(batch)[0] for _ in range(1 + (self.rng.random() < 0.05))]
        self.landed[id(batch)] = places[0]

    def source(self) -> None:
        place = self.rng.choice(PLACES)
        self.made += 1
        value = b"%d" % self.made
        self.born[value] = self.step, place
        self.log.append([NewRecord(*place, b"k", value)])
        if self.rng.random() < 0.1:
            self.log.hole(*place)
            self.holes[place] = self.log.end(*place)

    def lose(self) -> None:
        place = self.rng.choice([*PLACES, AT_CLOCK])
        room = self.log.end(*place) - max(self.log.begins[place], self.holes[place])  # what has no record has no epoch either
        self.log.elect(*place, losing=min(self.rng.randrange(4), room))
        gone = [at for at in self.taken if place == AT_CLOCK or at[0] == place[1]]
        for at in gone:  # what is taken from now on is compared
            del self.taken[at]

    def retention(self) -> None:
        """Takes what every kept mark has read."""
        for marks in self.marks.values():
            del marks[:-3]
        if not all(self.marks.values()):
            return
        for topic, p in PLACES:
            self.log.begins[topic, p] = min(mark.positions[PAPERS.short(topic)] for mark, _ in self.marks[p])
        ticks = [mark.tick[0] for marks in self.marks.values() for mark, _ in marks if mark.tick]
        whole = Counted()
        counts = [r for r in self.log.everything(*AT_CLOCK) if whole.take(r) is not None]
        full = [r.offset for r in counts if Counted.at_full(r) and r.offset <= min(ticks)]
        self.log.begins[AT_CLOCK] = max([self.log.begins[AT_CLOCK], *full])


def clock(world: World) -> Callable[[Callable[[], None]], None]:
    def work(pause: Callable[[], None]) -> None:
        log: Any = ClocksLog(world, pause)
        writer = world.rules.writer(log, PAPERS, draw=lambda _n: f"{world.rng.getrandbits(64):x}")
        writer._names = (*READS, CLOCK)
        filler = TruncatedPartitionFiller(log, PAPERS, lambda _sentence: None)
        wall = 0
        while True:
            pause()
            wall += PATIENCE_MS
            try:
                if writer.write(world.now // PERIOD * PERIOD, wall=world.now) is not None and world.rules.fills:
                    filler.look(writer.lost, wall)
            except LogUnavailable:
                continue

    return work


class Working:
    """One partition in one worker."""

    def __init__(self, world: World, p: int) -> None:
        self.world, self.p = world, p
        mark, state = self._mark()
        begins = {name: world.log.begins[WIRE[name], p] for name in READS}
        positions = begins if mark is None else dict(mark.positions)
        self.state = State(state.taken)
        task_state: Any = self.state
        self.task = Task(STAGE, p, topics=PAPERS, codec=CODEC, positions=positions, state=task_state)
        if mark is not None:
            self.task.resume(mark.turn, positions=positions, tick=mark.tick, inputs=None, epochs=mark.epochs)
        if mark is None or mark.tick is None:
            counted = clock_log.first_counted(world.log, PAPERS)
        else:
            counted = clock_log.counted(world.log, PAPERS, before=mark.tick[0] + 1)
        if counted.last is not None:
            self.task.take_tick(counted.last)
        self.reader = ClockReader(world.log, PAPERS, counted)

    def _mark(self) -> tuple[CheckpointMark | None, State]:
        """One of the last two marks that the log bears out, as a late writer or a torn checkpoint may leave the older one."""
        log, good = self.world.log, list[tuple[CheckpointMark, State]]()
        for mark, state in self.world.marks[self.p]:
            there = clock_log.look_at(log, PAPERS, -1 if mark.tick is None else mark.tick[0])
            tick = None if there.record is None else (there.record.number, there.record.name)
            ends = {name: log.end(WIRE[name], self.p) for name in READS}
            why = objection(mark, ends, ClockEvidence(there.begin, there.end, tick), now_ms=0)
            if not why and not self.world.rules.asks(log, PAPERS, [(self.p, mark.epochs)]).gone:
                good.append((mark, state))
        return self.world.rng.choice(good[-2:]) if good else (None, State())

    def read(self, name: str, most: int) -> None:
        log, place, source = self.world.log, (WIRE[name], self.p), self.task.aligner.inputs[name]
        end, records = log.end(*place), log.poll({place: source.next}, limit=most)
        for record in records:
            self.task.feed(name, record)
        if not records and self.world.rules.passes_holes:
            source.skip_to(end)

    @property
    def overtaken(self) -> bool:
        """Whether retention took what was not read yet."""
        inputs, begins = self.task.aligner.inputs, self.world.log.begins
        return self.reader.counted.next < begins[AT_CLOCK] or any(inputs[n].next < begins[WIRE[n], self.p] for n in READS)

    def is_misled(self, asks: Callable[..., LostRecords]) -> bool:
        read = [(self.p, self.task.epochs.epochs()), (0, {CLOCK: self.reader.counted.epochs})]
        return bool(asks(self.world.log, PAPERS, read).gone)

    def take(self) -> None:
        world, task = self.world, self.task
        while task.next_turn() is not None:
            if not self.is_misled(look):  # one that is finds out when it asks
                world.taken[self.p, task.turn].add(self.state.taken[task.turn])
            if world.rng.random() < 0.2:
                mark = CheckpointMark(task.turn, task.positions, {}, None, task.tick, task.epochs.epochs())
                world.marks[self.p].append((CheckpointMark.decode(mark.encode()), State(self.state.taken)))


class Worker:
    """Has both partitions; so has the other worker, which may be a zombie."""

    def __init__(self, world: World) -> None:
        self.world, self.working = world, [Working(world, p) for p in range(2)]

    def step(self, *, fair: bool = False) -> None:
        world, rng = self.world, self.world.rng
        for p in range(2) if fair else [rng.randrange(2)]:
            ours = self.working[p]
            dies = not fair and rng.random() < 0.03
            asks = fair or rng.random() < 0.5
            if dies or (world.rules.keeps and ours.overtaken) or (asks and ours.is_misled(world.rules.asks)):
                ours = self.working[p] = Working(world, p)
            if asks:
                ours.task.epochs.seen(ours.task.epochs.epochs())
            for name in READS if fair else [rng.choice(READS)]:
                for _ in range(2 if fair else 1):  # what ends in nothing is seen to do so by an empty answer
                    ours.read(name, 1 << 20 if fair else 3)
            for tick in ours.reader.catch_up(most=None if fair else 1):
                ours.task.take_tick(tick)
            ours.take()


def consumer(world: World) -> Iterator[None]:
    """Acts while it is not paused: an odd record pauses. It must know each pause that was there before it looked."""
    at = (WIRE["control"], 0)
    while True:
        reader = ClockReader(world.log, PAPERS)
        reader.catch_up()
        looked = world.step
        yield
        end = world.log.end(*at) if world.rules.reads_law_to_end else min(reader.counted.end("control", 0), world.log.end(*at))
        seen = [int(r.value or b"") for r in world.log.everything(*at) if r.offset < end and r.key != FILL]
        there = [int(r.value or b"") for r in world.log.everything(*at) if r.key != FILL]
        before = [number for number in there if world.born[b"%d" % number][0] < looked]
        if (not seen or seen[-1] % 2 == 0) and before and before[-1] % 2 and before[-1] not in seen:
            world.faults.append(f"acted, although record {before[-1]} had paused it before")
        yield


class Run:
    """Three clocks, two workers that share everything, and a consumer."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, world.rng
        self.clocks, self.asleep = [SteppedActor(clock(world)) for _ in range(3)], [0, 0, 0]
        self.workers, self.acting = [Worker(world), Worker(world)], consumer(world)
        self.quiet = self.rng.random() < 0.3
        """Whether sources end early: what they wrote must be in a turn all the same."""

    def source(self) -> None:
        if not (self.quiet and self.world.step > STEPS):
            self.world.source()

    def tick(self) -> None:
        world, n = self.world, self.rng.randrange(3)
        if self.asleep[n] > world.step:
            return
        self.clocks[n].step()
        self.asleep[n] = world.step + self.rng.randrange(200) if self.rng.random() < 0.02 else 0
        if self.rng.random() < 0.005:
            self.clocks[n].kill()
            self.clocks[n] = SteppedActor(clock(world))

    def deliver(self) -> None:
        if self.world.flight:
            self.world.deliver(self.rng.choice(self.world.flight))

    def work(self) -> None:
        self.rng.choice(self.workers).step()

    def act(self) -> None:
        next(self.acting)

    def lose(self) -> None:
        self.world.lose() if self.world.losses else self.world.retention()

    def steps(self) -> None:
        chances = {self.source: 6, self.tick: 74, self.deliver: 2, self.work: 14, self.act: 3, self.lose: 1}
        for self.world.step in range(3 * STEPS):
            self.world.now += self.rng.random() < 0.3
            (step,) = self.rng.choices(list(chances), list(chances.values()))
            step()

    def settle(self) -> None:
        """All is alive, and gets time."""
        self.world.alive = True
        for _ in range(12):
            self.world.now += PERIOD
            for _ in range(60):
                for each in self.clocks:
                    each.step()
            for worker in self.workers:
                worker.step(fair=True)


def run(seed: int, *, losses: bool = False, rules: Rules | None = None) -> World:
    world = World(seed, losses, rules or Rules())
    these = Run(world)
    try:
        these.steps()
        these.settle()
    finally:
        for each in these.clocks:
            each.kill()
    judge(world, these.workers)
    return world


def judge(world: World, workers: Sequence[Worker]) -> None:
    """Compare with a literal reading of the whole log."""
    ticks = recomputation.counted(world.log.everything(*AT_CLOCK))
    turns: dict[tuple[int, int], tuple[bytes, ...]] = {}
    for p in range(2):
        logs = [world.log.everything(WIRE[name], p) for name in READS]
        for number, inputs in recomputation.cut(READS, p, logs, ticks):
            turns[p, number] = tuple(r.value or b"" for records in inputs for r in records)
    for at, contents in world.taken.items():
        if contents != {turns.get(at)}:
            world.faults.append(f"turn {at} was taken as {contents}, and the log gives {turns.get(at)}")
    for worker in workers:
        judge_states(world, worker, turns, ticks[-1][0] if ticks else -1)
    where: dict[bytes, int] = {}
    for (_, number), records in sorted(turns.items()):
        world.faults += [f"record {record!r} is in two turns" for record in records if record in where]
        where |= dict.fromkeys(records, number)
    there = [r.value or b"" for place in PLACES for r in world.log.everything(*place) if r.key != FILL]
    world.faults += [f"record {value!r} is in no turn" for value in there if value not in where]
    if not world.losses:
        judge_order(world, where)
    judge_middle(world)


def judge_states(world: World, worker: Worker, turns: Mapping[tuple[int, int], tuple[bytes, ...]], last: int) -> None:
    """Each task has taken all turns, and as they are in the log."""
    for ours in worker.working:
        task, state = ours.task, ours.state
        if task.turn != last:
            world.faults.append(f"partition {ours.p} waits after turn {task.turn} of {last}: {task.aligner.waits()}")
        elif state.taken != {number: taken for (p, number), taken in turns.items() if p == ours.p}:
            world.faults.append(f"partition {ours.p} has another state than the log gives")


def judge_order(world: World, where: Mapping[bytes, int]) -> None:
    """No turn has a fact without what `control` had before it."""
    for fact, (at, (topic, p)) in world.born.items():
        if PAPERS.short(topic) not in FACTS:
            continue
        for law, (before, place) in world.born.items():
            if place == (WIRE["control"], p) and before < at and where.get(law, 0) > where.get(fact, 1 << 60):
                world.faults.append(f"turn {where[fact]} has fact {fact!r} without {law!r} of control, which was there before")
                return


def judge_middle(world: World) -> None:
    """Who begins in the middle finds what one finds who has read everything."""
    records = world.log.everything(*AT_CLOCK)
    whole, ends = Counted(), dict[int, Mapping[tuple[str, int], int]]()
    for record in records:
        if whole.take(record) is not None:
            ends[record.offset] = dict(whole.ends)
    for start in range(0, len(records), 7):
        found = clock_rules.begin_in_middle(records[start:])
        if found is None or found.last is None:
            continue
        if ends.get(found.last.offset) != found.ends:
            world.faults.append(f"who begins at record {found.last.offset} of the clock finds other ends")


@pytest.mark.parametrize("losses", [False, True])
def test_every_turn_is_what_a_literal_reading_of_the_log_gives(losses: bool) -> None:
    turns = 0
    for seed in range(RUNS):
        world = run(seed, losses=losses)
        assert world.faults == [], f"seed {seed}"
        turns += len(world.taken)
    assert turns > RUNS * 10


class MakesUp(TickWriter):
    """Names two records of a partition in a tick, if they did not come within one period, as a clock does that was away."""

    made_up = 0

    def write(self, number: int, late: LateTicks | None = None, *, wall: int | None = None) -> int | None:
        late = LateTicks(self._log, PAPERS, PERIOD, TimeBase(), LAW)
        written = super().write(number, late, wall=wall)
        MakesUp.made_up += written is not None and written < number
        return written


@pytest.mark.parametrize("losses", [False, True])
def test_so_is_every_turn_of_a_tick_that_is_made_up_for(losses: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_ticks, "MOST", 2)
    monkeypatch.setattr(late_ticks, "MOST_OF_COLUMNS", 2)
    MakesUp.made_up = 0
    for seed in range(RUNS):
        assert run(seed, losses=losses, rules=Rules(writer=MakesUp)).faults == [], f"seed {seed}"
    assert MakesUp.made_up > RUNS


class TellsByItsOwn(TickWriter):
    """Tells what moved by what it wrote last itself."""

    wrote: Mapping[tuple[str, int], int] = MappingProxyType({})

    def _ends(self) -> dict[tuple[str, int], LogEnd]:
        ends, counted = super()._ends(), self._reader.counted
        counted.ends.update({at: max(end, self.wrote.get(at, 0)) for at, end in counted.ends.items()})
        self.wrote = {**self.wrote, **{at: end.offset for at, end in ends.items()}}
        return ends


class NeverReadsAnew(TickWriter):
    """Goes on with what it read of another leader."""

    def _ends(self) -> dict[tuple[str, int], LogEnd]:
        ends = super()._ends()
        return ends | {(CLOCK, 0): LogEnd(ends[CLOCK, 0].offset, 0)}


class TrustsItself(TickWriter):
    """Takes its own tick for the last that counts, wherever it came to stand."""

    def _append(self, tick: NewRecord, *, sure: bool) -> None:  # noqa: ARG002  # it is always sure
        self._log.append([tick])
        counted = self._reader.counted
        written = Record(tick.topic, tick.partition, counted.next, tick.key, tick.value)
        self._wrote_last = counted.take(written) is not None


def asks_nothing(*_asked: object) -> LostRecords:
    return LostRecords((), complete=True)


BROKEN: Mapping[str, tuple[bool, Rules]] = {
    "what moved is told by what counted": (False, Rules(writer=TellsByItsOwn)),
    "an input is read up to an end when nothing more comes": (False, Rules(passes_holes=False)),
    "who is behind what the log has takes a newer mark": (False, Rules(keeps=False)),
    "a consumer reads control to its end": (False, Rules(reads_law_to_end=False)),
    "what lost its end is filled up": (True, Rules(fills=False)),
    "in a new epoch one asks where the old one ended": (True, Rules(asks=asks_nothing)),
    "a clock reads its topic anew under another leader": (True, Rules(writer=NeverReadsAnew)),
    "a clock looks where its own tick came to stand": (False, Rules(writer=TrustsItself)),
}
"""Rules that an actor leaves out, and whether it takes a log that loses its end to see it."""


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_of_an_actor_is_needed(rule: str) -> None:
    losses, rules = BROKEN[rule]
    assert any(run(seed, losses=losses, rules=rules).faults for seed in range(TRIES))


def _counts_whatever_it_comes_after(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Counted.take

    def unchained(self: Counted, record: Record) -> Tick | None:
        said = ClockRecord.decode(record)
        if said is None:
            return take(self, record)
        ends = {at: max(end, self.end(*at)) for at, end in said.ends.items()}
        return take(self, replace(record, value=replace(said, after=self.place, ends=ends).encode(AT_CLOCK[0]).value))

    monkeypatch.setattr(Counted, "take", unchained)


def _names_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets alone say what a record comes after."""
    decode = ClockRecord.decode

    def nameless(record: Record | NewRecord) -> ClockRecord | None:
        said = decode(record)
        return None if said is None else replace(said, name="x", after=None if said.after is None else (said.after[0], "x"))

    monkeypatch.setattr(ClockRecord, "decode", staticmethod(nameless))


def _asks_for_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_source, "ASKED_LAST", ())


def _believes_any_full_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def unconfirmed(records: Sequence[Record], *, before: int | None = None) -> Counted | None:
        full = (Counted.at_full(r) for r in reversed(records) if before is None or r.offset < before)
        return next((found for found in full if found is not None), None)

    monkeypatch.setattr(clock_rules, "begin_in_middle", unconfirmed)


SHARED: Mapping[str, tuple[bool, Callable[[pytest.MonkeyPatch], None]]] = {
    "a record counts only after the last that counts": (False, _counts_whatever_it_comes_after),
    "a record says by name what it comes after": (True, _names_nobody),
    "what permits is asked for last": (False, _asks_for_all_at_once),
    "a full record is believed once a later one comes after it": (False, _believes_any_full_record),
}
"""Rules by which everybody reads the clock, or every clock asks."""


@pytest.mark.parametrize("rule", SHARED)
def test_each_rule_for_all_is_needed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    losses, leave_out = SHARED[rule]
    leave_out(monkeypatch)
    assert any(run(seed, losses=losses).faults for seed in range(TRIES))


def test_whether_a_record_counts_never_depends_on_where_a_log_ends_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one reader refuses what another one takes later, when the log has grown."""
    take = Counted.take

    def wary(world: World) -> Callable[[Counted, Record], Tick | None]:
        def taken(self: Counted, record: Record) -> Tick | None:
            said = ClockRecord.decode(record)
            beyond = said is not None and any(end > world.log.end(WIRE[n], p) for (n, p), end in said.ends.items())
            return take(self, replace(record, key=b"nothing") if beyond else record)

        return taken

    made = World.__post_init__

    def post_init(self: World) -> None:
        made(self)
        monkeypatch.setattr(Counted, "take", wary(self))

    monkeypatch.setattr(World, "__post_init__", post_init)
    assert any(run(seed, losses=True).faults for seed in range(TRIES))
