"""What the metrics API answers from: autoscalers and forecasts, as the log says them.

A process that starts reads the policies in force, and of the forecasts as much as may still hold: twice the longest window that
any policy asks for. Then it follows the log in a thread of its own. While the log is away, the answers rest on what was read
before; a forecast expires by itself, so no answer is older than it says.
"""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

import structlog

from schemas.catalogue import Event
from schemas.decisions.forecasts import LoadForecast
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.time_series_prediction import TimeSeriesPredictionChanged
from streams.compacted_copy import read_present
from streams.consumers.executing.cursor import Cursor
from streams.decision_view import DecisionView
from streams.errors import BadInput, LogUnavailable
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import offset_before_end

_LEAST = timedelta(hours=2)
"""How far back forecasts are read at least ..."""
_MOST = timedelta(days=3)
"""... and at most, however long a window is."""
_WAIT = 0.5
"""Seconds that one look at the log waits for something new."""
_AGAIN = 1.0
"""Seconds until the log is asked again when it was away."""
_log = structlog.get_logger(__name__)


class PolicyIndex(Protocol):
    """Takes in policies; whoever answers finds them there."""

    def apply(self, event: Event) -> None:
        """Take in one event of `policies`."""


class MetricsView:
    """The view of one cluster. `clock` counts real seconds."""

    def __init__(self, context: LogContext, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._clock = context, clock
        self._index: PolicyIndex | None = None
        self._forecasts: DecisionView | None = None
        self._lock = threading.Lock()
        self._next: dict[tuple[str, int], int] = {}
        self._longest = 0.0
        self._heard, self._fault = clock(), ""
        self.caught_up = False
        """Whether everything that was in the log at the start has been read."""

    def feed(self, index: PolicyIndex) -> None:
        """Where policies go; to be told before the log is read."""
        self._index = index

    @property
    def age(self) -> float:
        """Real seconds since the log gave anything new; with a clock at work it gives a tick every moment."""
        return self._clock() - self._heard

    def latest(self, key: str) -> LoadForecast | None:
        """The newest forecast for the object with this key. Any thread may ask."""
        with self._lock:
            found = None if self._forecasts is None else self._forecasts.get(key)
        return found.decision if found is not None and isinstance(found.decision, LoadForecast) else None

    def reasons(self) -> list[str]:
        """Why the view is not to be answered from; empty when it is."""
        why = f": {self._fault}" if self._fault else ""
        return [] if self.caught_up else [f"the policies and forecasts in the log were not read to their end yet{why}"]

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
                    _log.warning("the log cannot be read, answers rest on what was read", action="metrics", error=str(error))
                self._fault = str(error)
                stop.wait(_AGAIN)

    def _begin(self) -> int:
        """From nothing to the present. After a failure it begins anew: to apply a record twice changes nothing."""
        log, topics = self._context.log, self._context.topics
        policies, forecasts = (topics.wire("policies"), 0), topics.wire("load-forecasts")
        if self._forecasts is None:
            self._forecasts = DecisionView(log, self._context.codec, forecasts)
        count = 0
        present = read_present(log, topics, "policies", 0)
        for record in present:
            self._apply(record)
            count += 1
        span = min(max(timedelta(seconds=2 * self._longest), _LEAST), _MOST)
        places = [(forecasts, partition) for partition in range(topics.partitions)]
        self._next = {place: offset_before_end(log, *place, span) for place in places}
        for record in Cursor(log, dict(self._next)).catch_up():
            self._apply(record)
            count += 1
        self._next[policies] = present.position
        self._heard, self.caught_up = self._clock(), True
        return count

    def _apply_all(self, records: Sequence[Record]) -> None:
        for record in records:
            self._apply(record)
            self._next[record.topic, record.partition] = record.offset + 1
        self._heard = self._clock()

    def _apply(self, record: Record) -> None:
        """One record. A bad one changes nothing; the stage that reads policies, too, sets it aside."""
        if self._context.topics.short(record.topic) == "load-forecasts":
            self._next[record.topic, record.partition] = record.offset + 1
            if self._forecasts is not None:
                with self._lock:
                    self._forecasts.apply(record)
        elif (event := self._context.codec.decode_or_none(record)) is not None and self._index is not None:
            self._index.apply(event)
            self._longest = max(self._longest, _window(event))


def _window(event: Event) -> float:
    """How far ahead a policy asks for forecasts, in seconds."""
    match event:
        case EhpaChanged(prediction=asked) if asked is not None:
            return float(asked.window_seconds or 0)
        case TimeSeriesPredictionChanged(window_seconds=window):
            return float(window or 0)
        case _:
            return 0.0
