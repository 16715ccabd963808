"""Which recommendations cannot be news, told without making them.

A sample seldom moves a recommendation: a percentile is the end of a bucket, and the confidence in it grows slowly. When a member
is judged, it is noted how far its histograms and its confidence may go before an amount can be other than what was announced
last, by more than is let pass. Until then nobody needs to judge it again. What is decided stays the same.

Why that is so. Weight that comes to a histogram moves a percentile by no bucket while it is less than `Histograms.settled` says,
wherever it falls. With percentiles as they are, each amount moves one way when confidence grows: the lower bound up, the upper
one down, the target not at all; each step of the sum keeps order, also when it rounds. So what is no news at both ends of a
stretch of confidence is none between them. A member that is put together anew, or of several aggregates, is judged each time, and
so are all where pods are cut down to nodes.
"""

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import Floats, Indices
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.vertical.container_index import ContainerIndex
from agents.logic.vertical.last_recommended import Announced
from agents.logic.vertical.percentile_estimation import confidence
from agents.logic.vertical.recommended_amounts import AMOUNTS, Recommendation, amounts_at, confidences
from agents.logic.vertical.vertical_settings import VerticalSettings

_UPPER = (AMOUNTS.index("upper_cpu"), AMOUNTS.index("upper_memory"))
_SURE = 0.25
"""With less confidence than this the bounds move by the minute, and to look whether they did costs more than to judge."""
MANY = 1024
"""Fewer members are judged sooner than looked at."""
_HAIR = 1e-6
"""Share by which the stretch ends before the upper bound becomes news."""


class SteadyMembers:
    """What was found when members were last judged; it follows from the state and is never dumped."""

    def __init__(self, usage: ContainerUsage, members: ContainerIndex, announced: Announced, settings: VerticalSettings) -> None:
        self._usage, self._members, self._announced, self._settings = usage, members, announced, settings
        self._version = -1
        self._least: Floats = np.zeros((2, 0))
        self._most: Floats = np.zeros((2, 0))
        """(2, members) Confidence, of CPU and memory, from and up to which amounts are no news; from infinity for never."""

    def holds(self, members: Indices) -> NDArray[np.bool_]:
        """For each of these members: is what would be recommended now certainly no news?"""
        self._fit()
        found = np.isfinite(self._least[0, members])
        some = np.flatnonzero(found)
        if not len(some):
            return found
        of = members[some]
        rows, usage = self._members.numbers["single"][of], self._usage
        steady = (usage.cpu.total[rows] <= usage.cpu.settled[rows]) & (usage.memory.total[rows] <= usage.memory.settled[rows])
        first, last = usage.aggregates.floats("first")[rows], usage.aggregates.floats("last")[rows]
        count = usage.aggregates.whole("count")[rows]
        periods = (self._settings.cpu_confidence, self._settings.memory_confidence)
        for resource, period in enumerate(periods[:1] if periods[0] == periods[1] else periods):
            sure = confidence(first, last, count, period)
            steady &= (sure >= self._least[resource, of]) & (sure <= self._most[resource, of])
        found[some] = steady
        return found

    def note(self, done: Recommendation, known: NDArray[np.bool_], *, worth_it: bool = True) -> None:
        """These members were judged, and what is news of them is announced. `known`: of which anything is recommended.

        Where it is not `worth_it`, what was noted of them before is forgotten.
        """
        self._fit()
        members = done.of.members
        self._least[:, members] = np.inf
        rows = self._members.numbers["announced"][members]
        if not worth_it or self._settings.node_cap or not (rows >= 0).any():
            return
        published = np.column_stack([self._announced.table.floats(name)[rows] for name in AMOUNTS])
        sure = confidences(done.evidence, self._settings)
        most = self._until(done, published, sure)
        step = self._settings.bounds_step
        steady = known & (done.of.single >= 0) & (rows >= 0) & (sure >= _SURE).all(axis=0) & ~done.moved(published, step)
        steady &= ~done.moved_to(amounts_at(done, most, self._settings), published, step)
        these, found = members[steady], done.of.single[steady]
        shares = done.of.rules[steady, :6].T
        self._usage.cpu.settle(found, shares[:3])
        self._usage.memory.settle(found, shares[3:])
        self._least[:, these], self._most[:, these] = sure[:, steady], most[:, steady]

    def _until(self, done: Recommendation, published: Floats, sure: Floats) -> Floats:
        """(2, members) A confidence at which the upper bound is about to be news: where 1 + 1 / c is so much smaller."""
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = 1.0 + 1.0 / sure
            least = published[:, _UPPER].T * (1.0 - self._settings.bounds_step) / done.amounts[:, _UPPER].T
            excess = factor * least * (1.0 + _HAIR) - 1.0
            most = np.where(excess > 0.0, 1.0 / excess, np.inf)
        most = np.maximum(most, sure)
        if self._settings.cpu_confidence == self._settings.memory_confidence:
            most = np.broadcast_to(most.min(axis=0), most.shape)
        return np.asarray(most)

    def _fit(self) -> None:
        """Forget all where members came, went or were put together anew."""
        if self._version == self._members.version and self._least.shape[1] >= len(self._members.names):
            return
        self._version = self._members.version
        count = len(self._members.numbers["single"])
        self._least, self._most = np.full((2, count), np.inf), np.full((2, count), np.inf)
