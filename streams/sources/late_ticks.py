"""The ticks that a clock makes up for where so much came while none ticked that one turn of it would fill a worker's memory.

A tick made up for has a time of before, and the ends that partitions had then, by the times at which the log took their
records. Where less came, one tick names it all, however long no clock ticked.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streams import log_range
from streams.clock_rules import Counted, TimeBase
from streams.log.log_port import Log, LogEnd
from streams.topics import Topics

MOST = 20_000
"""Records of a partition of which one tick names no more, unless they came within one period."""
MOST_OF_COLUMNS = 200
"""The same for records of usage, which hold a thousand rows each."""
COLUMNS = frozenset({"pod-metrics", "load-metrics"})
BEFORE_FACTS_MS = 60_000
"""How much more of policies, rules and control is named, because brokers' times differ."""

Ends = Mapping[tuple[str, int], LogEnd]


@dataclass(frozen=True, slots=True)
class LateTick:
    """A tick of before: its number, and the ends of all partitions at its time."""

    number: int
    ends: Ends


class LateTicks:
    """How a clock of this period and time makes up for ticks. `sooner` are topics (short names) that no turn may lack."""

    def __init__(self, log: Log, topics: Topics, period_ms: int, base: TimeBase, sooner: Collection[str]) -> None:
        """Asks nothing yet."""
        self._log, self._topics, self._period, self._base, self._sooner = log, topics, period_ms, base, sooner

    def due(self, number: int, ends: Ends, counted: Counted) -> LateTick | None:
        """The tick before `number` up to which enough came since what counted; None if one tick can name everything.

        Raises LogUnavailable.
        """
        full = self._full(ends, counted)
        if not full:
            return None
        low, high = max(counted.number, 0) // self._period + 1, number // self._period
        while low < high:
            middle = (low + high + 1) // 2
            came = self._taken(full, middle * self._period)
            low, high = (low, middle - 1) if any(came.get(at, math.inf) > most for at, most in full.items()) else (middle, high)
        # The turn is then about the one that would have been: nothing seems silent or late that was not.
        late = low * self._period
        if late >= number:
            return None
        # No turn may lack a policy, a rule or a pause from before its facts, so more of these is named.
        facts = [at for at in ends if at[0] not in self._sooner]
        rest = [at for at in ends if at[0] in self._sooner]
        then = self._taken(facts, late) | self._taken(rest, late, further_ms=BEFORE_FACTS_MS)
        return LateTick(late, {at: end._replace(offset=min(then.get(at, end.offset), end.offset)) for at, end in ends.items()})

    def _full(self, ends: Ends, counted: Counted) -> dict[tuple[str, int], int]:
        """The partitions of which one tick cannot name everything, and up to where it can."""
        full = {}
        for (name, partition), end in ends.items():
            most, begin = MOST_OF_COLUMNS if name in COLUMNS else MOST, counted.end(name, partition)
            if end.offset - begin > most:
                # What retention has removed in the meantime costs a worker nothing.
                begin = max(begin, self._log.begin(self._topics.wire(name), partition))
                if end.offset - begin > most:
                    full[name, partition] = begin + most
        return full

    def _taken(self, some: Collection[tuple[str, int]], number: int, *, further_ms: int = 0) -> dict[tuple[str, int], int]:
        """Up to which offset the log had taken records at the time of a tick, of those partitions that have later ones."""
        wires = {(self._topics.wire(name), partition): (name, partition) for name, partition in some}
        at_ms = max(0, int(self._base.wall(number))) + further_ms
        return {wires[place]: offset for place, offset in log_range.offsets_taken_at(self._log, wires, at_ms).items()}
