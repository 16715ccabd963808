"""Inputs that the clock says were longer than they are now: the turns of their partitions wait, whatever else comes in.

A log loses its end when a broker without all records becomes its leader, when a disk is lost, or when a topic is made anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from agents.commands.status.status_rows import StatusRow
from agents.run import stage_topics
from streams import clock_log
from streams.clock_log import ClockReader
from streams.log.log_port import Log
from streams.log_range import has_topic
from streams.topics import CLOCK, Topics

MOST_ROWS = 10
"""Inputs that are named at most; the others are counted."""


@dataclass(frozen=True, slots=True)
class WaitingInput:
    """An input of a partition that ends before the end in force, and the stages that wait."""

    topic: str
    partition: int
    end: int
    wanted: int
    stages: tuple[str, ...]


def found_in(log: Log, topics: Topics) -> list[WaitingInput]:
    """The inputs that end before the ends that the clock says."""
    if not has_topic(log, topics.wire(CLOCK)):
        return []
    clock = ClockReader(log, topics)
    clock.catch_up()
    names = [name for name in stage_topics.input_topics() if has_topic(log, topics.wire(name))]
    ends = clock_log.ends_of(log, topics, names)
    return [
        WaitingInput(name, p, end.offset, wanted, tuple(stage.name for stage in stage_topics.ALL if name in stage.reads))
        for (name, p), end in ends.items()
        if end.offset < (wanted := clock.counted.end(name, p))
    ]


def rows(log: Log, topics: Topics) -> Iterator[StatusRow]:
    """A row for each of the first ones, and one with the number of others."""
    found = found_in(log, topics)
    for each in found[:MOST_ROWS]:
        says = f"{', '.join(each.stages)} wait: it ends at offset {each.end}, and the clock has seen it end at {each.wanted}"
        yield StatusRow("input", f"{each.topic}:{each.partition}", "lost its end", says, warns=True)
    if len(found) > MOST_ROWS:
        yield StatusRow(
            "input", "others", "lost its end", f"{len(found) - MOST_ROWS} more inputs have lost their ends", warns=True
        )
