"""Estimates the containers that are due in the coming turns together, as long as nothing that an estimate rests on changes.

An estimate follows from usage, policies, rules and nodes, and not from the time. So while no record changes any of these, a later
turn would find what this one finds. Nothing of this is kept in a checkpoint: whether containers are estimated early or in their
turn changes no decision.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agents.engine.tables.row_table import Indices
from agents.logic.vertical.container_index import ContainerIndex, MemberSelection
from agents.logic.vertical.container_order import in_stretches
from agents.logic.vertical.recommendation_schedule import Schedule, TurnSpan
from agents.logic.vertical.recommended_amounts import Recommendation

_FEW = 2
"""Quiet turns in a row after which containers are estimated early: where each other turn has usage, it would be in vain."""
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class DueEstimates:
    """Workloads of a selection that are due, by their rising numbers, and the rising places of their containers in it.

    `done` is the estimate of the whole selection; None if it has no containers.
    """

    of: MemberSelection
    done: Recommendation | None
    workloads: Indices
    places: Indices

    @staticmethod
    def whole(of: MemberSelection, estimate: Callable[[MemberSelection], Recommendation]) -> "DueEstimates":
        """All of a selection, estimated now."""
        done = estimate(of) if len(of.members) else None
        return DueEstimates(of, done, np.arange(of.count), np.arange(len(of.members)))

    @property
    def names(self) -> list[str]:
        """The keys of the workloads."""
        return self.of.workload_names(self.workloads)


@dataclass(frozen=True, slots=True)
class _Window:
    """What was estimated together, for all turns up to `until`.

    Workloads are due at `times`, which rise; `numbers` has the number of each in the selection. The places of the containers of
    workload n of the selection are those from `begins[n]` up to `begins[n + 1]`.
    """

    until: int
    estimated: DueEstimates
    times: list[int]
    numbers: Indices
    begins: Indices

    def due(self, span: TurnSpan) -> DueEstimates:
        """The part that is due in a turn."""
        first, last = bisect_right(self.times, span.before), bisect_right(self.times, span.now)
        if first == last:  # as in most turns of a small fleet
            return DueEstimates(self.estimated.of, self.estimated.done, _NONE, _NONE)
        workloads = np.array(sorted(set(self.numbers[first:last].tolist())), np.int64)
        places = in_stretches(self.begins[workloads], self.begins[workloads + 1])
        return DueEstimates(self.estimated.of, self.estimated.done, workloads, places)


class EarlyEstimates:
    """The estimates of the coming turns. It is told of each turn once: `forget` or `due`."""

    def __init__(
        self, schedule: Schedule, members: ContainerIndex, estimate: Callable[[MemberSelection], Recommendation]
    ) -> None:
        """Has nothing yet. `estimate` must give each container the same alone and among others."""
        self._schedule, self._members, self._estimate = schedule, members, estimate
        self._quiet = 0
        self._window: _Window | None = None

    def forget(self) -> None:
        """Something that estimates rest on changes in this turn."""
        self._quiet, self._window = 0, None

    def due(self, span: TurnSpan) -> DueEstimates | None:
        """The workloads that are due in a turn in which nothing changes, of which a part may have nothing new.

        None if nothing was estimated early; then the turn does it by itself.
        """
        self._quiet += 1
        if self._window is None or span.now > self._window.until:
            # An estimate of a few containers costs almost as much as one of a thousand.
            self._window = self._look_ahead(span) if self._quiet > _FEW else None
        return None if self._window is None else self._window.due(span)

    def _look_ahead(self, span: TurnSpan) -> _Window | None:
        """Estimate what is due in this turn and in as many more as were quiet."""
        # As far ahead as it was quiet before, so that at most as much is estimated in vain as was not.
        until = min(span.now + (span.now - span.before) * self._quiet, span.before + self._schedule.period - 1)
        coming = self._schedule.coming(TurnSpan(span.before, until)) if until >= span.now else None
        if coming is None:
            return None
        of = self._members.select(coming.members)
        by_time = np.argsort(coming.times, kind="stable")
        return _Window(
            until,
            DueEstimates.whole(of, self._estimate),
            times=coming.times[by_time].tolist(),
            numbers=self._members.workload_numbers(of, coming.members[by_time]),
            begins=np.searchsorted(of.workload, np.arange(of.count + 1)),
        )
