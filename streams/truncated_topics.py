"""Which topics of a log have lost their beginning, and since when they are complete, as a warning to readers of the past.

Retention moves the first offset of a partition up, and an incident file of a stretch starts where the stretch did. Compaction
leaves the first offset where it was, so what it removed does not show here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas.times import from_ms
from streams.log.log_port import Log, TopicAndPartition
from streams.log_range import event_time_ms, has_topic
from streams.topics import Topics

_LOOKED_AT = 50
"""Records at the start of a partition, of which the first with a time counts."""


@dataclass(frozen=True, slots=True)
class TruncatedTopic:
    """A topic (short name) that has lost its beginning.

    `at`: from when on all of it is there. None if a partition is empty now, so that the time of its newest record is unknown;
    `all_gone` if all partitions are.
    """

    topic: str
    at: datetime | None
    all_gone: bool = False

    def __str__(self) -> str:
        """What is missing, in a few words."""
        if self.at is None:
            return f"{'all' if self.all_gone else 'parts'} of {self.topic}"
        return f"{self.topic} before {self.at:%Y-%m-%d %H:%M:%S} UTC"


def late_starts(
    log: Log, topics: Topics, names: Iterable[str], *, before: datetime | None = None, partition: int | None = None
) -> list[TruncatedTopic]:
    """Those of these topics (short names) that have lost their beginning.

    `before`: only those that may lack something from this moment on, for a reader who begins there. `partition`: only this one.
    """
    truncated: list[TruncatedTopic] = []
    for name in names:
        wire = topics.wire(name)
        if not has_topic(log, wire):
            continue
        places = [(wire, p) for p in range(log.partitions(wire)) if partition is None or p == partition]
        starts = [_start(log, place) for place in places if log.begin(*place) > 0]
        times = [at for at in starts if at is not None]
        if len(times) < len(starts):
            truncated.append(TruncatedTopic(name, None, all_gone=not times and len(starts) == len(places)))
        elif times and (before is None or max(times) > before):
            truncated.append(TruncatedTopic(name, max(times)))
    return truncated


def _start(log: Log, place: TopicAndPartition) -> datetime | None:
    """The time of the first record of a partition; None if it has none."""
    records = log.poll({place: log.begin(*place)}, limit=_LOOKED_AT)
    return next((from_ms(time) for record in records if (time := event_time_ms(record)) >= 0), None)


def sentence(starts: Sequence[TruncatedTopic]) -> str:
    """What is missing, for people, as a clause or a sentence; empty if nothing is."""
    if not starts:
        return ""
    return f"gone from this log: {', '.join(map(str, starts))} (by retention, or because it is the file of a stretch)"
