"""When the decisions of a stretch that is decided again reach the stages that read them.

A live worker's recommendation is read when it has reached the log, which may be some ticks after the one that it was made at. A
decision that is made again reaches its readers at the same tick as the recorded one with its id, and one that the log does not
have after as many ticks as the last one that it has. What one partition of a stage writes is read in the order in which it was
written; partitions may overtake one another, for different workers may have them.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agents.backtest.event_runner import RoutedEvent, StageTurn
from agents.engine.stage import Stage
from streams.codec.event_codec import header
from streams.log_context import LogContext
from streams.log_range import has_topic, read_range
from streams.topics import Topics

_NEXT = 1
"""Ticks until a decision is read where the log does not show how many: a worker that keeps up is read at the next one."""


class _Route(NamedTuple):
    """From which of a run's partitions of stages, by its number, to which topic and partition."""

    source: int
    topic: str
    partition: int


class _Waiting(NamedTuple):
    """A decision that nobody has read yet: its id, the number of the frame that it was made in, and where it goes."""

    id: str
    frame: int
    routed: RoutedEvent


def made_and_read(stages: Sequence[Stage]) -> frozenset[str]:
    """The topics (short names) that one stage writes and another reads."""
    return frozenset(name for stage in stages for name in stage.writes) & {name for stage in stages for name in stage.reads}


def published(context: LogContext, names: Collection[str]) -> frozenset[tuple[str, str]]:
    """Topic and id of every decision in these topics of the log."""
    wires = {context.topics.wire(name): name for name in names if has_topic(context.log, context.topics.wire(name))}
    return frozenset((wires[record.topic], header(record, "ce_id") or "") for record in read_range(context.log, list(wires)))


@dataclass(slots=True)
class DecisionDelivery:
    """Keeps the decisions of one run until their readers get them. `read`: the topics of which somebody reads decisions."""

    topics: Topics
    read: Collection[str]
    published: Collection[tuple[str, str]]
    _frame: int = 0
    _delivered: set[tuple[str, str]] = field(default_factory=set)
    _waiting: dict[_Route, deque[_Waiting]] = field(default_factory=dict)
    _lags: dict[_Route, int] = field(default_factory=dict)
    """In frames."""

    def hold(self, turns: Sequence[StageTurn]) -> None:
        """Keep what was decided in the turns of a frame."""
        for source, turn in enumerate(turns):
            for decided in (decided for decided in turn.decided if decided.topic in self.read):
                route = _Route(source, decided.topic, self.topics.partition_of(decided.key))
                waiting = _Waiting(decided.event.id, self._frame, RoutedEvent(decided.event, route.topic, route.partition))
                self._waiting.setdefault(route, deque()).append(waiting)

    def due(self, recorded: Sequence[RoutedEvent]) -> Iterator[RoutedEvent]:
        """What is read in the next frame, in which these recorded decisions were read."""
        self._frame += 1
        self._delivered.update((routed.topic, routed.event.id) for routed in recorded if routed.event is not None)  # type: ignore[union-attr]  # decisions have ids
        for route, waiting in self._waiting.items():
            while waiting and self._is_due(route, waiting[0]):
                yield waiting.popleft().routed

    def _is_due(self, route: _Route, first: _Waiting) -> bool:
        decision, ticks = (route.topic, first.id), self._frame - first.frame
        if decision not in self.published:
            # the log does not have it, so as late as the last one from there that it has
            return ticks >= self._lags.get(route, _NEXT)
        # not by ticks: it is read exactly when the recorded one was
        if decision not in self._delivered:
            return False
        self._delivered.discard(decision)
        self._lags[route] = ticks
        return True
