"""The loop under every consumer that acts: append what came of the last round, read the log, act, until told to stop.

A rate limit delays requests and never refuses one.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext

from schemas.catalogue import Event
from schemas.names import Place
from streams import refused_records
from streams.consumers.executing.holder_lease import HolderLease
from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord
from streams.log_context import LogContext

IDLE = 0.2
"""Seconds between looks at the log while there is something to carry out."""
AT_REST = 0.5  # a look is three questions to Kafka, 3 ms of CPU, and decisions come with turns
"""The same while there is nothing."""
_WHOLE = 4
"""Of so many looks at rest one reads everything, the clock and `control` with it; the others ask whether there are decisions."""
_LOG_AGAIN = 1.0
"""Seconds until the log is asked again when it was away."""


def encode_outcome(context: LogContext, outcome: Event, *, source: str, cause: tuple[Place, ...] = ()) -> NewRecord:
    """The record of an outcome in `outcomes`, in the partition of the context's cluster."""
    partition = context.topics.partition_of(context.cluster)
    return context.codec.encode(outcome, topic="outcomes", key=context.cluster, partition=partition, source=source, cause=cause)


class ActingConsumer(ABC):
    """It only reads while another instance holds the `lease`, if there is one, which it renews under the name `renews_as`."""

    def __init__(self, context: LogContext, lease: HolderLease | None, *, renews_as: str = "") -> None:
        self._context, self._lease, self._renews_as = context, lease, renews_as
        self._unpublished: list[NewRecord] = []

    @abstractmethod
    def poll_once(self) -> int:
        """Read the log to its end and do what is due; how many outcomes were appended. Raises LogUnavailable."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, then give back the Lease that it renews. While the log is away nothing is done."""
        looks = 0
        with self._lease.renewed(self._renews_as) if self._lease is not None and self._renews_as else nullcontext():
            while not stop.is_set():
                looks += 1
                try:
                    news = self._news
                    if looks % _WHOLE == 0 or news is None or news():
                        self.poll_once()
                except LogUnavailable:  # the process logs that once for all that it runs
                    stop.wait(_LOG_AGAIN)
                stop.wait(self._pause)

    @property
    def _pause(self) -> float:
        """Seconds until the next look at the log."""
        return IDLE if self._news is None else AT_REST

    @property
    def _news(self) -> Callable[[], bool] | None:
        """Asks the log for work where there is none to do; None where more than that counts. Raises LogUnavailable."""
        return None

    @property
    def _may_act(self) -> bool:
        return self._lease is None or self._lease.held

    def _flush(self) -> int:
        """Append what is not in the log yet; how many outcomes."""
        if self._unpublished:  # LogUnavailable leaves them here, and nothing else is begun until the log has them
            refused_records.append(self._context.log, self._context.topics, self._unpublished)
        published, self._unpublished = self._unpublished, []
        return sum(record.topic == self._context.topics.wire("outcomes") for record in published)


class RateLimit:
    """`rate` requests a second in the long run, and `burst` at once after a pause. Threads may share it."""

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gap, self._rest = 1.0 / rate, burst / rate
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._granted = float("-inf")
        """The time up to which requests have been granted, one for each gap."""

    def wait(self) -> None:
        """Sleep until the next request may go out."""
        with self._lock:
            now = self._clock()
            # A pause saves up at most a burst, however long it was.
            self._granted = max(self._granted, now - self._rest) + self._gap
            delay = self._granted - now
        if delay > 0:  # outside of the lock, so that others learn their own turns meanwhile
            self._sleep(delay)
