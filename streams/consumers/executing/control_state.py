"""Follows `control` for one cluster: whether anything may be done there now, and the event time.

The newest ControlChanged of the cluster is in force; without one nothing is allowed, because the default mode is shadow. Event
time is the newest tick that counts; before the first tick there is no time, and nothing is allowed either. While it stands still,
nothing expires and nothing new is decided.
"""

import time
from collections.abc import Callable
from datetime import datetime

from schemas import times
from schemas.policies import control
from schemas.policies.control import ControlChanged
from streams import clock_log, compacted_copy
from streams.clock_rules import Counted
from streams.log.log_port import Log, Record, TopicAndPartition
from streams.log_context import LogContext
from streams.log_range import Cursor
from streams.topics import Topics

LEAST = 20.0
"""Real seconds without a tick in which the clock cannot count as away."""
_PERIODS = 3
"""Periods of a slow clock without a tick after which it counts as away."""


class TickSilence:
    """For how long event time has stood still. `clock` counts real seconds.

    The period is the time between two ticks, so that a slow clock does not count as silent.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: float | None = None
        self._tick, self._periods = -1, (0.0, 0.0)
        self._more = False
        """Whether the clock makes up for ticks: event time is then one of before."""
        self.place: TopicAndPartition = ("", 0)
        self._counted = Counted()
        self._begun = clock()

    def begin(self, log: Log, topics: Topics) -> dict[TopicAndPartition, int]:
        """Read what counts near the end of the clock's topic; from where `take` wants its records. Raises LogUnavailable."""
        self.place, self._counted, self._begun = clock_log.place(topics), clock_log.counted(log, topics), self._clock()
        self.moved_on(self._counted.number)
        self._more = self._counted.last is not None and self._counted.last.more
        return {self.place: self._counted.next}

    def begin_again(self, log: Log, topics: Topics) -> dict[TopicAndPartition, int]:
        """As `begin`, where no tick has come for so long that it may be the topic that has lost its end; else nothing."""
        # No tick comes after a tick that was lost, so who has read that one would wait for ever.
        silent = self._heard is not None and min(self._clock() - self._heard, self._clock() - self._begun) > LEAST
        return self.begin(log, topics) if silent else {}

    @property
    def now(self) -> datetime | None:
        """Event time: that of the newest tick that counts; None before the first."""
        return None if self._tick < 0 else times.from_ms(self._tick)

    def take(self, record: Record) -> bool:
        """Take in a record of the clock; False for a record of another topic."""
        if (record.topic, record.partition) != self.place:
            return False
        tick = self._counted.take(record)
        if tick is not None:
            self.moved_on(tick.number)
            self._more = tick.more
        return True

    def moved_on(self, tick: int) -> None:
        """Time went on to `tick`, in milliseconds, for one reader of several."""
        if tick <= self._tick:  # a tick that is read a second time is no sign that the clock is at work
            return
        self._heard = self._clock()
        if self._tick >= 0:
            self._periods = self._periods[1], (tick - self._tick) / 1000
        self._tick = tick

    def reasons(self) -> list[str]:
        """A sentence on why the event time is unknown; empty while ticks come in."""
        if self._heard is None:
            return ["the log has no tick yet: is `ullage source clock` at work?"]
        if self._more:
            return ["the clock makes up for what came while none was at work, and has not reached the present"]
        silent = self._clock() - self._heard
        # Of the last two periods the shorter one counts, because a jump in time is no period.
        if silent <= max(LEAST, _PERIODS * min(self._periods)):
            return []
        return [f"no tick has come for {silent:.0f} s: is `ullage source clock` at work?"]

    def reasons_once_heard(self) -> list[str]:
        """As `reasons`, for readers that need not wait in a log without ticks."""
        return [] if self._heard is None else self.reasons()


class ControlState:
    """The control record in force and the time, for the context's cluster. `catch_up` reads; the rest answers from memory."""

    def __init__(self, context: LogContext, silence: TickSilence | None = None) -> None:
        """`silence` knows the time for a caller that reads the clock itself, and gives `apply` the records of `control`."""
        self.silence = silence or TickSilence()
        self._cluster, self._codec = context.cluster, context.codec
        self._context = context.reopened()
        self._cursor: Cursor | None = None
        self._control: ControlChanged | None = None

    @property
    def now(self) -> datetime | None:
        """Event time; None before the first tick."""
        return self.silence.now

    def catch_up(self) -> None:
        """Read the clock and `control` to their ends: the present state at first, later what was appended.

        Raises LogUnavailable.
        """
        if self._cursor is None:
            log, place = self._context.log, self._context.cluster_partition("control")
            clock = self.silence.begin(log, self._context.topics)
            present = compacted_copy.read_present(log, self._context.topics, "control", place[1])
            for record in present:
                self.apply(record)
            self._cursor = Cursor(log, {**clock, place: present.position})
        # The clock comes first, and then `control` to its end and not only to the end of a turn: who acts must have seen a pause
        # that is in the log.
        self._cursor.go_to(self.silence.begin_again(self._context.log, self._context.topics))
        for record in self._cursor.catch_up():
            self.apply(record)

    def apply(self, record: Record) -> None:
        """Take in one record of the clock or of `control`. A bad one changes nothing."""
        if self.silence.take(record):
            return
        event = self._codec.decode_or_none(record)  # the stages read `control`, too, and set bad records aside
        if isinstance(event, ControlChanged) and event.cluster == self._cluster and not any(control.faults(event)):
            self._control = event

    def objection(self) -> str | None:
        """Why nothing may be done now, as a sentence; None when acting is allowed."""
        newest, now = self._control, self.now
        return control.objection(newest if newest is None or now is None else newest.in_force_at(now), self._cluster)
