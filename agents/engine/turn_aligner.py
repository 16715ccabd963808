"""Cuts the logs of one partition into turns.

Every tick that counts is a turn: of each input it has the records from the end of the turn before up to the end that the tick
says. So a turn follows from the log alone: not from timing, batch sizes, or which worker asked. Nothing here reads a clock or a
broker.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R")


class Input(Generic[R]):
    """One topic of one partition: its records that no turn has taken yet. `next` is the offset that is wanted next."""

    __slots__ = ("next", "records", "size")

    def __init__(self, start: int) -> None:
        """Begin at offset `start`."""
        self.next = start
        self.records: deque[tuple[int, R, int]] = deque()
        self.size = 0
        """Bytes that are held here."""

    def add(self, offset: int, record: R, size: int, *, last: int | None = None) -> None:
        """Append a record; `last` is the last offset that it stands for, if that is not its own. Older ones are ignored."""
        # After a rebalance or a failed fetch a broker sends records once more.
        if offset >= self.next:
            self.next = (offset if last is None else last) + 1
            self.records.append((offset, record, size))
            self.size += size

    def skip_to(self, offset: int) -> None:
        """Everything before this offset has been read."""
        self.next = max(self.next, offset)

    def take(self, end: int) -> list[R]:
        """Hand over the records before an offset."""
        taken = []
        while self.records and self.records[0][0] < end:
            _, record, size = self.records.popleft()
            self.size -= size
            taken.append(record)
        return taken


@dataclass(frozen=True, slots=True)
class TurnRecords(Generic[R]):
    """One turn as it lies in the log: number, the records of each input in offset order, and the epoch of its tick's leader."""

    number: int
    records: Mapping[str, Sequence[R]]
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class TickEnds:
    """A tick as one task sees it: its number, its place in the log, the ends of the inputs that moved, and its leader's epoch."""

    number: int
    place: tuple[int, str]
    moved: Mapping[str, int]
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class Wait:
    """The turn of `tick` waits until each of `inputs` has been read up to its end."""

    inputs: tuple[str, ...]
    tick: int


class Aligner(Generic[R]):
    """Takes records of several inputs and ticks in any interleaving, and returns the turns that follow from the log."""

    __slots__ = ("inputs", "newest", "positions", "tick", "ticks", "turn")

    def __init__(self, positions: Mapping[str, int], turn: int = -1, tick: tuple[int, str] | None = None) -> None:
        """`positions`: for each input, in declared order, the end of `turn`, whose tick stands at the place `tick`."""
        self.turn, self.tick = turn, tick
        self.newest = turn
        """The number of the newest tick that came in."""
        self.positions = dict(positions)
        self.inputs: dict[str, Input[R]] = {topic: Input(start) for topic, start in positions.items()}
        self.ticks: deque[TickEnds] = deque()

    def take_tick(self, tick: TickEnds) -> None:
        """Take in a tick that counts. They have to come in order; those that were taken already are ignored."""
        if tick.number > self.newest:
            self.newest = tick.number
            self.ticks.append(tick)

    @property
    def size(self) -> int:
        """Bytes that are held of all inputs."""
        return sum([source.size for source in self.inputs.values()])

    @property
    def lacking(self) -> tuple[str, ...]:
        """The inputs that the next turn waits for; none while no tick is there."""
        if not self.ticks:
            return ()
        moved = self.ticks[0].moved
        # Read up to the end, which is not the same as a record having come: the last offsets before an end may hold nothing.
        return tuple(topic for topic, end in moved.items() if self.inputs[topic].next < end)

    def wanted(self, topic: str) -> int:
        """The offset up to which the next turn wants an input; what was read if no tick is there."""
        return self.ticks[0].moved.get(topic, 0) if self.ticks else 0

    def next_turn(self) -> TurnRecords[R] | None:
        """The next turn if it is complete."""
        if not self.ticks or self.lacking:
            return None
        tick = self.ticks.popleft()
        # In declared order, in which a stage takes its inputs, and not in that of the tick.
        records: dict[str, Sequence[R]] = dict.fromkeys(self.inputs, ())
        for topic, end in tick.moved.items():
            # A tick's end may lie before what this task began at, if it began in the middle of a log.
            self.positions[topic] = max(end, self.positions[topic])
            records[topic] = self.inputs[topic].take(end)
        self.turn, self.tick = tick.number, tick.place
        return TurnRecords(tick.number, records, tick.epoch)

    def waits(self) -> Wait | None:
        """What the next turn waits for; None while no tick is there, or it waits for nothing."""
        lacking = self.lacking
        return Wait(lacking, self.ticks[0].number) if lacking else None
