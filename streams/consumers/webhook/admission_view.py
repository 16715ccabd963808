"""What the webhook answers from: policies, recommendations and the control record, as the log says them.

A process that starts reads the compacted copies and the recommendations of the last heartbeats, so it has the present in a
moment; then it follows the log in a thread of its own. While the log is away, the answers rest on what was read before, and the
view's age says for how long. Other threads may ask at any time and never see half of a change.
"""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog

from schemas.units import Seconds
from streams.compacted_copy import read_present
from streams.consumers.executing.control_state import ControlState
from streams.consumers.executing.cursor import Cursor
from streams.consumers.webhook.review import Reviewer
from streams.decision_view import DecisionView, LatestDecision
from streams.errors import BadInput, LogUnavailable
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import offset_before_end

_BEATS = 3
"""Heartbeats of recommendations that are read: within one, every recommendation is published again."""
_WAIT = 0.5
"""Seconds that one look at the log waits for something new."""
_AGAIN = 1.0
"""Seconds until the log is asked again when it was away."""
_log = structlog.get_logger(__name__)

Latest = Callable[[str], LatestDecision | None]
"""The newest recommendation of a workload key."""


class AdmissionView:
    """The view of one cluster. `make` gets the recommendations and makes the reviewer; `heartbeat` is the recommender's.

    `ready` is called once, when the view has caught up. `clock` counts real seconds.
    """

    def __init__(
        self,
        context: LogContext,
        make: Callable[[Latest], Reviewer],
        *,
        heartbeat: Seconds,
        ready: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context, self._heartbeat, self._ready, self._clock = context, heartbeat, ready, clock
        self._decisions: DecisionView | None = None
        self._lock = threading.Lock()
        self.control = ControlState(context)
        self.reviewer = make(self._latest)
        self._next: dict[tuple[str, int], int] = {}
        self._heard, self._fault = clock(), ""
        self.caught_up = False
        """Whether everything that was in the log at the start has been read."""

    @property
    def age(self) -> float:
        """Real seconds since the log gave anything new; with a clock at work it gives a tick every moment."""
        return self._clock() - self._heard

    def catch_up(self, *, wait: float = 0.0) -> int:
        """Read to the end; how many records that were. Waits up to `wait` seconds for the first. Raises LogUnavailable."""
        count = 0 if self.caught_up else self._begin()
        while records := self._context.log.poll(self._next, wait=wait):
            self._apply_all(records)
            count += len(records)
            wait = 0.0
        return count

    def follow(self, stop: threading.Event) -> None:
        """Keep up with the log until told to stop."""
        while not stop.is_set():
            try:
                self.catch_up(wait=_WAIT)
                self._fault = ""
            except (LogUnavailable, BadInput) as error:  # topics that are not there yet may come
                if str(error) != self._fault:
                    _log.warning("the log cannot be read, answers rest on what was read", action="patch", error=str(error))
                self._fault = str(error)
                stop.wait(_AGAIN)

    def reasons(self) -> list[str]:
        """Why the view is not to be answered from; empty when it is."""
        why = f": {self._fault}" if self._fault else ""
        return [] if self.caught_up else [f"the policies and recommendations in the log were not read to their end yet{why}"]

    def _latest(self, workload: str) -> LatestDecision | None:
        with self._lock:
            return None if self._decisions is None else self._decisions.get(workload)

    def _begin(self) -> int:
        """From nothing to the present. After a failure it begins anew: to apply a record twice changes nothing."""
        log, topics = self._context.log, self._context.topics
        recommendations, policies = topics.wire("recommendations"), topics.wire("policies")
        if self._decisions is None:
            self._decisions = DecisionView(log, self._context.codec, recommendations)
        span = timedelta(seconds=_BEATS * self._heartbeat)
        places = [(recommendations, partition) for partition in range(topics.partitions)]
        self._next = {place: offset_before_end(log, *place, span) for place in places}
        count = 0
        for record in Cursor(log, dict(self._next)).catch_up():
            self._apply(record)
            count += 1
        for name, place in (("policies", (policies, 0)), ("control", self._context.cluster_partition("control"))):
            present = read_present(log, topics, name, place[1])
            for record in present:
                self._apply(record)
                count += 1
            self._next[place] = present.position
        self._heard, self.caught_up = self._clock(), True
        self._ready()
        return count

    def _apply_all(self, records: Sequence[Record]) -> None:
        for record in records:
            self._apply(record)
            self._next[record.topic, record.partition] = record.offset + 1
        self._heard = self._clock()

    def _apply(self, record: Record) -> None:
        """One record. A bad one changes nothing; the stages that read it, too, set it aside."""
        name = self._context.topics.short(record.topic)
        if name == "recommendations" and self._decisions is not None:
            self._next[record.topic, record.partition] = record.offset + 1
            with self._lock:
                self._decisions.apply(record)
        elif name.startswith("control"):
            self.control.apply(record)
        elif (event := self._context.codec.decode_or_none(record)) is not None:
            self.reviewer.apply(event, record.place)
