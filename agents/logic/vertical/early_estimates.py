"""Estimates the containers that are due in the coming turns together, as long as nothing that an estimate rests on changes.

An estimate follows from usage, policies, rules and nodes, and not from the time. So while no record changes any of these, a later
turn would find what this one finds, and an estimate of a few containers costs almost as much as one of a thousand. Nothing of
this is kept in a checkpoint: whether containers are estimated early or in their turn changes no decision.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agents.engine.tables.row_table import Indices
from agents.logic.vertical.container_index import ContainerIndex, MemberSelection
from agents.logic.vertical.recommendation_schedule import Schedule, TurnSpan
from agents.logic.vertical.recommended_amounts import Recommendation

_FEW = 2
"""Quiet turns in a row after which containers are estimated early: where each other turn has usage, it would be in vain."""


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


class EarlyEstimates:
    """The estimates of the coming turns. It is told of each turn once: `forget` or `due`."""

    def __init__(
        self, schedule: Schedule, members: ContainerIndex, estimate: Callable[[MemberSelection], Recommendation]
    ) -> None:
        """Has nothing yet. `estimate` must give each container the same alone and among others."""
        self._schedule, self._members, self._estimate = schedule, members, estimate
        self._quiet = 0
        self._until = -1
        self._times: list[int] = []
        """When workloads are due, rising; `_numbers` has their numbers in the selection of `_all`."""
        self._numbers: Indices = np.zeros(0, np.int64)
        self._begins: Indices = self._numbers
        self._all: DueEstimates | None = None

    def forget(self) -> None:
        """Something that estimates rest on changes in this turn."""
        self._quiet, self._until, self._all = 0, -1, None

    def due(self, span: TurnSpan) -> DueEstimates | None:
        """The workloads that are due in a turn in which nothing changes, of which a part may have nothing new.

        None if nothing was estimated early; then the turn does it by itself.
        """
        self._quiet += 1
        if span.now > self._until:
            self._all = None
            if self._quiet > _FEW:
                self._look_ahead(span)
        found = self._all
        if found is None:
            return None
        first, last = bisect_right(self._times, span.before), bisect_right(self._times, span.now)
        workloads = np.array(sorted(set(self._numbers[first:last].tolist())), np.int64)
        begins, counts = self._begins[workloads], self._begins[workloads + 1] - self._begins[workloads]
        places = np.arange(counts.sum()) + np.repeat(begins - np.cumsum(counts) + counts, counts)
        return DueEstimates(found.of, found.done, workloads, places)

    def _look_ahead(self, span: TurnSpan) -> None:
        """Estimate what is due in this turn and in as many more as were quiet, so in vain at most as much as was not."""
        until = min(span.now + (span.now - span.before) * self._quiet, span.before + self._schedule.period - 1)
        coming = self._schedule.coming(TurnSpan(span.before, until)) if until >= span.now else None
        if coming is None:
            return
        of = self._members.select(coming.members)
        self._until, self._all = until, DueEstimates.whole(of, self._estimate)
        self._begins = np.searchsorted(of.workload, np.arange(of.count + 1))
        workload = self._members.numbers["workload"]
        ids = workload[of.first]
        order = np.argsort(ids)
        numbers = order[np.searchsorted(ids, workload[coming.members], sorter=order)]
        by_time = np.argsort(coming.times, kind="stable")
        self._times, self._numbers = coming.times[by_time].tolist(), numbers[by_time]
