"""Decaying histograms, many at once: one row of a table for each, all sums in the order the samples are given.

A sample weighs w * 2^((at - reference) / half life), so old samples lose weight without being touched. When a sample lies more
than 100 half lives after a row's reference, the row is scaled to a new one. Rules and order of operations are upstream's.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agents.logic.tables.rows import Column, Floats, Indices, Rows
from agents.logic.usage.buckets import Scale

NEVER = -62_135_596_800.0
"""Go's zero time, 0001-01-01, in seconds since the epoch; references are multiples of the half life counted from it."""

_FAR = 100.0
"""Half lives after its reference at which a histogram gets a new one."""

_BLOCK = 1024
"""Rows whose running sums fit into a core's cache."""


class Histograms:
    """The histograms in columns `<name>_...` of `rows`. A half life of infinity means no decay."""

    def __init__(self, rows: Rows, name: str, scale: Scale, half_life: float) -> None:
        self.rows, self.name, self.scale, self.half_life = rows, name, scale, half_life
        self.width = len(scale.starts)

    @staticmethod
    def columns(name: str, scale: Scale) -> Mapping[str, Column]:
        """What a table needs to hold such histograms."""
        width = len(scale.starts)
        return {
            f"{name}_weights": Column(width=width),
            f"{name}_total": Column(),
            f"{name}_reference": Column(default=NEVER),
            f"{name}_low": Column(np.int16, width - 1),
            f"{name}_high": Column(np.int16, 0),
        }

    def add(self, rows: Indices, values: Floats, weight: float, at: Floats | float) -> None:
        """Add one sample to each row, in order. A row may stand there twice only with equal times."""
        self._catch_up(rows, at)
        weights = self.rows.floats(f"{self.name}_weights").reshape(-1)
        decayed = weight * np.exp2((at - self.rows.floats(f"{self.name}_reference")[rows]) / self.half_life)
        buckets = self.scale.find(values)
        cells = rows * self.width + buckets
        np.add.at(weights, cells, decayed)
        np.add.at(self.rows.floats(f"{self.name}_total"), rows, decayed)
        self._widen(rows, buckets, weights[cells])

    def subtract(self, rows: Indices, values: Floats, weight: float, at: Floats | float) -> None:
        """Take one sample from each row; no row twice. What is left below epsilon becomes nothing."""
        self._catch_up(rows, at)
        weights, total = self.rows.floats(f"{self.name}_weights"), self.rows.floats(f"{self.name}_total")
        decayed = weight * np.exp2((at - self.rows.floats(f"{self.name}_reference")[rows]) / self.half_life)
        buckets = self.scale.find(values)
        weights[rows, buckets] = self._at_least_epsilon(weights[rows, buckets] - decayed)
        total[rows] = self._at_least_epsilon(total[rows] - decayed)
        self._tighten(rows)

    def merge(self, into: int, other: int) -> None:
        """Add all of row `other` to row `into`. The one with the older reference is scaled first, be it the other one."""
        reference = self.rows.floats(f"{self.name}_reference")
        newest = max(reference[into], reference[other])
        for row in (into, other):
            if reference[row] < newest:
                self._scale(np.array([row]), np.array([newest]))
        weights, total = self.rows.floats(f"{self.name}_weights"), self.rows.floats(f"{self.name}_total")
        low, high = self.rows.whole(f"{self.name}_low"), self.rows.whole(f"{self.name}_high")
        span = slice(int(low[other]), int(high[other]) + 1)
        weights[into, span] += weights[other, span]
        total[into] += total[other]
        low[into], high[into] = min(low[into], low[other]), max(high[into], high[other])

    def percentiles(self, rows: Indices, shares: Sequence[float]) -> list[Floats]:
        """For each share p the end of the first bucket at which the running sum reaches p * total; 0 where nothing is."""
        found = [np.zeros(len(rows)) for _ in shares]
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            for place, ends in zip(found, self._block(block, shares), strict=True):
                place[start : start + _BLOCK] = ends
        return found

    def _block(self, rows: Indices, shares: Sequence[float]) -> list[Floats]:
        low, high = self._ends(rows)
        weights = self.rows.floats(f"{self.name}_weights")[rows]
        index = np.arange(len(rows))
        empty = weights[index, low] < self.scale.epsilon
        below = np.arange(self.width) < low[:, None]
        weights[below] = 0.0
        sums = np.cumsum(weights, axis=1)
        total = self.rows.floats(f"{self.name}_total")[rows]
        ends = np.append(self.scale.starts[1:], self.scale.starts[-1])
        return [np.where(empty, 0.0, ends[_reach(sums, share * total, low, high)]) for share in shares]

    def _ends(self, rows: Indices) -> tuple[Indices, Indices]:
        low, high = self.rows[f"{self.name}_low"][rows], self.rows[f"{self.name}_high"][rows]
        return low.astype(np.int64), high.astype(np.int64)

    def _catch_up(self, rows: Indices, at: Floats | float) -> None:
        """Give rows a new reference where `at` is far beyond the old one: the half life nearest to `at`, half up."""
        far = at > self.rows.floats(f"{self.name}_reference")[rows] + _FAR * self.half_life
        if not far.any():
            return
        late, first = np.unique(rows[far], return_index=True)
        when = np.broadcast_to(at, rows.shape)[far][first]
        self._scale(late, np.floor((when - NEVER) / self.half_life + 0.5) * self.half_life + NEVER)

    def _scale(self, rows: Indices, reference: Floats) -> None:
        """Count the weights from a new reference; whole half lives, so the factor is a power of two."""
        old = self.rows.floats(f"{self.name}_reference")
        factor = np.exp2(np.rint((old[rows] - reference) / self.half_life))
        self.rows.floats(f"{self.name}_weights")[rows] *= factor[:, None]
        self.rows.floats(f"{self.name}_total")[rows] *= factor
        old[rows] = reference
        self._tighten(rows)

    def _widen(self, rows: Indices, buckets: Indices, weights: Floats) -> None:
        """Move the ends outwards to buckets that now weigh something."""
        low, high = self.rows.whole(f"{self.name}_low"), self.rows.whole(f"{self.name}_high")
        for end, beyond, move in ((low, buckets < low[rows], np.minimum), (high, buckets > high[rows], np.maximum)):
            if beyond.any():
                heavy = beyond & (weights >= self.scale.epsilon)
                move.at(end, rows[heavy], buckets[heavy].astype(np.int16))

    def _tighten(self, rows: Indices) -> None:
        """Move the ends inwards over buckets below epsilon."""
        filled = self.rows.floats(f"{self.name}_weights")[rows] >= self.scale.epsilon
        low, high = self._ends(rows)
        index = np.arange(self.width)
        lowest = np.where(filled & (index >= low[:, None]), index, self.width - 1).min(axis=1)
        highest = np.where(filled & (index <= high[:, None]), index, 0).max(axis=1)
        self.rows[f"{self.name}_low"][rows] = lowest.astype(np.int16)
        self.rows[f"{self.name}_high"][rows] = highest.astype(np.int16)

    def _at_least_epsilon(self, weights: Floats) -> Floats:
        return np.where(weights < self.scale.epsilon, 0.0, weights)


def _reach(sums: NDArray[np.float64], threshold: Floats, low: Indices, high: Indices) -> Indices:
    """For each row the first bucket from `low` on whose running sum reaches the threshold, `high` at the latest.

    Sums never fall, so the buckets below the threshold are the first ones, and counting them finds the next.
    """
    short = np.count_nonzero(sums < threshold[:, None], axis=1)
    return np.asarray(np.maximum(np.minimum(short, high), low))
