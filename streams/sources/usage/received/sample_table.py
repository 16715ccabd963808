"""The newest samples of many series as columns, and PromQL's rate over them.

A table keeps a fixed number of samples of each series, so its memory follows from the number of series alone. A stale marker,
written as NaN, ends a series until its next sample. There is no clock here.
"""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.sources.usage.readings import Floats

_NEVER = float("-inf")
_FIRST_ROWS = 1024
_BEFORE = 1e-3
"""Seconds by which a range begins before the sample that is to be in it: times are whole milliseconds."""
_CLOSE = 1.1
"""PromQL: a sample this many times the average distance from the edge of the range still belongs to it."""
MOST_OF_SERIES = 1_000
"""Samples of one series that are taken at once: each costs a step of its own, and no sender has as many."""
_AT_ONCE = 8192
"""Rows whose rates are computed together: some MB, however large the table is."""


class SampleTable:
    """`depth` samples of each series, for a window of so many seconds. Times are seconds since the epoch."""

    def __init__(self, depth: int, window: float = 0.0) -> None:
        self._spacing = window / (depth - 2) if depth > 1 else 0.0
        self._times, self._values = np.full((0, depth), _NEVER), np.zeros((0, depth))
        self._next = np.empty(0, np.int64)
        """Where in its row the next sample of a series goes."""
        self.newest: Floats = np.empty(0)
        """When the newest sample or stale marker of each series was taken (rows,)."""
        self.stale: NDArray[np.bool_] = np.empty(0, np.bool_)
        """Whether that was a stale marker (rows,)."""

    def grow(self, rows: int) -> None:
        """Have room for so many rows. New ones are empty."""
        have = len(self.newest)
        if rows <= have:
            return
        more = max(rows, 2 * have, _FIRST_ROWS) - have
        depth = self._times.shape[1]
        self._times = np.concatenate([self._times, np.full((more, depth), _NEVER)])
        self._values = np.concatenate([self._values, np.zeros((more, depth))])
        self._next = np.concatenate([self._next, np.zeros(more, np.int64)])
        self.newest = np.concatenate([self.newest, np.full(more, _NEVER)])
        self.stale = np.concatenate([self.stale, np.zeros(more, np.bool_)])

    def clear(self, rows: NDArray[np.int64]) -> None:
        """Forget these rows, which may then be another series'."""
        self._times[rows], self._values[rows], self._next[rows] = _NEVER, 0.0, 0
        self.newest[rows], self.stale[rows] = _NEVER, False

    def append(self, rows: NDArray[np.int64], at: Floats, values: Floats) -> Counter[str]:
        """Take in samples (n,), those of a series in the order of time. Returns how many became what.

        Those of a series beyond MOST_OF_SERIES are refused.
        """
        order = np.argsort(rows, kind="stable")
        rows, at, values = rows[order], at[order], values[order]
        begins = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]])) if len(rows) else np.empty(0, np.int64)
        rank = np.arange(len(rows)) - np.repeat(begins, np.diff(np.append(begins, len(rows))))
        counts = Counter({"refused": int((rank >= MOST_OF_SERIES).sum())})
        by_rank = np.argsort(rank, kind="stable")
        ends = np.cumsum(np.bincount(rank)[:MOST_OF_SERIES])
        for mine in np.split(by_rank[: ends[-1]], ends[:-1]) if len(ends) else ():
            counts += self._append_different(rows[mine], at[mine], values[mine])
        return counts

    def values(self) -> Floats:
        """The newest value of each series (rows,), whether it is stale or not."""
        last = (self._next - 1) % self._times.shape[1]
        return self._values[np.arange(len(last)), last]

    def rates(self, after: float, until: float, *, watched: float = _NEVER, late: bool = False) -> Floats:
        """PromQL's `rate` of counters over the range (after, until], in units a second (rows,); NaN below two samples.

        Ranges begin where somebody `watched`, or with the series' own older samples. `late`: a sender that catches up brings
        samples late, which are not missing.
        """
        rows = len(self.newest)
        rates = np.full(rows, np.nan)
        for first in range(0, rows, _AT_ONCE):
            chunk = slice(first, first + _AT_ONCE)
            depth = self._times.shape[1]
            order = (self._next[chunk, None] + np.arange(depth)) % depth
            times, values = (np.take_along_axis(column[chunk], order, axis=1) for column in (self._times, self._values))
            # Where PromQL would count what is not here yet as no use, the range is as long, and ends with the newest sample.
            lags = _lags(times, after, until) if late else np.zeros(len(times))
            oldest = np.where(times > _NEVER, times, np.inf).min(axis=1) - _BEFORE
            # Nobody knows what was before somebody watched.
            begins = np.maximum(after - lags, np.minimum(oldest, watched))
            rates[chunk] = extrapolated_rate(times, values, begins, until - lags)
        return rates

    def _append_different(self, rows: NDArray[np.int64], at: Floats, values: Floats) -> Counter[str]:
        """As `append`, with one sample of each series at most."""
        newest, depth = self.newest[rows], self._times.shape[1]
        later, stale = at > newest, np.isnan(values)
        last = (self._next[rows] - 1) % depth
        same = (at == newest) & np.where(stale, self.stale[rows], self._values[rows, last] == values)
        counts = Counter({"repeated": int(same.sum()), "out_of_order": int((~later & ~same).sum())})
        self.newest[rows[later]], self.stale[rows[later]] = at[later], stale[later]
        kept = later & ~stale
        counts["stale"], counts["stored"] = int((later & stale).sum()), int(kept.sum())
        rows, at, values = rows[kept], at[kept], values[kept]
        # Samples that come closer together than the depth allows are thinned: the newest replaces the one before it, but never
        # one at which a counter began anew.
        place = np.where(self._is_crowded(rows, values), self._next[rows] - 1, self._next[rows]) % depth
        self._times[rows, place], self._values[rows, place] = at, values
        self._next[rows] = (place + 1) % depth
        return counts

    def _is_crowded(self, rows: NDArray[np.int64], values: Floats) -> Any:
        """Whether the newest sample of each series is too near the one before it, and no counter began anew at either."""
        depth = self._times.shape[1]
        if depth == 1:
            return np.zeros(len(rows), np.bool_)
        last, before = (self._next[rows] - 1) % depth, (self._next[rows] - 2) % depth
        with np.errstate(invalid="ignore"):
            near = self._times[rows, last] - self._times[rows, before] < self._spacing
        return near & (values >= self._values[rows, last]) & (self._values[rows, last] >= self._values[rows, before])


