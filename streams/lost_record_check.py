"""Asks whether a log still holds what was read of it: it may have lost its newest records to a leader that never had them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from streams import clock_log
from streams.log.log_port import LogEnd, TopicAndPartition
from streams.topics import CLOCK, Topics


class KnowsEpochs(Protocol):
    """A log whose partitions have leaders."""

    def ends_of_epochs(self, epochs: Mapping[TopicAndPartition, int]) -> Mapping[TopicAndPartition, LogEnd]:
        """Where each log left this epoch: the end of the newest epoch that is not above it, and which; without the unanswered."""


@dataclass(frozen=True, slots=True)
class LostRecords:
    """Sentences about what is no longer held, and whether every leader answered."""

    gone: tuple[str, ...]
    complete: bool


def look(log: KnowsEpochs, topics: Topics, read: Iterable[tuple[int, Mapping[str, Iterable[tuple[int, int]]]]]) -> LostRecords:
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
