"""Follows `control` for one cluster: whether anything may be done there now, and the event time.

The newest ControlChanged of the cluster is in force; without one nothing is allowed, because the default mode is shadow. Event
time is the newest tick that counts; before the first tick there is no time, and nothing is allowed either.
"""

from datetime import datetime

from schemas.policies import control
from schemas.policies.control import ControlChanged
from streams import compacted_copy
from streams.consumers.executing.cursor import Cursor
from streams.consumers.executing.tick_silence import TickSilence
from streams.log.log_port import Record
from streams.log_context import LogContext


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
