"""Runs `ullage source clock`: ticks until stopped, alone or in step with a simulation. Also gives event time by its settings.

In step means that the clock waits after a tick until the simulated world has answered with a scrape of that time, and leaves no
tick out. On a fast machine this changes nothing. On a slow one the day takes longer, and is the same day: with ticks left out, a
world that is simulated on the same cores would be seen seldom.
"""

import time
from datetime import datetime

from agents.processes.process_telemetry import running_source
from agents.processes.signals import pause, until_stopped
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.telemetry import ClockMetrics
from agents.terminal.output import note
from schemas import times
from streams import clock_log
from streams.clock_rules import ClockRecord, TimeBase
from streams.codec.event_codec import header
from streams.log.log_port import Log
from streams.sources.clock import Clock, ClockTiming, wall_ms
from streams.topics import Topics

PATIENCE = 1.0
"""Seconds that the clock waits at most for the world to answer a tick."""


def run(settings: Settings, *, in_step: bool) -> None:
    """Tick until stopped."""
    ours = settings.clock
    with until_stopped(), running_source("clock", settings, ClockMetrics) as (log, topics, metrics):
        note(f"ticking every {ours.period_ms} ms of event time at speed {ours.speed:g}")
        # a connection of its own: the clock appends on the other meanwhile
        with log_factory.log(settings) as aside:
            # the anchor may be set in the future, by which a demo gives its processes a head start
            pause(max(0, ours.anchor_ms - wall_ms()) / 1000)
            sleep = SimulationPace(aside, topics).sleep if in_step else pause
            # a simulation must not miss a tick; a live clock that was late leaves out what is past
            how = ClockTiming(ours.period_ms, time_base(settings), every_tick=in_step)
            clock = Clock(log, topics, how, sleep=sleep, warn=note, report_lost=metrics.lost_ends, fill_most=ours.fill_most)
            clock.run(lambda: False)


def time_base(settings: Settings) -> TimeBase:
    """How the settings derive event time from real time."""
    return TimeBase(settings.clock.origin_ms, settings.clock.anchor_ms, settings.clock.speed)


def event_time(settings: Settings) -> datetime:
    """Event time now, by the same settings as the clock's."""
    return times.from_ms(time_base(settings).event(wall_ms()))


class SimulationPace:
    """Watches the clock and `pod-metrics` from their ends on.

    The log must have a connection of its own, because the clock appends meanwhile.
    """

    def __init__(self, log: Log, topics: Topics) -> None:
        wire = topics.wire("pod-metrics")
        self._log = log
        self._clock = clock_log.place(topics)
        self._next = {(wire, p): log.end(wire, p) for p in range(topics.partitions)} | {self._clock: log.end(*self._clock)}
        self._tick = self._scraped = -1

    def sleep(self, seconds: float) -> None:
        """Sleep this long, or until a scrape has answered the newest tick, whichever is later; at most `PATIENCE` longer."""
        begun = time.monotonic()
        self._read(0.05)
        # It returns with the first record; where none comes, Kafka is asked anew each time, so the wait is not short.
        while self._scraped < self._tick and time.monotonic() < begun + PATIENCE:
            self._read(0.25)
        time.sleep(max(0.0, begun + seconds - time.monotonic()))

    def _read(self, wait: float) -> None:
        for record in self._log.poll(self._next, wait=wait):
            self._next[record.topic, record.partition] = record.offset + 1
            if (record.topic, record.partition) == self._clock:
                tick = ClockRecord.decode(record)
                self._tick = self._tick if tick is None else max(self._tick, tick.number)
            else:
                self._scraped = max(self._scraped, _event_ms(header(record, "ce_time")))


def _event_ms(text: str | None) -> int:
    """Event time in milliseconds; -1 for an invalid time."""
    try:
        return -1 if text is None else times.to_ms(datetime.fromisoformat(text))
    except (ValueError, TypeError):
        return -1
