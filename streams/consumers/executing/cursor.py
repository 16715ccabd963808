"""Reads some topic-partitions to their ends, each time from where it stopped before.

A consumer that acts on the log must have seen all of it: `catch_up` ends only when it has reached the ends that the log named at
its start. If the log names an end and does not deliver up to it, that is LogUnavailable; the cursor does not guess.
"""

from collections.abc import Iterable, Iterator, Mapping

from streams.errors import LogUnavailable
from streams.log.log_port import Log, Record

_PATIENCE = 5.0
"""Seconds to wait for a record that the log says it has."""


class Cursor:
    """Positions in (topic, partition) pairs: from the first record that the log still has, or from the offsets in a mapping."""

    def __init__(self, log: Log, places: Iterable[tuple[str, int]] | Mapping[tuple[str, int], int]) -> None:
        self._log, self._places = log, tuple(places)
        self._next = dict(places) if isinstance(places, Mapping) else {}

    def catch_up(self) -> Iterator[Record]:
        """The records up to the ends that the log has now, in offset order within a partition. Raises LogUnavailable."""
        if not self._next:
            self._next = {place: self._log.begin(*place) for place in self._places}
        ends = {place: self._log.end(*place) for place in self._places}
        while behind := {place: self._next[place] for place, end in ends.items() if self._next[place] < end}:
            records = self._log.poll(behind, wait=_PATIENCE)
            if not records:
                self._skip_deleted(behind, ends)
            for record in records:
                self._next[record.topic, record.partition] = record.offset + 1
                yield record

    def _skip_deleted(self, behind: dict[tuple[str, int], int], ends: dict[tuple[str, int], int]) -> None:
        """Retention may have deleted everything up to the end. Any other silence is LogUnavailable."""
        for place, position in behind.items():
            begin = self._log.begin(*place)
            if begin <= position:
                topic, partition = place
                raise LogUnavailable(
                    f"the log says that '{topic}' partition {partition} ends at {ends[place]}, but delivered nothing "
                    f"from {position} on within {_PATIENCE:g} s: check the broker"
                )
            self._next[place] = begin
