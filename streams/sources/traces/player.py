"""Plays a usage trace into a log: at the pace of a time base, or as fast as the log accepts it.

With a time base, a clock source with the same base writes the ticks. Without one, event time is the trace's own, so the player
writes the ticks: one after each scrape, and one after the end.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from schemas import times
from schemas.units import Seconds
from streams import refused_records
from streams.clock_rules import TimeBase
from streams.errors import BadInput
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.sources.clock import TickWriter, numbered, wall_ms
from streams.sources.traces.trace_facts import FactRouter, RoutedFact, TraceFacts
from streams.sources.traces.trace_table import Trace
from streams.topics import Topics

BATCH = 2_000
"""Records in one append at full speed. Each append waits for the log."""
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Playback:
    """How to play. `start` is the event time of the trace's second 0, or of its first scrape when its seconds are Unix time.

    Without `start`, Unix time stays as it is, and other traces begin in 2026. `speed` is seconds of the trace for each second
    from now on; 0 means as fast as the log accepts it. `base` gives event time instead, for a log that has a clock.
    """

    start: datetime | None = None
    loops: int = 1
    speed: float = 0.0
    base: TimeBase | None = None

    def __post_init__(self) -> None:
        """Raises BadInput for a number of loops below one or a speed below zero."""
        if self.loops < 1:
            raise BadInput(f"a trace is played {self.loops} times, but must be played once at least")
        if self.speed < 0:
            raise BadInput(f"a trace is played at speed {self.speed:g}, but time does not run backwards")


@dataclass(frozen=True, slots=True)
class PlaybackProgress:
    """How far the player is: rows so far and in all, records appended (ticks too), and the event time."""

    rows: int
    of: int
    records: int
    at: datetime


@dataclass(frozen=True, slots=True)
class TraceMoment:
    """A scrape of a trace with what was seen of pods at that time. `ends`: nothing else happens at this time."""

    at: datetime
    facts: Sequence[RoutedFact]
    rows: int = 0
    ends: bool = False


class TraceMoments:
    """A trace as facts in the order of event time. It can be iterated more than once."""

    def __init__(self, trace: Trace, topics: Topics, cluster: str, playback: Playback | None = None) -> None:
        self._trace, self._cluster, self._playback = trace, cluster, playback or Playback()
        self._router = FactRouter(trace, topics, cluster)

    def shift(self, loop: int = 0) -> Seconds:
        """What to add to the trace's seconds to get Unix time."""
        trace, start = self._trace, self._playback.start
        # two steps: one until the pods of a loop are gone, one until the next loop's first scrape
        length = trace.last - trace.first + 2 * trace.step
        if start is not None:
            shift = times.to_seconds(start) - (trace.first if trace.is_unix else 0.0)
        else:
            shift = 0.0 if trace.is_unix else times.to_seconds(START)
        return Seconds(shift + loop * length)

    def __iter__(self) -> Iterator[TraceMoment]:
        """Each scrape, an empty moment where a time ends, and the end of the trace, at which all pods are gone."""
        trace = self._trace
        for loop in range(self._playback.loops):
            facts = TraceFacts(trace, cluster=self._cluster, shift=self.shift(loop), life=loop)
            before: datetime | None = None
            for scrape in trace.scrapes():
                at = facts.at(scrape.at)
                # a trace may have two scrapes of one time, and a tick between them would end that time too early
                if before is not None and at > before:
                    yield TraceMoment(before, (), ends=True)
                before = at
                routed = [*self._router.pods(facts.about_pods(scrape)), *self._router.metrics(scrape, at)]
                yield TraceMoment(at, routed, len(scrape.who))
            if before is not None:
                yield TraceMoment(before, (), ends=True)
            after = trace.last + trace.step
            yield TraceMoment(facts.at(after), list(self._router.pods(facts.gone(after))), ends=True)


class TracePlayer:
    """Plays one trace into one log. `now` and `sleep` are the wall clock's; only a pace needs them."""

    def __init__(  # wired once, by keyword
        self,
        trace: Trace,
        context: LogContext,
        playback: Playback | None = None,
        *,
        now: Callable[[], int] = wall_ms,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """The context's cluster is the one that the trace stands for."""
        self._trace, self._context, self._playback = trace, context, playback or Playback()
        self._clock = TickWriter(context.log, context.topics, draw=numbered)
        self._moments = TraceMoments(trace, context.topics, context.cluster, playback)
        self._now, self._sleep = now, sleep
        self._rows = self._records = 0

    def play(self) -> Iterator[PlaybackProgress]:
        """Append everything, and yield how far it is after each append and second of waiting; the caller may stop there."""
        batch: list[NewRecord] = []
        base, at = self._base(), START
        for moment in self._moments:
            at = moment.at
            if base is not None:
                yield from self._wait_for(at, base)
            batch += [fact.record(self._context.codec) for fact in moment.facts]
            self._rows += moment.rows
            ticks = moment.ends and self._playback.base is None
            # with a time base each moment goes out when it is due; at full speed records are gathered
            if ticks or (batch and (base is not None or len(batch) >= BATCH)):
                if ticks:
                    # before the tick, because a turn takes what is in the log before its tick
                    self._append(batch, at)
                    self._clock.write(times.nearest_ms(at))
                    self._records, batch = self._records + 1, []
                yield self._append(batch, at)
                batch = []
        yield self._append(batch, at)

    def shift(self) -> Seconds:
        """What to add to the trace's seconds to get Unix time."""
        return self._moments.shift()

    def _append(self, batch: list[NewRecord], at: datetime) -> PlaybackProgress:
        if batch:
            # no second try: a part may be in the log, and samples that are appended again count twice
            refused_records.append(self._context.log, self._context.topics, batch)
            self._records += len(batch)
        return self._progress(at)

    def _progress(self, at: datetime) -> PlaybackProgress:
        return PlaybackProgress(self._rows, self._trace.rows * self._playback.loops, self._records, at)

    def _base(self) -> TimeBase | None:
        """The time base to wait by; None at full speed."""
        if self._playback.base is not None or not self._playback.speed:
            return self._playback.base
        # so that the first scrape is due now
        origin = round((self._trace.first + self.shift()) * 1000)
        return TimeBase(origin, self._now(), self._playback.speed)

    def _wait_for(self, at: datetime, base: TimeBase) -> Iterator[PlaybackProgress]:
        due = base.wall(times.nearest_ms(at))
        while (ms := due - self._now()) > 0:
            # a second at most, so that the caller may stop between them
            self._sleep(min(ms / 1000, 1.0))
            yield self._progress(at)
