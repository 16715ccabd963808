"""Runs a list of stages over a log in one process: reads records, takes turns, and appends the results.

This is the core of every driver without Faust. Backtest, simulate and verify only differ in where the records come from and what
happens to the decisions. The runner keeps no checkpoint and reads no clock; it takes a turn once the log holds all of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agents.engine.stage import Stage
from agents.engine.turn import State
from agents.run.partition_task import SharedRecord, Task, TurnResult
from streams import refused_records
from streams.log.log_port import Positions
from streams.log_context import LogContext

AHEAD = 32 << 20
"""Bytes that one input of one task may buffer while the turn waits for another input."""


@dataclass(frozen=True, slots=True)
class TaskStart:
    """Where a task begins: after `turn`, at `positions` (short topic name to offset), with `state`."""

    turn: int
    positions: Mapping[str, int]
    state: State


@dataclass(slots=True)
class _Reader:
    """One input of one task; `next` is the offset it wants."""

    task: Task
    name: str
    next: int


@dataclass(slots=True)
class Runner:
    """All partitions of `stages`. A task without an entry in `starts` begins at the first offset, with an empty state."""

    stages: Sequence[Stage]
    context: LogContext
    starts: Mapping[tuple[str, int], TaskStart] = field(default_factory=dict)
    until: Positions | None = None
    """Read no further than this; to the end when None."""
    only: Sequence[int] | None = None
    """These partitions; all when None."""
    tasks: list[Task] = field(init=False)
    _readers: dict[tuple[str, int], list[_Reader]] = field(init=False)

    def __post_init__(self) -> None:
        """Open every task."""
        partitions = range(self.context.topics.partitions) if self.only is None else self.only
        self.tasks = [self._open(stage, p) for stage in self.stages for p in partitions]
        self._readers = {}
        for task in self.tasks:
            for name, position in task.positions.items():
                readers = self._readers.setdefault((self.context.topics.wire(name), task.partition), [])
                readers.append(_Reader(task, name, position))

    def _open(self, stage: Stage, partition: int) -> Task:
        begin = {n: self.context.log.begin(self.context.topics.wire(n), partition) for n in stage.reads}
        start = self.starts.get((stage.name, partition)) or TaskStart(-1, begin, stage.open(partition))
        return Task(
            stage,
            partition,
            topics=self.context.topics,
            codec=self.context.codec,
            positions=start.positions,
            turn=start.turn,
            state=start.state,
        )

    def run(self) -> list[TurnResult]:
        """Take every turn that the log holds and append the results, until the log holds no further turn."""
        all_taken = []
        while self.read():
            taken = [taken for _, taken in self.turns()]
            records = [record for t in taken for record in t.published]
            refused_records.append(self.context.log, self.context.topics, records)
            all_taken += taken
        return all_taken

    def read(self, limit: int = 10_000) -> bool:
        """Feed the tasks a stretch of the log. Returns False when the log has nothing more that a turn waits for."""
        records = self.context.log.poll(self._wanted(), limit=limit)
        for record in records:
            readers = self._readers[record.topic, record.partition]
            shared = SharedRecord.of(record) if len(readers) > 1 else record
            for reader in readers:
                if record.offset >= reader.next:
                    reader.task.feed(reader.name, shared)
                    reader.next = record.offset + 1
        return bool(records)

    def turns(self) -> Iterator[tuple[Task, TurnResult]]:
        """Every turn that is complete now: stages as listed, partitions in order, turns in order."""
        for task in self.tasks:
            while (taken := task.next_turn()) is not None:
                yield task, taken

    def _wanted(self) -> dict[tuple[str, int], int]:
        """The offsets to read at. Reading pauses for an input that is far ahead, but never for one that a turn waits for."""
        wanted = {}
        for place, readers in self._readers.items():
            hungry = [r.next for r in readers if _hungry(r)]
            if hungry and (self.until is None or min(hungry) < self.until[place]):
                wanted[place] = min(hungry)
        return wanted


def _hungry(reader: _Reader) -> bool:
    source = reader.task.aligner.inputs[reader.name]
    return source.buffered < AHEAD or not source.closed
