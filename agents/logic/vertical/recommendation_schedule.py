"""When a workload is due: times spread over the interval, in event time, computed from turn numbers alone.

A workload is due once in each interval, at an offset that follows from a stable hash of its name, so that every turn handles its
share of them. It is then judged if it has new usage or another policy, and once in each heartbeat in any case.

An estimate follows from usage, policies, rules and nodes, and not from the time. So while no record changes any of these, what is
due in the coming turns is estimated together. That changes no decision, so no checkpoint holds it.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import Indices
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.vertical.container_index import ContainerIndex, MemberSelection
from agents.logic.vertical.container_order import in_stretches
from agents.logic.vertical.node_caps import NodeIndex
from agents.logic.vertical.recommended_amounts import Recommendation
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.names import cluster_of


@dataclass(frozen=True, slots=True)
class LastTurn:
    """The last turn taken, and the topic and partition in which metrics stand in the log."""

    turn: int
    topic: str = ""
    partition: int = 0


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """From the turn before to this one, in milliseconds."""

    before: int
    now: int

    def crosses(self, spread: Indices, period: int) -> NDArray[np.bool_]:
        """For each element: does a due time of its own lie in (before, now]? Due times are `period` apart."""
        return self.crosses_slots(spread % period, period)

    def crosses_slots(self, slots: Indices, period: int) -> NDArray[np.bool_]:
        """The same for offsets of due times within a period, each at least 0 and below `period`."""
        # After a gap in the ticks everything is due.
        if self.now - self.before >= period:
            return np.ones(len(slots), np.bool_)
        first, last = self.before % period, self.now % period
        if first <= last:
            return (slots > first) & (slots <= last)
        return (slots > first) | (slots <= last)

    def next_due(self, spread: Indices, period: int) -> Indices:
        """The due time of each element, none of which is due at `before`, that comes first after it."""
        return self.before + (spread - self.before) % period

    def crosses_one(self, period: int) -> bool:
        """The same for a due time at whole periods."""
        return self.now // period > self.before // period


class Slots:
    """Due times of many elements, each as an offset within the period."""

    UNSORTED = 4
    """Turns after which they are sorted: in a rollout they are made anew each turn, and sorting takes as long as many turns."""

    def __init__(self, spread: Indices, period: int) -> None:
        """`spread` has a number of at least 0 for each element."""
        self.offsets, self._period = spread % period, period
        self._asked = 0
        self._order = self._sorted = self.offsets[:0]

    def crossed(self, span: TurnSpan) -> Indices:
        """The places, in ascending order, of the elements whose due time lies in the span."""
        self._asked += 1
        if self._asked <= self.UNSORTED or span.now - span.before >= self._period:
            return span.crosses_slots(self.offsets, self._period).nonzero()[0]
        # Sorted only now: in a rollout slots are made anew each turn, and sorting takes as long as many turns.
        if len(self._order) != len(self.offsets):
            self._order = np.argsort(self.offsets)
            self._sorted = self.offsets[self._order]
        # Sorted, a turn looks at the few that are due, and not at all.
        first, last = self._sorted.searchsorted((span.before % self._period, span.now % self._period), "right").tolist()
        if span.before % self._period <= span.now % self._period:
            return np.sort(self._order[first:last])
        return np.sort(np.concatenate([self._order[first:], self._order[:last]]))


@dataclass(frozen=True, slots=True)
class ComingMembers:
    """Members that are due, and when, in milliseconds since the epoch."""

    members: Indices
    times: Indices


class Schedule:
    """Decides which workloads of a partition are due.

    `announced_policy` returns, for members, the policy of the last announcement.
    """

    def __init__(
        self,
        usage: ContainerUsage,
        members: ContainerIndex,
        *,
        announced_policy: Callable[[Indices], Indices],
        nodes: NodeIndex,
        settings: VerticalSettings,
    ) -> None:
        self._usage, self._members, self._nodes = usage, members, nodes
        self._announced_policy = announced_policy
        self._node_cap = settings.node_cap
        self._interval, self._heartbeat = int(settings.interval * 1000), int(settings.heartbeat * 1000)
        self._version = -1
        self._rows = self._of = np.zeros(0, np.int64)
        self._slots, self._heartbeat_slots = Slots(self._of, self._interval), Slots(self._of, self._heartbeat)

    @property
    def period(self) -> int:
        """Milliseconds in which each workload is due once, or has its heartbeat once, whichever is shorter."""
        return min(self._interval, self._heartbeat)

    def due(self, span: TurnSpan) -> Indices:
        """Members of the workloads that are due and may have something new to announce."""
        self._refresh()
        changed, unchanged = self._by_usage(span)
        return np.concatenate([changed, self._beating(span), self._under_other_nodes(span, unchanged)])

    def coming(self, span: TurnSpan) -> "ComingMembers | None":
        """The same for all turns of a span in which nothing changes, and when each is due.

        An element for each time at which a member is due. The span is shorter than `period`. None if nodes have just changed.
        """
        if self._grown(span):
            return None
        self._refresh()
        changed, beating = self._by_usage(span)[0], self._beating(span)
        spread = self._members.numbers["spread"]
        times = [span.next_due(spread[changed], self._interval), span.next_due(spread[beating], self._heartbeat)]
        return ComingMembers(np.concatenate([changed, beating]), np.concatenate(times))

    def _by_usage(self, span: TurnSpan) -> tuple[Indices, Indices]:
        """Members that are due in their interval: those with new usage or another policy, and those without."""
        now = self._slots.crossed(span)
        rows, of = self._rows[now], self._of[now]
        slots = self._slots.offsets[now]
        last_due = (span.before - slots) // self._interval * self._interval + slots
        touched = self._usage.aggregates.whole("changed")[rows] >= last_due - self._interval
        governed = self._members.numbers["policy"][of] != self._announced_policy(of)
        due = touched | governed
        return of[due], of[~due]

    def _beating(self, span: TurnSpan) -> Indices:
        """Members whose heartbeat is due."""
        return self._of[self._heartbeat_slots.crossed(span)]

    def beats(self, span: TurnSpan, members: Indices) -> NDArray[np.bool_]:
        """For each of these members: is its recommendation announced in this turn even if it is unchanged?"""
        return span.crosses(self._members.numbers["spread"][members], self._heartbeat)

    def _under_other_nodes(self, span: TurnSpan, members: Indices) -> Indices:
        """Those of these members whose cluster got another largest node since their due time before."""
        grown = self._grown(span) if len(members) else ()
        names = self._members.names
        here = [member for member in members.tolist() if cluster_of(names[member][0]) in grown] if grown else []
        return np.array(here, np.int64)

    def _grown(self, span: TurnSpan) -> Collection[str]:
        """The clusters whose largest nodes have changed since the due times before the span."""
        return self._nodes.grown_since(span.before - self._interval) if self._node_cap else ()

    def _refresh(self) -> None:
        """Look up the rows of members again where members came, went or were regrouped."""
        if self._version == self._members.version:
            return
        self._version = self._members.version
        rows = self._usage.aggregates.used()
        self._rows = rows[self._members.member[rows] >= 0]
        self._of = self._members.member[self._rows]
        spread = self._members.numbers["spread"][self._of]
        self._slots, self._heartbeat_slots = Slots(spread, self._interval), Slots(spread, self._heartbeat)


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