def _lags(times: Floats, after: float, until: float) -> Floats:
    """Seconds by which each row's newest sample in (after, until] is late; 0 for one that PromQL extrapolates to the end."""
    inside = (times > after) & (times <= until)
    count = inside.sum(axis=1)
    first, last = np.where(inside, times, np.inf).min(axis=1), np.where(inside, times, _NEVER).max(axis=1)
    begin, end = np.where(count > 1, first, until), np.where(count > 1, last, until)
    lag = until - end
    return np.where(lag >= _CLOSE * (end - begin) / np.maximum(count - 1, 1), lag, 0.0)


@np.errstate(over="ignore", invalid="ignore")  # a sender may say 1e308; what comes of it is no amount, and the readings refuse it
def extrapolated_rate(times: Floats, values: Floats, after: Floats, until: Floats) -> Floats:
    """The rate of each row of samples (rows, depth) over its range (after, until], in the order of time.

    -inf as a time means that there is no sample. It is computed as PromQL does (promql/functions.go, extrapolatedRate): what the
    samples rose by is extrapolated to the edges of the range.
    """
    inside = (times > after[:, None]) & (times <= until[:, None])
    count = inside.sum(axis=1)
    enough = count > 1
    rows, depth = np.arange(len(times)), times.shape[1]
    first, last = inside.argmax(axis=1), depth - 1 - inside[:, ::-1].argmax(axis=1)
    fell = inside[:, :-1] & inside[:, 1:] & (values[:, 1:] < values[:, :-1])
    # What a counter had when it began anew is part of the rise.
    rise = values[rows, last] - values[rows, first] + np.where(fell, values[:, :-1], 0.0).sum(axis=1)
    begin, end = np.where(enough, times[rows, first], 0.0), np.where(enough, times[rows, last], 1.0)
    sampled = end - begin
    distance = sampled / np.maximum(count - 1, 1)
    to_start, to_end = begin - after, until - end
    # To an edge that is far from its sample, by half a distance only: the series may have begun or ended there.
    to_start = np.where(to_start >= _CLOSE * distance, distance / 2, to_start)
    to_end = np.where(to_end >= _CLOSE * distance, distance / 2, to_end)
    starts_at = values[rows, first]
    risen = (rise > 0.0) & (starts_at >= 0.0)
    # Never to before the counter's zero.
    to_zero = np.where(risen, sampled * starts_at / np.where(risen, rise, 1.0), to_start)
    reach = sampled + np.minimum(to_start, to_zero) + to_end
    lengths = np.where(enough, until - after, 1.0)
    return np.where(enough, rise * (reach / np.where(enough, sampled, 1.0)) / lengths, np.nan)


class UnreadableRequest(ValueError):
    """The body is not what its headers say. A sender should not send it again."""


class RequestTooLarge(UnreadableRequest):
    """The body is, or says that it will be, beyond a bound."""


class UnreadableSeries(ValueError):
    """One series of a request has labels that no series has. The others of the request are taken."""
