"""Runs a list of stages over a log in one process: reads records, takes turns, and appends the results.

This is the core of every driver without Faust. Backtest, simulate and verify only differ in where the records come from and what
happens to the decisions. The runner keeps no checkpoint and reads no clock; it takes a turn once the log holds all of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agents.engine.stage import Stage
from agents.engine.turn import State
from agents.run.partition_task import SharedRecord, Task, TurnResult
from streams import clock_log, refused_records
from streams.clock_log import ClockReader
from streams.clock_rules import Tick
from streams.log.log_port import TopicAndPartition
from streams.log_context import LogContext

_TICKS = 1_000
"""Ticks that are read ahead of the tasks' turns."""


@dataclass(frozen=True, slots=True)
class TaskStart:
    """Where a task begins: after `turn` with its `tick`, at `positions` (short topic name to offset), with `state`."""

    turn: int
    positions: Mapping[str, int]
    state: State
    tick: tuple[int, str] | None = None


@dataclass(slots=True)
class _Reader:
    """One input of one task."""

    task: Task
    name: str

    @property
    def next(self) -> int:
        """The offset that it wants."""
        return self.task.aligner.inputs[self.name].next

    @property
    def wants(self) -> bool:
        """Whether the next turn waits for records of it."""
        return self.next < self.task.aligner.wanted(self.name)


@dataclass(slots=True)
class Runner:
    """All partitions of `stages`. A task without an entry in `starts` begins at the first offset, with an empty state."""

    stages: Sequence[Stage]
    context: LogContext
    starts: Mapping[tuple[str, int], TaskStart] = field(default_factory=dict)
    last_turn: int | None = None
    """Take no turn after this; all that the log has when None."""
    only: Sequence[int] | None = None
    """These partitions; all when None."""
    tasks: list[Task] = field(init=False)
    _readers: dict[tuple[str, int], list[_Reader]] = field(init=False)
    _clock: ClockReader = field(init=False)

    def __post_init__(self) -> None:
        """Open every task."""
        for stage in self.stages:
            stage.require(self.context.topics.partitions)
        partitions = range(self.context.topics.partitions) if self.only is None else self.only
        self.tasks = [self._open(stage, p) for stage in self.stages for p in partitions]
        self._readers = {}
        for task in self.tasks:
            for name in task.positions:
                readers = self._readers.setdefault((self.context.topics.wire(name), task.partition), [])
                readers.append(_Reader(task, name))
        log, topics = self.context.log, self.context.topics
        marked = [task.tick for task in self.tasks]
        first = min((tick[0] for tick in marked if tick is not None), default=0)
        # A task that starts at a mark needs the tick of that mark, from which the names of the following ticks go on.
        start = clock_log.first_counted(log, topics) if None in marked else clock_log.counted(log, topics, before=first + 1)
        self._clock = ClockReader(log, topics, start)
        if start.last is not None:
            self._give(start.last)

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
            tick=start.tick,
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
        """Feed the tasks ticks, and a stretch of the log. Returns False when the log has no further turn."""
        ticks = [] if all(task.aligner.ticks for task in self.tasks) else self._clock.catch_up(most=_TICKS)
        for tick in ticks:
            self._give(tick)
        wanted = self._wanted()
        records = self.context.log.poll(wanted, limit=limit) if wanted else ()
        for record in records:
            readers = self._readers[record.topic, record.partition]
            # Reading a record is most of what a turn costs, so several stages share it.
            shared = SharedRecord.of(record) if len(readers) > 1 else record
            for reader in readers:
                reader.task.feed(reader.name, shared)
        came = {(record.topic, record.partition) for record in records}
        # A place that brought nothing holds nothing, or the poll was full of others' records.
        moved = [self._skip_nothing(place) for place in wanted if place not in came] if len(came) < len(wanted) else []
        return bool(records) or any(moved) or bool(ticks)

    def _give(self, tick: Tick) -> None:
        """Give a tick to all tasks."""
        if self.last_turn is None or tick.number <= self.last_turn:
            for task in self.tasks:
                task.take_tick(tick)

    def _skip_nothing(self, place: TopicAndPartition) -> bool:
        """Skip what holds nothing: the last offsets before an end may be a transaction's end, or what compaction took."""
        wanted = min(reader.next for reader in self._readers[place] if reader.wants)
        if self.context.log.poll({place: wanted}, limit=1):
            return False
        end, moved = self.context.log.end(*place), False
        for reader in self._readers[place]:
            wanted = reader.task.aligner.wanted(reader.name)
            if reader.next < wanted <= end:
                reader.task.aligner.inputs[reader.name].skip_to(wanted)
                moved = True
        return moved

    def turns(self) -> Iterator[tuple[Task, TurnResult]]:
        """Every turn that is complete now: stages as listed, partitions in order, turns in order."""
        for task in self.tasks:
            while (taken := task.next_turn()) is not None:
                yield task, taken

    def _wanted(self) -> dict[tuple[str, int], int]:
        """The offsets to read at: of the inputs that a turn waits for, and of no other."""
        wanted = {}
        for place, readers in self._readers.items():
            hungry = [reader.next for reader in readers if reader.wants]
            if hungry:
                wanted[place] = min(hungry)
        return wanted
