"""Ticks as a clock appends them, for tests that have no clock."""

from agents.run.partition_task import Task
from streams import clock_log
from streams.clock_rules import Counted, Tick
from streams.log.log_port import Log
from streams.log.memory_log import MemoryLog
from streams.log_range import has_topic
from streams.sources.clock import TickWriter
from streams.topics import CLOCK, Topics


def append(log: Log, topics: Topics, number: int) -> None:
    """The tick of this number, which says how far every partition has got by now."""
    TickWriter(log, topics).write(number)


def place(log: MemoryLog, topics: Topics, number: int) -> tuple[int, str]:
    """Where the tick of this number stands, and its name; it is appended if it is not there."""
    if not has_topic(log, topics.wire(CLOCK)):
        log.create(topics.wire(CLOCK), 1)
    append(log, topics, number)
    ticks = clock_log.ticks_from(log, topics, Counted())
    return next(tick.place for tick in ticks if tick.number == number)


def of(task: Task, number: int, *, place: int | None = None) -> Tick:
    """A tick that says that all inputs of a task end where it has read them."""
    ends = {(name, task.partition): source.next for name, source in task.aligner.inputs.items()}
    return Tick(number if place is None else place, number, f"tick-{number}", ends)
