"""The clock source: appends a tick to the topic `clock` once each period. A tick says how far each partition had got.

The number of a tick is its time, rounded down to the period, and each says after which one it comes. So any number of clocks may
run, freeze and restart: of two ticks that come after the same one, only the first counts. A clock compares itself with the broker
and appends nothing while the two are too far apart.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

from schemas import times
from schemas.names import Place
from schemas.units import Seconds
from streams import clock_log
from streams.clock_log import ClockReader
from streams.clock_rules import LAST_NUMBER, MOST_AHEAD, PARTITION, PROBE, ClockRecord, Counted, Tick, TimeBase
from streams.errors import BadInput, LogUnavailable, TryAgain
from streams.log import log_port
from streams.log.log_port import Log, LogEnd, NewRecord, Record
from streams.log_range import has_topic
from streams.sources import truncated_partition_filler
from streams.sources.late_ticks import LateTicks
from streams.sources.truncated_partition_filler import TruncatedPartition, TruncatedPartitionFiller
from streams.topics import CLOCK, RULES, TOPICS, Topics

# A turn then has no fact without the policy or the pause that was in the log before it, and no policy without earlier rules.
ASKED_LAST = (frozenset({"policies", "control"}), frozenset({RULES}))
"""Topics (short names) whose ends are asked for after all others, in this order."""
FULL_MS = 60_000
"""Event time between two ticks that list all partitions, so that readers may begin there."""


def wall_ms() -> int:
    """This machine's time, in milliseconds since the epoch."""
    return int(time.time() * 1000)  # noqa: TID251  # the clock source is where time comes in


def discard(_sentence: str) -> None:
    """Ignore a sentence."""


@dataclass(frozen=True, slots=True)
class ClockTiming:
    """`period_ms` is event time. A skew to the broker above `skew_ms` is too much; it is checked every `check_ms`.

    With `every_tick` a clock that is late makes up for it tick by tick, as fast as it can, instead of leaving ticks out.
    """

    period_ms: int = 500
    base: TimeBase = TimeBase()
    skew_ms: int = 2_000
    check_ms: int = 10_000
    every_tick: bool = False

    def __post_init__(self) -> None:
        """Raises BadInput for a period or speed that is not above zero."""
        if self.period_ms < 1:
            raise BadInput(f"clock.period_ms is {self.period_ms}, but must be at least 1")
        if self.base.speed <= 0:
            raise BadInput(f"clock.speed is {self.base.speed}, but must be above 0")


def drawn(_number: int) -> str:
    """A name drawn by chance."""
    return uuid4().hex[:12]


def numbered(number: int) -> str:
    """The name of a tick in a log that has one writer."""
    return f"at-{number}"


