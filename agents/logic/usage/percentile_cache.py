"""Percentiles of histograms that few samples change, such as memory's daily peaks: a row is only searched when it has changed."""

import numpy as np

from agents.engine.tables.row_table import Floats, Indices
from agents.logic.usage.histograms import Histograms


class PercentileCache:
    """Finds `count` percentiles of rows of `histograms`, of which it alone takes the marks of what changed.

    The result equals that of `Histograms.percentiles`, which depends only on a row's weights, total and shares.
    """

    def __init__(self, histograms: Histograms, count: int = 3) -> None:
        self._of = histograms
        self._shares = [np.zeros(0) for _ in range(count)]
        self._found = [np.zeros(0) for _ in range(count)]

    def find(self, rows: Indices, shares: Floats) -> list[Floats]:
        """For each column of `shares` (rows, count) the percentiles, one element for each row."""
        more = len(self._of.total) - len(self._found[0])
        if more > 0:
            self._shares, self._found = (
                [np.append(each, np.zeros(more)) for each in kept] for kept in (self._shares, self._found)
            )
        again = self._of.changed[rows]
        for before, share in zip(self._shares, shares.T, strict=True):
            again |= before[rows] != share
        if np.count_nonzero(again):
            stale, wanted = rows[again], list(shares[again].T)
            for kept, now in ((self._found, self._of.percentiles(stale, wanted)), (self._shares, wanted)):
                for column, values in zip(kept, now, strict=True):
                    column[stale] = values
            self._of.changed[stale] = False
        return [column[rows] for column in self._found]
