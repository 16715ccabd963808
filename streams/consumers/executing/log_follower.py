"""Keeps a server's view up to date with the log: reads the present state once, then follows in a thread of its own.

While the log is away, the answers rest on what was read before, and `age` says for how long. Subclasses say what to read and what
to do with each record.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta

import structlog

from streams import reverse_log_reader
from streams.compacted_copy import read_present
from streams.consumers.executing.control_state import TickSilence
from streams.errors import BadInput, LogUnavailable
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import offset_before_end

_WAIT = 0.5
"""Seconds that one look at the log waits for something new."""
_PATIENCE = 5.0
"""Seconds to wait for a record that the log says it has."""
_AGAIN = 1.0
"""Seconds until the log is asked again when it was away."""
_log = structlog.get_logger(__name__)


class LogFollower(ABC):
    """`action` is what the answers are for, in log lines; `reads` what has to be read first. `clock` counts real seconds."""

    def __init__(self, context: LogContext, *, action: str, reads: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._action, self._reads, self._clock = context, action, reads, clock
        self._next: dict[tuple[str, int], int] = {}
        self._heard, self._fault = clock(), ""
        self._silence = TickSilence(clock)
        self.caught_up = False
        """Whether everything that was in the log at the start has been read."""

    @property
    def age(self) -> float:
        """Real seconds since the log delivered anything new; a running clock appends ticks all the time."""
        return self._clock() - self._heard

    def silence(self) -> list[str]:
        """Why answers may be old, although they are still given: a running clock appends ticks all the time."""
        return self._silence.reasons_once_heard()

    def reasons(self) -> list[str]:
        """Why this view must not answer yet; empty when it may."""
        why = f": {self._fault}" if self._fault else ""
        return [] if self.caught_up else [f"the {self._reads} in the log were not read to their end yet{why}"]

    def catch_up(self, *, wait: float = 0.0) -> int:
        """Read to the end; how many records that were. Raises LogUnavailable.

        With `wait`, up to so many seconds until something comes, and no further than that.
        """
        count = 0
        if not self.caught_up:
            self._next |= self._silence.begin(self._context.log, self._context.topics)
            count = self._begin()
            self._heard, self.caught_up = self._clock(), True
        # Where ticks stay away, the clock's topic may have lost its end, and an offset beyond the end would never be reached.
        self._next |= self._silence.begin_again(self._context.log, self._context.topics)
        while records := self._context.log.poll(self._next, wait=wait):
            for record in records:
                self._take(record)
            self._heard = self._clock()
            count += len(records)
            # That nothing is left costs another question, and the next round finds out by waiting.
            if wait:
                break
        return count

    def follow(self, stop: threading.Event) -> None:
        """Keep up with the log until told to stop."""
        while not stop.is_set():
            try:
                self.catch_up(wait=_WAIT)
                self._fault = ""
            except (LogUnavailable, BadInput) as error:  # missing topics may still be created
                if not self._fault and isinstance(error, BadInput):  # the process itself logs that the log is away
                    _log.warning("the log cannot be read, answers rest on what was read", action=self._action, error=str(error))
                # Not an end of the process: answers from what was read are better than none.
                self._fault = str(error)
                stop.wait(_AGAIN)

    @abstractmethod
    def _begin(self) -> int:
        """Read the present state; how many records. After a failure it starts over, because a repeated record changes nothing."""

    @abstractmethod
    def _apply(self, record: Record) -> None:
        """Take in one record. A bad one changes nothing, as the stages that read it, too, set it aside."""

    def _read_present(self, name: str, place: tuple[str, int]) -> int:
        """Read the present state of a topic that has a compacted copy, to be followed from there; how many records."""
        present = read_present(self._context.log, self._context.topics, name, place[1])
        count = 0
        for record in present:
            self._apply(record)
            count += 1
        self._next[place] = present.position
        return count

    def _read_last(self, wire: str, span: timedelta) -> int:
        """Read the last `span` of event time of a topic, to be followed from there; how many records."""
        log = self._context.log
        places = [(wire, partition) for partition in range(self._context.topics.partitions)]
        ranges = {place: (offset_before_end(log, *place, span), log.end(*place)) for place in places}
        count = 0
        for record in reverse_log_reader.backwards(log, ranges):  # a view of the newest need not decode what comes later here
            self._take(record)
            count += 1
        self._next.update({place: end for place, (_, end) in ranges.items()})
        return count

    def _read_since(self, name: str, span: timedelta) -> int:
        """Read the last `span` of event time of the cluster's partition of a topic, the oldest first; how many records."""
        log, place = self._context.log, self._context.cluster_partition(name)
        self._next[place] = offset_before_end(log, *place, span)
        count, end = 0, log.end(*place)
        while self._next[place] < end and (records := log.poll({place: self._next[place]}, wait=_PATIENCE)):
            for record in records:
                self._take(record)
            count += len(records)
        return count

    def _read_newest(self, wire: str, span: timedelta) -> int:
        """As `_read_last`, but of each key only the newest record; how many these are."""
        log = self._context.log
        places = [(wire, partition) for partition in range(log.partitions(wire))]
        ranges = {place: (offset_before_end(log, *place, span), log.end(*place)) for place in places}
        newest: dict[bytes | None, Record] = {}
        for record in reverse_log_reader.backwards(log, ranges):
            newest.setdefault(record.key, record)
        for record in newest.values():
            self._apply(record)
        self._next.update({place: end for place, (_, end) in ranges.items()})
        return len(newest)

    def _take(self, record: Record) -> None:
        if not self._silence.take(record):
            self._apply(record)
        self._next[record.topic, record.partition] = record.offset + 1
