"""Where partitions end, and in which leader's epoch: questions about many partitions at once, to any log."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from streams.errors import LogUnavailable
from streams.log.log_port import Log, TopicAndPartition

UNKNOWN_EPOCH = -1


class LogEnd(NamedTuple):
    """The offset after the last record of a partition, and the epoch of the leader that says so (-1: unknown)."""

    offset: int
    epoch: int = UNKNOWN_EPOCH


@runtime_checkable
class EndsAtOnce(Protocol):
    """A log that says where many partitions end in one answer."""

    def ends(self, places: Collection[TopicAndPartition]) -> Mapping[TopicAndPartition, LogEnd]:
        """The ends of these partitions, without those for which nobody answers now. Raises LogUnavailable if nobody does."""


def ask(log: Log, places: Collection[TopicAndPartition]) -> Mapping[TopicAndPartition, LogEnd]:
    """Where these partitions end, without those for which nobody answers now. Raises LogUnavailable if nobody does."""
    return log.ends(places) if isinstance(log, EndsAtOnce) else {place: LogEnd(log.end(*place)) for place in places}


def ask_all(log: Log, places: Collection[TopicAndPartition]) -> dict[TopicAndPartition, int]:
    """Where each of these partitions ends. Raises LogUnavailable if nobody answers for one of them."""
    ends = {place: end.offset for place, end in ask(log, places).items()}
    for place in places:
        if place not in ends:
            raise LogUnavailable(unanswered(place))
    return ends


def unanswered(place: tuple[str, int]) -> str:
    """That nobody answers for a partition, as a sentence."""
    return f"nobody says where '{place[0]}:{place[1]}' ends: is there a leader of it?"