class TickWriter:
    """Appends ticks to a log: each says how far every partition had got. Any number of writers may be at work.

    `draw` gives a name that no other record has; one that follows from the number will do where there is one writer, and then
    the same facts give the same bytes. A full tick comes each minute of event time, and first of all.
    """

    def __init__(self, log: Log, topics: Topics, *, draw: Callable[[int], str] = drawn) -> None:
        self._log, self._topics, self._draw = log, topics, draw
        self._reader = ClockReader(log, topics)
        self._full = -FULL_MS
        """When the last full tick was written."""
        self._names: tuple[str, ...] = ()
        self._epoch: int | None = None
        """In which epoch of its leader the clock's topic was read."""
        self._wrote_last = False
        """Whether what was read of the clock's topic ends with a tick of this writer's, which counts."""
        self.lost: dict[tuple[str, int], TruncatedPartition] = {}
        """Partitions that ended before their ends in force when the last tick was written."""

    def newest(self) -> Tick | None:
        """The last tick that counts, read to the end of the topic."""
        self._reader.catch_up()
        return self._reader.counted.last

    def write(self, number: int, late: LateTicks | None = None, *, wall: int | None = None) -> int | None:
        """Append the tick of this number, or by `late` one before it that is made up for.

        Returns the number appended; None if one that is not below it counts already. Raises LogUnavailable.

        A tick that is not after real time `wall`, if that is given, counts where nobody wrote between, so it is not read back.
        """
        self.lost = {}
        if not self._wrote_last and self._counted_before(number) is None:
            return None
        ends = self._ends()
        clock = ends.pop((CLOCK, PARTITION))
        epoch, self._epoch = self._epoch, clock.epoch
        lost = epoch != self._epoch or clock.offset < self._reader.counted.next
        if lost:
            # A new leader may not have what was read of the old one, and nothing that comes after that would count.
            self._reader = ClockReader(self._log, self._topics)
        if (lost or clock.offset > self._reader.counted.next) and self._counted_before(number) is None:
            return None
        # What moved is told by what counts, and not by what this writer wrote last: its last tick may not have counted.
        counted = self._reader.counted
        if number <= counted.number:
            return None
        self.lost = truncated_partition_filler.among(ends, counted)
        made_up = None if late is None else late.due(number, ends, counted)
        if made_up is not None:
            number, ends = made_up.number, dict(made_up.ends)
        full = counted.last is None or not 0 <= number - self._full < FULL_MS
        # An end never goes back, even if a log has lost its own: readers would not count the tick.
        moved = {at: max(end.offset, counted.end(*at)) for at, end in ends.items() if full or end.offset > counted.end(*at)}
        if full:
            moved = counted.ends | moved
        record = ClockRecord(number, self._draw(number), counted.place, moved, full, more=made_up is not None)
        self._append(record.encode(self._topics.wire(CLOCK)), sure=wall is not None and number <= wall)
        self._full = number if full else self._full
        return number

    def _append(self, tick: NewRecord, *, sure: bool) -> None:
        """Append a tick. If it stands where it was to stand, and is `sure` not to be after the log's time by much, it counts."""
        self._wrote_last = False
        (place,) = self._log.append([tick])
        counted = self._reader.counted
        if sure and place.offset == counted.next:
            written = Record(tick.topic, tick.partition, place.offset, tick.key, tick.value, tick.headers)
            self._wrote_last = counted.take(written) is not None

    def _counted_before(self, number: int) -> Counted | None:
        """What counts, read to the end of the topic; None if a tick that is not below this number counts already."""
        self._reader.catch_up()
        return None if number <= self._reader.counted.number else self._reader.counted

    def _ends(self) -> dict[tuple[str, int], LogEnd]:
        """Where all partitions end, the clock's own among them; those of facts may be lacking.

        Raises LogUnavailable where nobody answers for the clock, or for what permits and rules.
        """
        if not self._names:
            self._names = tuple(t.name for t in TOPICS if has_topic(self._log, self._topics.wire(t.name)))
        ends: dict[tuple[str, int], LogEnd] = {}
        for together in (set(self._names).difference(*ASKED_LAST), *(names.intersection(self._names) for names in ASKED_LAST)):
            ends |= clock_log.ends_of(self._log, self._topics, together)
        for name in (CLOCK, *(name for names in ASKED_LAST for name in names)):
            for at in ((name, partition) for partition in range(self._topics.count(name)) if name in self._names):
                if at not in ends:
                    raise LogUnavailable(f"{log_port.unanswered(at)} No tick is written")
        return ends


def refuse_future(at: int, wall: int) -> None:
    """Raises BadInput for an event time that is too far ahead of real time; both in milliseconds."""
    if at - wall > MOST_AHEAD:
        raise BadInput(
            f"event time {readable(min(at, LAST_NUMBER - 1))} is more than five minutes ahead of real time, and ticks of the "
            "future are nothing: what is played has to lie in the past (a clock: by clock.origin_ms and clock.anchor_ms)"
        )


