"""The view that the metrics API answers from: autoscalers and forecasts in the log.

A starting process reads the policies in force, and the forecasts that may still be valid: twice the longest window that any
policy asks for. Then it follows the log in a thread of its own.
"""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from schemas.catalogue import Event
from schemas.decisions.replica_plans import LoadForecast
from schemas.units import Seconds
from streams.consumers import forecast_lookback
from streams.consumers.executing.log_follower import LogFollower
from streams.decision_view import DecisionView
from streams.log.log_port import Record
from streams.log_context import LogContext


class PolicyIndex(Protocol):
    """Collects policies for the code that answers."""

    def apply(self, event: Event) -> None:
        """Take in one event of `policies`."""


class MetricsView(LogFollower):
    """The view of one cluster. `clock` counts real seconds."""

    def __init__(self, context: LogContext, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(context, action="metrics", reads="policies and forecasts", clock=clock)
        self._index: PolicyIndex | None = None
        self._forecasts: DecisionView | None = None
        self._lock = threading.Lock()
        self._longest = Seconds(0.0)

    def feed(self, index: PolicyIndex) -> None:
        """Set where policies go, before the log is read."""
        self._index = index

    def latest(self, key: str) -> LoadForecast | None:
        """The newest forecast for the object with this key. Any thread may ask."""
        with self._lock:
            newest = None if self._forecasts is None else self._forecasts.get(key)
        return newest.decision if newest is not None and isinstance(newest.decision, LoadForecast) else None

    def _begin(self) -> int:
        log, topics = self._context.log, self._context.topics
        forecasts = topics.wire("load-forecasts")
        if self._forecasts is None:
            self._forecasts = DecisionView(log, self._context.codec, forecasts)
        count = self._read_present("policies", (topics.wire("policies"), 0))
        with self._forecasts.newest_first():
            # After the policies, which say how far back a forecast may lie.
            return count + self._read_last(forecasts, forecast_lookback.span(self._longest))

    def _apply(self, record: Record) -> None:
        if self._context.topics.short(record.topic) == "load-forecasts":
            if self._forecasts is not None:
                with self._lock:
                    self._forecasts.apply(record)
        elif (event := self._context.codec.decode_or_none(record)) is not None and self._index is not None:
            self._index.apply(event)
            self._longest = max(self._longest, forecast_lookback.window(event))
