"""Follows `control` for one cluster: whether anything may be done there now, and the event time.

The newest ControlChanged of the cluster is in force; without one nothing is allowed, because the default mode is shadow. Event
time is the newest tick; before the first tick there is no time, and nothing is allowed either.
"""

from datetime import datetime

from schemas import times
from schemas.policies import control
from schemas.policies.control import ControlChanged
from streams import compacted_copy
from streams.consumers.executing.cursor import Cursor
from streams.consumers.executing.tick_silence import TickSilence
from streams.log.log_port import Record
from streams.log_context import LogContext


class ControlState:
    """The control record in force and the time, for the context's cluster. `catch_up` reads; the rest answers from memory."""

    def __init__(self, context: LogContext) -> None:
        self.silence = TickSilence()
        self._cluster, self._codec = context.cluster, context.codec
        self._context = context.reopened()
        self._cursor: Cursor | None = None
        self._control: ControlChanged | None = None
        self._tick = -1

    @property
    def now(self) -> datetime | None:
        """Event time; None before the first tick."""
        return None if self._tick < 0 else times.from_ms(self._tick)

    def catch_up(self) -> None:
        """Read `control` to its end: the present state at first, later what was appended. Raises LogUnavailable."""
        if self._cursor is None:
            log, place = self._context.log, self._context.cluster_partition("control")
            present = compacted_copy.read_present(log, self._context.topics, "control", place[1])
            for record in present:
                self.apply(record)
            self._cursor = Cursor(log, {place: present.position})
        for record in self._cursor.catch_up():
            self.apply(record)

    def apply(self, record: Record) -> None:
        """Take in one record of `control`. A bad one changes nothing; the stages that read it too set it aside."""
        tick = self.silence.take(record, before=self._tick)
        if tick is not None:
            self._tick = tick
            return
        event = self._codec.decode_or_none(record)
        if isinstance(event, ControlChanged) and event.cluster == self._cluster:
            self._control = event

    def objection(self) -> str | None:
        """Why nothing may be done now, as a sentence; None when acting is allowed."""
        return control.objection(self._control, self._cluster)
