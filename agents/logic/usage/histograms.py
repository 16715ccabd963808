"""Decaying histograms, many at once: one row of a table for each, all sums in the order the samples are given.

A sample weighs w * 2^((at - reference) / half life), so old samples lose weight without being touched. When a sample lies more
than 100 half lives after a row's reference, the row is scaled to a new one. Rules and order of operations are upstream's, except
that rows may have their own half lives.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import ColumnSpec, Floats, Indices, RowTable, distinct
from agents.logic.usage.buckets import Buckets
from agents.logic.usage.scrape_lookup import layers
from schemas.times import NEVER

Shares = Sequence[float | Floats]
"""Percentiles to look for, each one number or one for each row."""

_FAR = 100.0
"""Half lives after its reference at which a histogram gets a new one."""

_BLOCK = 1024
"""Rows handled together in whole width, so that they fit into a core's cache."""

_MANY = 200
"""Lines from which adding column by column is sooner done than line by line."""

_MOST_COUNTED = 255
"""Numbers of a line that a byte can count."""


class Histograms:
    """The histograms in columns `<name>_...` of `rows`. A half life of infinity means no decay."""

    def __init__(self, rows: RowTable, name: str, scale: Buckets) -> None:
        self.rows, self.name, self.scale = rows, name, scale
        self.weights = rows.spans(f"{name}_weights")
        self.width = len(scale.starts)
        self._ends = np.append(scale.starts[1:], scale.starts[-1])

    @staticmethod
    def columns(name: str, scale: Buckets, half_life: float) -> Mapping[str, ColumnSpec]:
        """What a table needs to hold such histograms."""
        width = len(scale.starts)
        return {
            f"{name}_weights": ColumnSpec(width=width),
            f"{name}_total": ColumnSpec(),
            f"{name}_reference": ColumnSpec(default=NEVER),
            f"{name}_half_life": ColumnSpec(default=half_life),
            f"{name}_low": ColumnSpec(np.int16, width - 1),
            f"{name}_high": ColumnSpec(np.int16, 0),
            f"{name}_changed": ColumnSpec(np.bool_, 1.0, kept=False),
        }

    @property
    def total(self) -> Floats:
        """The sum of weights of each row."""
        return self.rows.floats(f"{self.name}_total")

    @property
    def reference(self) -> Floats:
        """The time from which each row's weights are counted."""
        return self.rows.floats(f"{self.name}_reference")

    @property
    def half_life(self) -> Floats:
        """Seconds in which a weight of each row halves."""
        return self.rows.floats(f"{self.name}_half_life")

    @property
    def low(self) -> Indices:
        """The first bucket of each row that weighs something."""
        return self.rows.whole(f"{self.name}_low")

    @property
    def high(self) -> Indices:
        """The last one."""
        return self.rows.whole(f"{self.name}_high")

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Whether a row's weights may have changed since this was set to False; also True if it is new or was loaded."""
        return self.rows.marks(f"{self.name}_changed")

    def add(self, rows: Indices, values: Floats, weight: float, at: Floats | float, *, apart: bool = False) -> None:
        """Add one sample to each row, in order. `apart`: no row occurs twice, which is faster."""
        far = self._far(rows, at)
        if np.count_nonzero(far):  # several times as fast as any()
            if not apart and isinstance(at, np.ndarray) and (at != at[0]).any() and len(now := layers(rows)) > 1:
                # A row that stands twice may need two references one after the other, so each of its samples has its own call.
                for part in now:
                    self.add(rows[part], values[part], weight, at[part])
                return
            self._catch_up(rows, at, far)
        # Newer samples weigh more, instead of old ones less, so that nothing has to be touched as time passes.
        decayed = weight * np.exp2((at - self.reference[rows]) / self.half_life[rows])
        buckets = self.scale.find(values)
        cells = self.weights.cells(rows, buckets)
        if apart:
            heavier = self.weights.pool[cells] + decayed
            self.weights.pool[cells] = heavier
            self.total[rows] += decayed
        else:
            # A row may stand several times here, which plain indexing would count once.
            np.add.at(self.weights.pool, cells, decayed)
            np.add.at(self.total, rows, decayed)
            heavier = self.weights.pool[cells]
        self.changed[rows] = True
        self._widen(rows, buckets, heavier)

    def subtract(self, rows: Indices, values: Floats, weight: float, at: Floats | float) -> None:
        """Take one sample from each row; no row twice. What is left below epsilon becomes zero."""
        self._catch_up(rows, at, self._far(rows, at))
        decayed = weight * np.exp2((at - self.reference[rows]) / self.half_life[rows])
        cells = self.weights.cells(rows, self.scale.find(values))
        self.weights.pool[cells] = self._at_least_epsilon(self.weights.pool[cells] - decayed)
        self.total[rows] = self._at_least_epsilon(self.total[rows] - decayed)
        self.changed[rows] = True
        self._tighten(rows)

    def absorb(self, rows: Indices, other: "Histograms", others: Indices) -> None:
        """Add a row of `other`, which stays as it is, to each row; no row twice. Half lives are equal.

        Of two references the newer one counts, and what was counted from the older one is scaled to it.
        """
        for start in range(0, len(rows), _BLOCK):
            self._absorb(rows[start : start + _BLOCK], other, others[start : start + _BLOCK])

    def _absorb(self, rows: Indices, other: "Histograms", others: Indices) -> None:
        theirs = other.reference[others]
        newest = np.maximum(self.reference[rows], theirs)
        older = self.reference[rows] < newest
        if older.any():
            self._scale(rows[older], newest[older])
        factor = np.exp2(np.rint((theirs - newest) / other.half_life[others]))
        block = other.weights.dense(others)
        low, high = other.low[others].astype(np.int64), other.high[others].astype(np.int64)
        index = np.arange(self.width)
        scaled = np.flatnonzero(factor != 1.0)
        block[scaled] *= factor[scaled, None]
        if len(scaled):
            low[scaled], high[scaled] = self._within(block[scaled], low[scaled], high[scaled], index)
        # Buckets beyond the ends may hold weights below epsilon; upstream merges only what lies between.
        block[(index < low[:, None]) | (index > high[:, None])] = 0.0
        self.weights.add(rows, block)
        self.total[rows] += other.total[others] * factor
        self.changed[rows] = True
        self.low[rows] = np.minimum(self.low[rows], low)
        self.high[rows] = np.maximum(self.high[rows], high)

    def absorb_all(self, row: int, other: "Histograms", others: Indices) -> None:
        """Add rows of `other` to one row, in order: the same sums as absorbing one after the other, many times as fast."""
        references = other.reference[others]
        begins = np.flatnonzero(np.r_[True, references[1:] != references[:-1]])
        for start, end in zip(begins, [*begins[1:], len(others)], strict=True):
            for first in range(start, end, _BLOCK):
                self._absorb_alike(row, other, others[first : min(first + _BLOCK, end)])

    def _absorb_alike(self, row: int, other: "Histograms", others: Indices) -> None:
        """Add rows with one reference."""
        into, theirs = np.array([row]), other.reference[others[:1]]
        newest = np.maximum(self.reference[into], theirs)
        if self.reference[row] < newest[0]:
            self._scale(into, newest)
        factor = np.exp2(np.rint((theirs - newest) / other.half_life[others[:1]]))
        block = other.weights.dense(others)
        low, high = other.low[others].astype(np.int64), other.high[others].astype(np.int64)
        index = np.arange(self.width)
        if factor[0] != 1.0:
            block *= factor[0]
            low, high = self._within(block, low, high, index)
        block[(index < low[:, None]) | (index > high[:, None])] = 0.0
        self.weights.put(into, _sums(np.concatenate([self.weights.dense(into), block])))
        self.changed[row] = True
        self.total[row] = _sums(np.append(self.total[row], other.total[others] * factor[0]))[0]
        self.low[row] = min(int(self.low[row]), int(low.min()))
        self.high[row] = max(int(self.high[row]), int(high.max()))

    def percentiles(self, rows: Indices, shares: Shares) -> list[Floats]:
        """For each share p the end of the first bucket at which the running sum reaches p * total; 0 where nothing is.

        Upstream's histogram.Percentile (pkg/recommender/util/histogram.go). One array for each share, one element for each row.
        """
        percentiles = [np.zeros(len(rows)) for _ in shares]
        low, high = self.low[rows].astype(np.int64), self.high[rows].astype(np.int64)
        filled = (low <= high).nonzero()[0]
        for part in _alike(filled, (high - low)[filled]):
            first, last, total = low[part], high[part], self.total[rows[part]]
            wanted = [(share[part] if isinstance(share, np.ndarray) else share) * total for share in shares]
            reached = _reached(self.weights.stretches(rows[part], first, last), wanted)
            for place, steps in zip(percentiles, reached, strict=True):
                place[part] = self._ends[np.minimum(first + steps, last)]
        return percentiles

    def live_for(self, rows: Indices, half_lives: Floats, at: float) -> None:
        """Change the half lives of these rows from `at` on; their weights at that moment stay; no row twice."""
        other = half_lives != self.half_life[rows]
        rows, half_lives = rows[other], half_lives[other]
        if not len(rows):
            return
        reference = _nearest(at, half_lives)
        # What each weight is worth at `at` stays the same under the new half life and its own multiple as a reference.
        exact = np.exp2((self.reference[rows] - at) / self.half_life[rows] - (reference - at) / half_lives)
        self._multiply(rows, np.where(self.reference[rows] == NEVER, 0.0, exact))
        self.reference[rows] = np.where(self.reference[rows] == NEVER, NEVER, reference)
        self.half_life[rows] = half_lives

    def _far(self, rows: Indices, at: Floats | float) -> NDArray[np.bool_]:
        """Which rows need a new reference."""
        return np.asarray(at > self.reference[rows] + _FAR * self.half_life[rows])

    def _catch_up(self, rows: Indices, at: Floats | float, far: NDArray[np.bool_]) -> None:
        """Give rows a new reference where `at` is far beyond the old one: the half life nearest to `at`, half up."""
        if not np.count_nonzero(far):
            return
        # The first sample of a row decides, as it would one after the other.
        late, first = np.unique(rows[far], return_index=True)
        when = np.broadcast_to(at, rows.shape)[far][first]
        self._scale(late, _nearest(when, self.half_life[late]))

    def _scale(self, rows: Indices, reference: Floats) -> None:
        """Count the weights from a new reference; whole half lives, so the factor is a power of two."""
        factor = np.exp2(np.rint((self.reference[rows] - reference) / self.half_life[rows]))
        self.reference[rows] = reference
        self._multiply(rows, factor)

    def _multiply(self, rows: Indices, factor: Floats) -> None:
        self.weights.scale(rows, factor)
        self.total[rows] *= factor
        self.changed[rows] = True
        self._tighten(rows)

    def _widen(self, rows: Indices, buckets: Indices, weights: Floats) -> None:
        """Move the ends outwards to buckets that now weigh something."""
        for end, beyond, move in (
            (self.low, buckets < self.low[rows], np.minimum),
            (self.high, buckets > self.high[rows], np.maximum),
        ):
            if np.count_nonzero(beyond):
                heavy = beyond & (weights >= self.scale.epsilon)
                move.at(end, rows[heavy], buckets[heavy].astype(np.int16))

    def _tighten(self, rows: Indices) -> None:
        """Move the ends inwards over buckets below epsilon; over all of them where nothing is left."""
        room = np.zeros(len(rows), np.bool_)
        for positions, base, cells in self.weights.alike(rows):
            part = rows[positions]
            low, high = self.low[part].astype(np.int64), self.high[part].astype(np.int64)
            index = base[:, None] + np.arange(cells.shape[1])
            self.low[part], self.high[part] = self._within(self.weights.pool[cells], low, high, index)
            room[positions] = True
        # Rows that have no span at all are empty: the ends cross.
        self.low[rows[~room]], self.high[rows[~room]] = self.width - 1, 0

    def _within(self, weights: Floats, low: Indices, high: Indices, index: Indices) -> tuple[Indices, Indices]:
        """The ends moved inwards; `index` says which buckets the columns are."""
        filled = weights >= self.scale.epsilon
        lowest = np.where(filled & (index >= low[:, None]), index, self.width - 1).min(axis=1)
        highest = np.where(filled & (index <= high[:, None]), index, 0).max(axis=1)
        return lowest, highest

    def _at_least_epsilon(self, weights: Floats) -> Floats:
        return np.where(weights < self.scale.epsilon, 0.0, weights)


