"""Ends in force that a log does not reach, because it lost its own: an unclean election, a lost disk, a topic that was made anew.

What is lost is replaced by records that are nothing to any reader, once the same leader has said for ten seconds that it has no
more: a turn waits for the end in force, and on a quiet topic the next record may come in a month.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streams.clock_rules import FILL, Counted
from streams.errors import UllageError
from streams.log.log_port import Log, LogEnd, NewRecord
from streams.topics import Topics

PATIENCE_MS = 10_000
"""Real time in which the same leader says the same, before anything is appended."""
AGAIN_MS = 60_000
"""Real time after which a partition is tried again that did not take what was appended; an append may take half of it."""
MOST = 100_000
"""Records that are replaced without a person, unless a setting says another number."""
AT_ONCE = 5_000
"""Records that are appended between two ticks."""


@dataclass(frozen=True, slots=True)
class TruncatedPartition:
    """A partition (its topic by short name) that ends before the end in force, `wanted`."""

    topic: str
    partition: int
    end: LogEnd
    wanted: int

    @property
    def missing(self) -> int:
        """Offsets between the two."""
        return self.wanted - self.end.offset

    def __str__(self) -> str:
        """What is missing where."""
        return f"'{self.topic}:{self.partition}' ends at {self.end.offset}, and a tick has said that it ends at {self.wanted}"


def among(ends: Mapping[tuple[str, int], LogEnd], counted: Counted) -> dict[tuple[str, int], TruncatedPartition]:
    """Those of these ends, by short name and partition, that lie before the ends in force."""
    return {at: TruncatedPartition(*at, end, counted.end(*at)) for at, end in ends.items() if end.offset < counted.end(*at)}


class TruncatedPartitionFiller:
    """Fills up what has lost its end. `warn` receives one sentence for each partition, and one when it could not be filled."""

    def __init__(self, log: Log, topics: Topics, warn: Callable[[str], None], *, most: int = MOST) -> None:
        """`most`: records of a partition that are replaced."""
        self._log, self._topics, self._warn, self._most = log, topics, warn, most
        self._since: dict[tuple[str, int], tuple[int, int]] = {}
        """For each partition, the leader's epoch, and since when it has said so."""

    def look(self, lost: Mapping[tuple[str, int], TruncatedPartition], wall: int) -> None:
        """Take in what the leaders say now; `wall` is real time in milliseconds."""
        before, self._since = self._since, {}
        for place, partition in lost.items():
            epoch, since = before.get(place, (partition.end.epoch, wall))
            if place not in before:
                self._warn(f"{partition}: turns wait. {self._says_what_comes(partition)}")
            # A leader that was just elected may only not know better yet: its patience begins anew.
            self._since[place] = partition.end.epoch, since if epoch == partition.end.epoch else wall
            if wall - self._since[place][1] >= PATIENCE_MS and partition.missing <= self._most:
                self._fill(partition, wall)

    def _says_what_comes(self, lost: TruncatedPartition) -> str:
        if lost.missing > self._most:  # a person should see what happened to a log that lost so much
            return (
                f"It lacks {lost.missing} records, more than clock.fill_most, {self._most}, so nothing is done before a person "
                "has looked; with a higher one, records that are nothing take the place of what is lost"
            )
        return f"If its leader says so for {PATIENCE_MS // 1000} s, records that are nothing take the place of what is lost"

    def _fill(self, lost: TruncatedPartition, wall: int) -> None:
        wire, count = self._topics.wire(lost.topic), min(lost.missing, AT_ONCE)
        try:
            self._log.append([NewRecord(wire, lost.partition, FILL, b"")] * count)
        except UllageError as error:
            # As if the leader had begun to say so only later, so that the next try comes after AGAIN_MS.
            self._since[lost.topic, lost.partition] = lost.end.epoch, wall + AGAIN_MS - PATIENCE_MS
            self._warn(f"'{lost.topic}:{lost.partition}' was not filled up: {error}")
