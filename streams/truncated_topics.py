"""What a log no longer holds: which topics have lost their beginning, and which records that were read are gone from the end.

Retention moves the first offset of a partition up, and an incident file of a stretch starts where the stretch did. Compaction
leaves the first offset where it was, so what it removed does not show here. The end goes when a leader takes over that never had
the newest records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from schemas.times import from_ms
from streams import clock_log
from streams.log.log_port import Log, LogEnd, TopicAndPartition
from streams.log_range import event_time_ms, has_topic
from streams.topics import CLOCK, Topics

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


class KnowsEpochs(Protocol):
    """A log whose partitions have leaders."""

    def ends_of_epochs(self, epochs: Mapping[TopicAndPartition, int]) -> Mapping[TopicAndPartition, LogEnd]:
        """Where each log left this epoch: the end of the newest epoch that is not above it, and which; without the unanswered."""


@dataclass(frozen=True, slots=True)
class LostRecords:
    """Sentences about what is no longer held, and whether every leader answered."""

    gone: tuple[str, ...]
    complete: bool


def lost_records(
    log: KnowsEpochs, topics: Topics, read: Iterable[tuple[int, Mapping[str, Iterable[tuple[int, int]]]]]
) -> LostRecords:
    """Whether the log holds what was read of these partitions. Raises LogUnavailable if no leader answers.

    `read`: for each partition and topic (short name, the clock's among them), an epoch and the offset up to which it was read.

    Two logs that both hold a record of an epoch at an offset are the same up to there, and an epoch that a log left earlier than
    it was read took the rest along (https://cwiki.apache.org/confluence/display/KAFKA/KIP-320).
    """
    positions: dict[tuple[TopicAndPartition, int], int] = {}
    for partition, epochs in read:
        for name, upto_by_epoch in epochs.items():
            place = clock_log.place(topics) if name == CLOCK else (topics.wire(name), partition)
            for epoch, upto in upto_by_epoch:
                positions[place, epoch] = max(upto, positions.get((place, epoch), 0))
    gone, complete = list[str](), True
    while positions:
        epochs_asked = dict(positions.keys())  # one epoch of each partition at a time
        answers = log.ends_of_epochs(epochs_asked)
        for place, epoch in epochs_asked.items():
            upto, answer = positions.pop((place, epoch)), answers.get(place)
            complete &= answer is not None
            if answer is not None and (answer.epoch < epoch or answer.offset < upto):
                until = f"the log left that at {answer.offset}" if answer.epoch == epoch else "the log has none of that"
                gone.append(f"{place[0]}:{place[1]} was read up to {upto} under a leader of epoch {epoch}, and {until}")
    return LostRecords(tuple(gone), complete)
