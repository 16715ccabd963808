"""Cuts the logs of one partition into turns.

Turn n exists if and only if every input holds tick n; the next turn is the smallest such n above the last. A tick that some input
lacks is ignored, and its records join the next turn. So a turn follows from the log alone: not from timing, batch sizes, or which
worker asked. Nothing here reads a clock or a broker.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")

SEGMENT_BYTES = 200
"""What a segment takes without its records; an input that nothing but ticks comes into grows, too, while others wait."""


@dataclass(slots=True)
class Segment(Generic[R]):
    """Records up to a tick; `end` is the offset after the tick."""

    tick: int
    end: int
    records: list[R]
    size: int

    def absorb(self, later: "Segment[R]") -> None:
        """Become one segment up to the tick of `later`. The cost depends on the length of `later` alone."""
        self.tick, self.end = later.tick, later.end
        self.records += later.records
        self.size += later.size


class Input(Generic[R]):
    """One topic of one partition: its records in segments, the last of them still open."""

    __slots__ = ("closed", "highest", "next", "open", "open_size", "size")

    def __init__(self, start: int, turn: int) -> None:
        """Begin at offset `start`, after the tick of `turn`."""
        self.next = start
        self.highest = turn
        self.closed: deque[Segment[R]] = deque()
        self.open: list[R] = []
        self.open_size = 0
        self.size = 0

    def add(self, offset: int, record: R, size: int) -> None:
        """Append a record that is not a tick."""
        self.next = offset + 1
        self.open.append(record)
        self.open_size += size
        self.size += size

    def tick(self, offset: int, number: int) -> None:
        """Close the open segment. A tick that is not above all earlier ones is ignored."""
        self.next = offset + 1
        if number > self.highest:
            self.highest = number
            self.closed.append(Segment(number, offset + 1, self.open, self.open_size))
            self.open, self.open_size = [], 0

    def skip(self, offset: int) -> None:
        """Skip a record that does not count."""
        self.next = offset + 1

    def forget_open(self) -> None:
        """Drop the records of the open segment; the caller will read them again."""
        self.size -= self.open_size
        self.open, self.open_size = [], 0

    @property
    def buffered(self) -> int:
        """Bytes that are held here: records, and the segments that they are in."""
        return self.size + SEGMENT_BYTES * len(self.closed)

    def drop_below(self, number: int) -> None:
        """Take away ticks below `number`: their records join the segment that follows."""
        if not self.closed or self.closed[0].tick >= number:
            return
        kept = self.closed.popleft()
        while self.closed and self.closed[0].tick < number:
            kept.absorb(self.closed.popleft())
        if self.closed:
            kept.absorb(self.closed.popleft())
            self.closed.appendleft(kept)
        else:
            kept.records += self.open
            self.open, self.open_size = kept.records, kept.size + self.open_size

    def pop(self) -> Segment[R]:
        """Hand over the first closed segment."""
        head = self.closed.popleft()
        self.size -= head.size
        return head


@dataclass(frozen=True, slots=True)
class TurnRecords(Generic[R]):
    """One turn as it lies in the log: number, and the records of each input in offset order."""

    number: int
    records: Mapping[str, Sequence[R]]


@dataclass(frozen=True, slots=True)
class Wait:
    """The next turn waits until each of `inputs` has a tick that is not below `tick`. `leading` are those that have it."""

    inputs: tuple[str, ...]
    tick: int
    leading: tuple[str, ...] = ()


class Aligner(Generic[R]):
    """Takes records of several inputs in any interleaving and returns the turns that follow from the log."""

    __slots__ = ("_lacking", "inputs", "positions", "turn")

    def __init__(self, positions: Mapping[str, int], turn: int = -1) -> None:
        """`positions`: for each input, in declared order, the offset after the tick of `turn`."""
        self.turn = turn
        self.positions = dict(positions)
        self.inputs: dict[str, Input[R]] = {topic: Input(start, turn) for topic, start in positions.items()}
        self._lacking = next(iter(self.inputs.values()), None)

    @property
    def lacks_a_tick(self) -> bool:
        """Whether some input has no tick yet, so that no turn is complete.

        It is asked at each tick of each input, so the input that lacked one the last time is looked at first.
        """
        if self._lacking is not None and not self._lacking.closed:
            return True
        self._lacking = next((i for i in self.inputs.values() if not i.closed), None)
        return self._lacking is not None

    def next_turn(self) -> TurnRecords[R] | None:
        """The next complete turn, or None while some input has not reached it."""
        inputs = self.inputs.values()
        while not self.lacks_a_tick:
            ticks = {i.closed[0].tick for i in inputs}
            number = max(ticks)
            if len(ticks) == 1:
                return self._cut(number)
            for i in inputs:
                i.drop_below(number)
        return None

    def _cut(self, number: int) -> TurnRecords[R]:
        records = {}
        for topic, i in self.inputs.items():
            segment = i.pop()
            self.positions[topic] = segment.end
            records[topic] = segment.records
        self.turn = number
        return TurnRecords(number, records)

    def waits(self) -> Wait | None:
        """What the next turn waits for; None while no input is ahead of another."""
        ahead = [i.closed[0].tick for i in self.inputs.values() if i.closed]
        if not ahead:
            return None
        wanted = max(ahead)
        lacking = tuple(topic for topic, i in self.inputs.items() if not i.closed or i.closed[-1].tick < wanted)
        if not lacking:
            return None
        leading = tuple(topic for topic, i in self.inputs.items() if i.closed and i.closed[0].tick == wanted)
        return Wait(lacking, wanted, leading)

    def waits_for(self) -> set[str]:
        """Inputs without a closed segment: the turn cannot be taken before they get a tick. These are never paused."""
        return {topic for topic, i in self.inputs.items() if not i.closed}
