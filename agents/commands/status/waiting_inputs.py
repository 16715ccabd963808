"""Inputs that the clock says were longer than they are now: the turns of their partitions wait, whatever else comes in.

A log loses its end when a broker without all records becomes its leader, when a disk is lost, or when a topic is made anew.
"""

from collections.abc import Iterator, Mapping

from agents.commands.status.status_rows import StatusRow
from agents.run import stage_topics
from streams import clock_log
from streams.clock_log import ClockReader
from streams.log.log_port import Log
from streams.log_range import has_topic
from streams.sources import truncated_partition_filler
from streams.sources.truncated_partition_filler import TruncatedPartition
from streams.topics import CLOCK, Topics

MOST_ROWS = 10
"""Inputs that are named at most; the others are counted."""


def rows(log: Log, topics: Topics) -> Iterator[StatusRow]:
    """A row for each of the first ones, and one with the number of others."""
    waiting = list(_lost(log, topics).values())
    for lost in waiting[:MOST_ROWS]:
        stages = ", ".join(stage.name for stage in stage_topics.ALL if lost.topic in stage.reads)
        says = f"{stages} wait: it ends at offset {lost.end.offset}, and the clock has seen it end at {lost.wanted}"
        yield StatusRow("input", f"{lost.topic}:{lost.partition}", "lost its end", says, warns=True)
    if len(waiting) > MOST_ROWS:
        yield StatusRow(
            "input", "others", "lost its end", f"{len(waiting) - MOST_ROWS} more inputs have lost their ends", warns=True
        )


def _lost(log: Log, topics: Topics) -> Mapping[tuple[str, int], TruncatedPartition]:
    if not has_topic(log, topics.wire(CLOCK)):
        return {}
    clock = ClockReader(log, topics)
    clock.catch_up()
    names = [name for name in stage_topics.input_topics() if has_topic(log, topics.wire(name))]
    return truncated_partition_filler.among(clock_log.ends_of(log, topics, names), clock.counted)
