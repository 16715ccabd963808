"""How many nodes each group had over the day, and how many node-hours that makes, from the facts about instances.

An instance counts from the moment at which it was first seen until it is gone, whatever it does in between, as on the bill.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from agents.demo.usage_curve import SLICE_SECONDS
from schemas.facts.node_groups import NodeInstanceGone, NodeInstanceSeen

_HOUR = timedelta(hours=1)


@dataclass(slots=True)
class _Life:
    group: str
    began: datetime
    ended: datetime | None = None


@dataclass(slots=True)
class NodeCurve:
    """The instances of the day, by their ids."""

    _lives: dict[str, _Life] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there were any."""
        return bool(self._lives)

    def seen(self, event: NodeInstanceSeen) -> None:
        """An instance is there."""
        self._lives.setdefault(event.instance, _Life(event.group, event.at))

    def gone(self, event: NodeInstanceGone) -> None:
        """An instance is gone."""
        if event.instance in self._lives:
            self._lives[event.instance].ended = event.at

    def hours(self, until: datetime | None) -> float:
        """Hours of all instances together."""
        return sum((end - begin) / _HOUR for begin, end in self._spans(until))

    def count(self, at: datetime | None, group: str | None = None) -> int:
        """How many there are at a moment, of all groups or of one."""
        if at is None:
            return 0
        lives = [life for life in self._lives.values() if group in (None, life.group)]
        return sum(life.began <= at and (life.ended is None or at < life.ended) for life in lives)

    def by_slice(self, until: datetime | None, slices: Sequence[int]) -> Mapping[str, list[float]]:
        """By group the average number in each half hour of these, which are given by their beginnings in seconds."""
        averages: dict[str, list[float]] = {}
        for group in sorted({life.group for life in self._lives.values()}):
            spans = list(self._spans(until, group))
            averages[group] = [_average(spans, datetime.fromtimestamp(begin, UTC), until) for begin in slices]
        return averages

    def _spans(self, until: datetime | None, group: str | None = None) -> Iterator[tuple[datetime, datetime]]:
        for life in self._lives.values():
            end = life.ended or until
            if end is not None and end > life.began and group in (None, life.group):
                yield life.began, end


def _average(spans: Sequence[tuple[datetime, datetime]], begin: datetime, until: datetime | None) -> float:
    end = begin + timedelta(seconds=SLICE_SECONDS)
    end = end if until is None else min(end, until)
    if end <= begin:
        return float(sum(first <= begin < last for first, last in spans))
    shared = (min(end, last) - max(begin, first) for first, last in spans)
    return sum((length for length in shared if length > timedelta(0)), timedelta(0)) / (end - begin)