def _alike(positions: Indices, spans: Indices) -> Iterator[Indices]:
    """Positions in blocks of rows that span about as many buckets, so that few zeros fill them up. Few rows are one block."""
    if len(positions) <= _BLOCK:
        if len(positions):
            yield positions
        return
    sixteenths = spans >> 4
    # Blocks of about half a megabyte, which stay in a core's cache.
    for size in distinct(sixteenths).tolist():
        same = positions[sixteenths == size]
        step = 65_536 // (16 * (size + 1))
        for start in range(0, len(same), step):
            yield same[start : start + step]


def _reached(block: Floats, wanted: Sequence[Floats]) -> list[NDArray[np.integer]]:
    """For each array of sums wanted, one for each line: how many numbers come before the running sum is as high.

    A sum that is never reached comes with the last of them. Many lines are added column by column, a whole column in one call.
    """
    if len(block) < _MANY or block.shape[1] > _MOST_COUNTED:
        sums = np.cumsum(block, axis=1, out=block)
        # So that a sum that rounding keeps from being reached comes with the last bucket.
        sums[:, -1] = np.inf
        return [(sums >= want[:, None]).argmax(axis=1) for want in wanted]
    columns = np.ascontiguousarray(block.T)
    for before, column in pairwise(columns):
        np.add(before, column, out=column)
    columns[-1] = np.inf
    lower = ((columns < want).view(np.uint8) for want in wanted)
    return [np.add.reduce(below, axis=0, dtype=np.uint8) for below in lower]


def _sums(terms: Floats) -> Floats:
    """The sums over the first axis, added one after the other, because `sum` would add in pairs."""
    return np.asarray(np.add.accumulate(terms, axis=0)[-1:])


def _nearest(at: Floats | float, half_life: Floats) -> Floats:
    """The multiple of the half life, counted from Go's zero time, that is nearest to `at`, half up."""
    return np.asarray(np.floor((at - NEVER) / half_life + 0.5) * half_life + NEVER)
