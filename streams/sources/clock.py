"""The clock source: appends a tick to every partition of every topic that a stage reads, once each period.

The number of a tick is its time, rounded down to the period. So any number of clocks may run, restart and repeat themselves: they
append the same bytes, and a tick that is not above the last one is ignored. A clock that runs ahead would do harm: stages would
act on its tick, and ignore every honest tick until time has caught up. So before its first tick, from time to time, and whenever
its time has jumped, the clock compares itself with the broker, and it appends nothing while the two are too far apart. Event time
other than real time must lie in the past, because a tick far ahead of real time is ignored.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from streams.codec import event_codec
from streams.codec.headers import LAST_TICK, MOST_TICK_AHEAD
from streams.errors import BadInput, LogUnavailable, TryAgain
from streams.log.log_port import Log, NewRecord
from streams.sources.clock_skew import future_ticks, readable, refuse_skew
from streams.topics import RULES, Topics


def wall_ms() -> int:
    """This machine's time, in milliseconds since the epoch."""
    return int(time.time() * 1000)  # noqa: TID251  # the clock source is where time comes in


def discard(_sentence: str) -> None:
    """Ignore a sentence."""


@dataclass(frozen=True, slots=True)
class TimeBase:
    """Event time from wall time: `origin + (wall - anchor) * speed`, in milliseconds. By default both are the same."""

    origin: int = 0
    anchor: int = 0
    speed: float = 1.0

    def event(self, wall: int) -> int:
        """Event time at a wall time."""
        return self.origin + int((wall - self.anchor) * self.speed)

    def wall(self, event: int) -> float:
        """The wall time of an event time."""
        return self.anchor + (event - self.origin) / self.speed


@dataclass(frozen=True, slots=True)
class ClockTiming:
    """`period_ms` is event time. A skew to the broker above `skew_ms` is too much; it is checked every `check_ms`."""

    period_ms: int = 500
    base: TimeBase = TimeBase()
    skew_ms: int = 2_000
    check_ms: int = 10_000

    def __post_init__(self) -> None:
        """Raises BadInput for a period or speed that is not above zero."""
        if self.period_ms < 1:
            raise BadInput(f"clock.period_ms is {self.period_ms}, but must be at least 1")
        if self.base.speed <= 0:
            raise BadInput(f"clock.speed is {self.base.speed}, but must be above 0")


def ticks(topics: Topics, names: Iterable[str], number: int) -> list[NewRecord]:
    """The tick `number` for every partition of the topics with these short names: all that some stage reads."""
    return [event_codec.tick(topics.wire(name), p, number) for name in names for p in range(topics.partitions)]


def refuse_future(at: int, wall: int) -> None:
    """Raises BadInput for an event time that is too far ahead of real time; both in milliseconds."""
    if at - wall > MOST_TICK_AHEAD:
        raise BadInput(
            f"event time {readable(min(at, LAST_TICK - 1))} is more than five minutes ahead of real time, and ticks of the "
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
        ticked: Sequence[str],
        now: Callable[[], int] = wall_ms,
        sleep: Callable[[float], object] = time.sleep,
        warn: Callable[[str], None] = discard,
    ) -> None:
        """`ticked` are the short names of all topics that some stage reads; `warn` receives why the clock cannot tick."""
        self._log, self._topics, self._ticked = log, topics, tuple(ticked)
        # What is appended after a record of rules must not be in an earlier turn than the rules, so their ticks come last.
        self._order = [names for names in ([n for n in ticked if n != RULES], [n for n in ticked if n == RULES]) if names]
        self._timing = timing or ClockTiming()
        self._now, self._sleep, self._warn = now, sleep, warn
        self._last = -1
        self._last_look: int | None = None
        self._checked = 0
        self._compared: int | None = None
        self._warned: dict[tuple[str, int], int] = {}
        self._skewed = False
        """Whether the clocks were too far apart at the last try."""

    def run(self, stop: Callable[[], bool]) -> None:
        """Tick until `stop()`. Retries what may pass: a missed tick does no harm, because the next one closes the turn."""
        while not stop():
            try:
                if self.step() is not None:
                    self._warn_of_future_ticks()
                    self._skewed = False
                self._sleep(self.wait())
            except TryAgain as error:
                if not self._skewed:
                    self._warn(str(error))
                self._skewed = True
                self._sleep(error.after)
            except LogUnavailable:  # the process logs that
                self._last_look = None
                self._sleep(1.0)

    def step(self) -> int | None:
        """Append the tick that is due, unless it was appended before. Returns its number, else None.

        Raises TryAgain while the skew is too big, and BadInput when event time has run ahead of real time.
        """
        wall = self._now()
        self._check_skew(wall)
        number = self._due(wall)
        refuse_future(number, wall)
        if number <= self._last:
            return None
        for names in self._order:
            self._log.append(ticks(self._topics, names, number))
        self._last = number
        return number

    def wait(self) -> float:
        """Seconds until the next tick is due, one period at most."""
        period, base = self._timing.period_ms, self._timing.base
        wall = self._now()
        left = (base.wall(self._due(wall) + period) - wall) / 1000
        return min(max(left, 0.001), period / base.speed / 1000)

    def _warn_of_future_ticks(self) -> None:
        """Warn of ticks of the future: they cannot be taken back, but operators should know what the turns wait for.

        Repeated regularly.
        """
        timing, wall = self._timing, self._now()
        if self._compared is not None and 0 <= wall - self._compared < timing.check_ms:
            return
        self._compared = wall
        honest = self._last + timing.period_ms + int(timing.skew_ms * timing.base.speed)
        try:
            found = future_ticks(self._log, self._topics, self._ticked, honest)
        except LogUnavailable:  # ticking matters more than this check
            return
        for (topic, partition), highest in found.items():
            if self._warned.get((topic, partition)) != highest:
                self._warned[topic, partition] = highest
                self._warn(
                    f"'{topic}' partition {partition} holds a tick of {readable(highest)}, and ours is {readable(self._last)}: "
                    "turns wait until then"
                )

    def _due(self, wall: int) -> int:
        period = self._timing.period_ms
        return max(self._timing.base.event(wall), 0) // period * period

    def _check_skew(self, wall: int) -> None:
        """Compare with the broker at the start, every `check_ms`, and when this machine's time has jumped since the last step."""
        looked, self._last_look = self._last_look, None
        timing = self._timing
        jumped = looked is None or not 0 <= wall - looked <= timing.skew_ms
        if jumped or wall - self._checked >= timing.check_ms:
            refuse_skew(self._log, self._topics, self._now, timing.skew_ms)
            self._checked = wall
        self._last_look = wall
