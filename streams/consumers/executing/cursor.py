"""Reading some topic-partitions to their end, each time from where the last time ended.

Whoever acts on the log must know that it has seen all of it: `catch_up` returns only when it has reached the ends that the log
named when it was called. Refuses to guess: if the log names an end and does not deliver up to it, that is LogUnavailable.
"""

from collections.abc import Iterable, Iterator, Mapping

from streams.errors import LogUnavailable
from streams.log.port import Log, Record

_PATIENCE = 5.0
"""Seconds to wait for a record that the log says it has."""


class Reading:
    """Positions in `log` of the given (topic, partition) pairs, from the first kept record on, or from offsets that are given."""

    def __init__(self, log: Log, places: Iterable[tuple[str, int]] | Mapping[tuple[str, int], int]) -> None:
        self._log, self._places = log, tuple(places)
        self._next = dict(places) if isinstance(places, Mapping) else {}

    def catch_up(self) -> Iterator[Record]:
        """Records up to the ends that hold now, in offset order within a partition."""
        if not self._next:
            self._next = {place: self._log.begin(*place) for place in self._places}
        ends = {place: self._log.end(*place) for place in self._places}
        while behind := {place: self._next[place] for place, end in ends.items() if self._next[place] < end}:
            records = self._log.poll(behind, wait=_PATIENCE)
            if not records:
                self._skip_what_is_gone(behind, ends)
            for record in records:
                self._next[record.topic, record.partition] = record.offset + 1
                yield record

    def _skip_what_is_gone(self, behind: dict[tuple[str, int], int], ends: dict[tuple[str, int], int]) -> None:
        """Retention may have taken everything up to the end; anything else is an unkept promise."""
        for place, position in behind.items():
            begin = self._log.begin(*place)
            if begin <= position:
                topic, partition = place
                raise LogUnavailable(
                    f"the log says that '{topic}' partition {partition} ends at {ends[place]}, but delivered nothing "
                    f"from {position} on within {_PATIENCE:g} s: check the broker"
                )
            self._next[place] = begin
