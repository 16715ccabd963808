"""The clock source: writes a tick to every partition of every topic that a stage reads, each period.

The number of a tick is its time, rounded down to the period. So any number of clocks may run, restart and repeat themselves:
they write the same bytes, and a tick that is not above the last one is nothing. What would harm is a clock that runs ahead:
stages take its tick, and every honest tick is nothing until time has caught up. So before the first tick, again every so often,
and whenever its time has jumped, the clock compares itself with the broker's and writes nothing while they are too far apart.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from streams.codec import event_codec
from streams.errors import BadInput, LogUnavailable, TryAgain
from streams.log.port import Log, NewRecord
from streams.sources.clock_skew import highest_tick, refuse_skew, text
from streams.topics import Topics


def wall_ms() -> int:
    """What this machine says the time is."""
    return int(time.time() * 1000)  # noqa: TID251  # the clock source is where time comes in


def silent(_sentence: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class TimeBase:
    """Event time from the wall's: `origin + (wall - anchor) * speed`, in milliseconds. The default is the wall itself."""

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
class ClockSettings:
    """`period_ms` is event time. Above `skew_ms` between this machine and the broker is too much; looked at each `check_ms`."""

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


class Clock:
    """One clock. `now` gives the wall's milliseconds, `sleep` waits some seconds."""

    def __init__(  # noqa: PLR0913  # wired once, by keyword
        self,
        log: Log,
        topics: Topics,
        settings: ClockSettings | None = None,
        *,
        ticked: Sequence[str],
        now: Callable[[], int] = wall_ms,
        sleep: Callable[[float], object] = time.sleep,
        tell: Callable[[str], None] = silent,
    ) -> None:
        """`ticked` are the short names of all topics that some stage reads; `tell` hears why the clock cannot tick."""
        self._log, self._topics, self._ticked = log, topics, tuple(ticked)
        self._settings = settings or ClockSettings()
        self._now, self._sleep, self._tell = now, sleep, tell
        self._last = -1
        self._looked: int | None = None
        self._checked = 0

    def run(self, stop: Callable[[], bool]) -> None:
        """Tick until `stop()`. Retries whatever may pass: a tick that is missed is nothing, the next one closes the turn."""
        said = False
        while not stop():
            try:
                if self.step() is not None and not said:
                    self._say_ahead()
                    said = True
                self._sleep(self.wait())
            except TryAgain as error:
                self._tell(str(error))
                self._sleep(error.after)
            except LogUnavailable as error:
                self._tell(str(error))
                self._looked = None
                self._sleep(1.0)

    def step(self) -> int | None:
        """Write the tick that is due, in one append; None when that is done. Raises TryAgain while the skew is too big."""
        wall = self._now()
        self._guard(wall)
        number = self._due(wall)
        if number <= self._last:
            return None
        self._log.append(ticks(self._topics, self._ticked, number))
        self._last = number
        return number

    def wait(self) -> float:
        """Seconds until the next tick is due, one period at most."""
        period, base = self._settings.period_ms, self._settings.base
        wall = self._now()
        left = (base.wall(self._due(wall) + period) - wall) / 1000
        return min(max(left, 0.001), period / base.speed / 1000)

    def _say_ahead(self) -> None:
        """Whatever wrote a tick of the future, nobody can take it back; at least say what the turns are waiting for."""
        settings = self._settings
        highest = highest_tick(self._log, self._topics)
        if (
            highest > self._last + settings.period_ms + settings.skew_ms * settings.base.speed
        ):  # further than an honest clock can be
            self._tell(f"the log holds a tick of {text(highest)}, and ours is {text(self._last)}: turns wait until then")

    def _due(self, wall: int) -> int:
        period = self._settings.period_ms
        return max(self._settings.base.event(wall), 0) // period * period

    def _guard(self, wall: int) -> None:
        """Compare with the broker at the start, every `check_ms`, and when this machine's time jumped since the last look."""
        looked, self._looked = self._looked, None
        settings = self._settings
        jumped = looked is None or not 0 <= wall - looked <= settings.skew_ms
        if jumped or wall - self._checked >= settings.check_ms:
            refuse_skew(self._log, self._topics, self._now, settings.skew_ms)
            self._checked = wall
        self._looked = wall
