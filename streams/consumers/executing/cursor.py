"""Reads some topic-partitions to their ends, each time from where it stopped before.

A consumer that acts on the log must have seen all of it: `catch_up` ends only when it has reached the ends that the log named at
its start. A log that has a record and does not deliver it raises LogUnavailable, and nothing is done.
"""

from collections.abc import Iterable, Iterator, Mapping

from streams.log import log_port
from streams.log.log_port import Log, Record


class Cursor:
    """Positions in (topic, partition) pairs: from the first record that the log still has, or from the offsets in a mapping."""

    def __init__(self, log: Log, places: Iterable[tuple[str, int]] | Mapping[tuple[str, int], int]) -> None:
        self._log, self._places = log, tuple(places)
        self._next = dict(places) if isinstance(places, Mapping) else {}

    def go_to(self, places: Mapping[tuple[str, int], int]) -> None:
        """Read on from these offsets instead, in partitions that this cursor reads."""
        self._next |= places

    def catch_up(self) -> Iterator[Record]:
        """The records up to the ends that the log has now, in offset order within a partition. Raises LogUnavailable."""
        if not self._next:
            self._next = {place: self._log.begin(*place) for place in self._places}
        ends = log_port.all_ends_of(self._log, self._places)
        while behind := {place: self._next[place] for place, end in ends.items() if self._next[place] < end}:
            records = self._log.poll(behind)
            if not records:
                # No record is left before the end: the last offsets are the end of a transaction, or what retention or compaction
                # took.
                self._next |= {place: ends[place] for place in behind}
            for record in records:
                self._next[record.topic, record.partition] = record.offset + 1
                yield record