class Clock:
    """One clock. `now` returns wall time in milliseconds, `sleep` waits some seconds."""

    def __init__(  # noqa: PLR0913  # wired once, by keyword
        self,
        log: Log,
        topics: Topics,
        timing: ClockTiming | None = None,
        *,
        now: Callable[[], int] = wall_ms,
        sleep: Callable[[float], object] = time.sleep,
        warn: Callable[[str], None] = discard,
        report_lost: Callable[[int], None] = lambda _count: None,
        fill_most: int = truncated_partition_filler.MOST,
    ) -> None:
        """`warn` receives why the clock cannot tick, or what time waits for; `report_lost` how many partitions lost their end.

        Such a partition is filled up if it lacks at most `fill_most` records.
        """
        self._log, self._topics, self._writer = log, topics, TickWriter(log, topics)
        self._timing = timing or ClockTiming()
        self._now, self._sleep, self._warn = now, sleep, warn
        self._filler, self._report_lost = TruncatedPartitionFiller(log, topics, warn, most=fill_most), report_lost
        sooner = frozenset().union(*ASKED_LAST)
        self._late = LateTicks(log, topics, self._timing.period_ms, self._timing.base, sooner)
        self._makes_up = False
        """Whether the last tick was one of before."""
        self._last = -1
        self._last_look: int | None = None
        self._checked = 0
        self._warned = -1
        self._skewed = False
        """Whether the clocks were too far apart at the last try."""

    def run(self, stop: Callable[[], bool]) -> None:
        """Tick until `stop()`. Retries what may pass: a missed tick does no harm, because the next one closes the turn."""
        while not stop():
            try:
                if self.step() is not None:  # ticks are appended again, so the next skew is worth a line again
                    self._skewed = False
                self._sleep(self.wait())
            except TryAgain as error:
                if not self._skewed:
                    self._warn(str(error))
                self._skewed = True
                self._sleep(error.after)
            except LogUnavailable:  # the process logs that
                self._last_look = None  # who knows how long the log was away: compare the clocks anew
                self._sleep(1.0)

    def step(self) -> int | None:
        """Append the tick that is due, unless it was appended before, or one of before that is made up for.

        Returns the number appended, else None.

        Raises TryAgain while the skew is too big, and BadInput when event time has run ahead of real time.
        """
        wall = self._now()
        self._check_skew(wall)
        number = self._due(wall)
        refuse_future(number, wall)
        if number <= self._last:
            return None
        written = self._writer.write(number, self._late, wall=wall)
        self._makes_up = written is not None and written < number
        self._last = number if written is None else written
        self._report_lost(len(self._writer.lost))
        if written is None:
            self._warn_of_future(number)
        else:
            self._filler.look(self._writer.lost, wall)
        return written

    def wait(self) -> float:
        """Seconds until the next tick is due, one period at most."""
        period, base = self._timing.period_ms, self._timing.base
        wall = self._now()
        behind = self._makes_up or (self._timing.every_tick and self._last >= 0)
        written = self._last if behind else self._due(wall)
        seconds = (base.wall(written + period) - wall) / 1000
        return min(max(seconds, 0.001), period / base.speed / 1000)

    def _warn_of_future(self, number: int) -> None:
        """Warn of a tick of the future: it cannot be taken back, but operators should know what the turns wait for."""
        timing, newest = self._timing, self._writer.newest()
        honest = number + timing.period_ms + int(timing.skew_ms * timing.base.speed)
        if newest is not None and newest.number > honest and newest.number != self._warned:
            self._warned = newest.number
            self._warn(
                f"'{self._topics.wire(CLOCK)}' holds a tick of {readable(newest.number)}, and ours is {readable(number)}: "
                "turns wait until then"
            )

    def _due(self, wall: int) -> int:
        period = self._timing.period_ms
        due = max(self._timing.base.event(wall), 0) // period * period
        return min(due, self._last + period) if self._timing.every_tick and self._last >= 0 else due

    def _check_skew(self, wall: int) -> None:
        """Compare with the broker at the start, every `check_ms`, and when this machine's time has jumped since the last step."""
        # A clock that runs ahead does harm: stages act on its tick, and no honest tick counts until time has caught up.
        looked, self._last_look = self._last_look, None
        timing = self._timing
        jumped = looked is None or not 0 <= wall - looked <= timing.skew_ms
        if jumped or wall - self._checked >= timing.check_ms:
            refuse_skew(self._log, self._topics, self._now, timing.skew_ms)
            self._checked = wall
        self._last_look = wall


def refuse_skew(log: Log, topics: Topics, now: Callable[[], int], bound_ms: int) -> None:
    """Append a probe and compare its timestamp with our time around it.

    Raises TryAgain beyond `bound_ms`. A log without timestamps (`timestamp_ms` -1) cannot be compared, and passes.
    """
    before = now()
    # A record's timestamp is the broker's (LogAppendTime). A probe has a key of its own, and so counts for nothing.
    places = log.append([NewRecord(topics.wire(CLOCK), PARTITION, PROBE, b"%d" % before)])
    after = now()
    for probe in _read_back(log, places):
        broker = probe.timestamp_ms
        ahead = before - broker if before > broker else min(after - broker, 0)
        if broker >= 0 and abs(ahead) > bound_ms:
            which = "ahead of" if ahead > 0 else "behind"
            answer = (
                f"this machine says {readable(before)}, the log says {readable(broker)}: "
                f"{abs(ahead) / 1000:.1f} s {which} it, and at most {bound_ms / 1000:.1f} s are allowed; "
                "set the time of one of them right"
            )
            raise TryAgain(doing="ticking", to=topics.prefix, answer=answer, after=Seconds(2.0))


def _read_back(log: Log, places: Sequence[Place]) -> Iterator[Record]:
    missing = {(place.topic, place.partition): place.offset for place in places}
    while missing:
        records = log.poll(missing, wait=5.0, limit=len(missing) * 4)
        if not records:
            (topic, partition), offset = next(iter(missing.items()))
            raise LogUnavailable(
                f"the probe at {topic}:{partition}:{offset} was written but cannot be read back; is the log keeping anything?"
            )
        for record in records:
            if missing.get((record.topic, record.partition)) == record.offset:
                del missing[record.topic, record.partition]
                yield record


def readable(ms: int) -> str:
    """A time in milliseconds since the epoch, for people."""
    return times.from_ms(ms).isoformat(timespec="milliseconds")
