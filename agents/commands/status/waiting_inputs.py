"""Inputs that lack newer ticks, by the log: the stages that read them take no turn, whatever else comes in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.commands.status.status_rows import StatusRow
from agents.run import stage_topics
from schemas import times
from schemas.units import Seconds
from streams import newest_ticks, reverse_log_reader
from streams.codec.event_codec import tick_number
from streams.log.log_port import Log, Record
from streams.log_range import has_topic
from streams.topics import Topics

MOST_ROWS = 10
"""Inputs that are named at most; the others are counted."""
_FIRST_LOOK = 64
"""The last records of all inputs that are read at once: a tick is mostly among them."""
LOOKED_AT = 20_000
"""The last records of an input among which a tick is looked for."""


@dataclass(frozen=True, slots=True)
class WaitingInput:
    """An input of a partition, its newest tick (-1: none in its last records), and how far others of this partition are ahead.

    `leading` is the one that is, where it is one alone: then it is the odd one out.
    """

    topic: str
    partition: int
    tick: int
    behind: Seconds
    leading: str
    stages: tuple[str, ...]


def found_in(log: Log, topics: Topics, *, within: Seconds) -> list[WaitingInput]:
    """The inputs whose newest tick is more than `within` behind another input of a stage that reads both."""
    names = [name for name in stage_topics.ticked_topics() if has_topic(log, topics.wire(name))]
    found = []
    ends = reverse_log_reader.last(log, [(topics.wire(n), p) for n in names for p in range(topics.partitions)], _FIRST_LOOK)
    for partition in range(topics.partitions):
        newest = {name: _newest(log, (topics.wire(name), partition), ends) for name in names}
        waiting: dict[str, tuple[Seconds, str, list[str]]] = {}
        for stage in stage_topics.ALL:
            head = max((newest.get(name, -1) for name in stage.reads), default=-1)
            leaders = [name for name in stage.reads if newest.get(name, -1) == head]
            leading = leaders[0] if len(leaders) == 1 else ""
            for name in stage.reads:
                behind = Seconds((head - max(0, newest.get(name, -1))) / 1000)
                if name in newest and head >= 0 and (behind > within or newest[name] < 0):
                    most, first, readers = waiting.get(name, (behind, leading, []))
                    waiting[name] = *max((most, first), (behind, leading)), [*readers, stage.name]
        for name, (behind, leading, readers) in waiting.items():
            found.append(WaitingInput(name, partition, newest[name], behind, leading, tuple(readers)))
    return found


def rows(log: Log, topics: Topics, *, within: Seconds) -> Iterator[StatusRow]:
    """A row for each of the first ones, and one with the number of others."""
    found = found_in(log, topics, within=within)
    for each in found[:MOST_ROWS]:
        since = f"none since {times.from_ms(each.tick):%Y-%m-%d %H:%M:%S} UTC" if each.tick >= 0 else "none"
        leading = f"{each.leading} is" if each.leading else "others are"
        ahead = f", and {leading} {each.behind:,.1f} s ahead" if each.tick >= 0 else ""
        says = f"{', '.join(each.stages)} wait for a tick: there is {since}{ahead}"
        yield StatusRow("input", f"{each.topic}:{each.partition}", "late", says, warns=True)
    if len(found) > MOST_ROWS:
        yield StatusRow("input", "others", "late", f"{len(found) - MOST_ROWS} more inputs have no newer tick", warns=True)


def _newest(log: Log, place: tuple[str, int], ends: Mapping[tuple[str, int], Sequence[Record]]) -> int:
    record = newest_ticks.newest_of(reversed(ends[place]))
    if record is None and len(ends[place]) == _FIRST_LOOK:
        record = newest_ticks.newest_tick(log, *place, most=LOOKED_AT)
    number = None if record is None else tick_number(record)
    return -1 if number is None else number
