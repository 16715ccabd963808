"""The view that the webhook answers from: policies, recommendations and the control record in the log.

A starting process reads the compacted copies and the recommendations of the last heartbeats, which takes a moment; then it
follows the log in a thread of its own. While the log is away, the answers rest on what was read before, and the view's age says
for how long. Other threads may ask at any time and never see half of a change.
"""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from schemas.units import Seconds
from streams.consumers.executing.control_state import ControlState
from streams.consumers.executing.log_follower import LogFollower
from streams.consumers.webhook.review import Reviewer
from streams.decision_view import DecisionView, LatestDecision
from streams.log.log_port import Record
from streams.log_context import LogContext

_BEATS = 3
"""Heartbeats of recommendations that are read: within one, every recommendation is published again."""

FindRecommendation = Callable[[str], LatestDecision | None]
"""The newest recommendation of a workload key."""


class AdmissionView(LogFollower):
    """The view of one cluster. `make` gets the recommendations and makes the reviewer; `heartbeat` is the recommender's.

    `ready` is called once, when the view has caught up. `clock` counts real seconds.
    """

    def __init__(
        self,
        context: LogContext,
        make: Callable[[FindRecommendation], Reviewer],
        *,
        heartbeat: Seconds,
        ready: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(context, action="patch", reads="policies and recommendations", clock=clock)
        self._heartbeat, self._ready = heartbeat, ready
        self._decisions: DecisionView | None = None
        self._lock = threading.Lock()
        self.control = ControlState(context)
        self.reviewer = make(self._latest)

    def _latest(self, workload: str) -> LatestDecision | None:
        with self._lock:
            return None if self._decisions is None else self._decisions.get(workload)

    def _begin(self) -> int:
        log, topics = self._context.log, self._context.topics
        recommendations = topics.wire("recommendations")
        if self._decisions is None:
            self._decisions = DecisionView(log, self._context.codec, recommendations)
        with self._decisions.newest_first():
            count = self._read_last(recommendations, timedelta(seconds=_BEATS * self._heartbeat))
        count += self._read_present("policies", (topics.wire("policies"), 0))
        count += self._read_present("control", self._context.cluster_partition("control"))
        self._ready()
        return count

    def _apply(self, record: Record) -> None:
        name = self._context.topics.short(record.topic)
        if name == "recommendations" and self._decisions is not None:
            with self._lock:
                self._decisions.apply(record)
        elif name.startswith("control"):
            self.control.apply(record)
        elif (event := self._context.codec.decode_or_none(record)) is not None:
            self.reviewer.apply(event, record.place)
