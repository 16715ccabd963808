"""Memory counts as one peak for each container and window; a higher use in the same window replaces the lower one.

A container's first sample opens its window, so windows are not aligned between containers. An OOM kill counts as a sample above
the container's limit, which plain usage can never show.
"""

import numpy as np

from agents.engine.tables.row_table import Floats, Indices, RowTable
from agents.logic.usage.histograms import Histograms
from agents.logic.usage.hourly_minima import HourlyMinima
from agents.logic.usage.scrape_lookup import layers
from schemas.times import NEVER

WEIGHT = 1.0
"""Weight of a peak; it is stamped with the end of its window."""


class MemoryPeaks:
    """Feeds the peaks of `containers` into the memory histograms of their aggregates, whose `window` is how long one lasts.

    `minima` is told of the same samples.
    """

    def __init__(self, containers: RowTable, memory: Histograms, minima: HourlyMinima, *, zero_is_absent: bool = False) -> None:
        self.containers, self.memory, self._minima = containers, memory, minima
        # The smallest number above zero, so that one comparison serves both settings.
        self._least = np.nextafter(0.0, 1.0) if zero_is_absent else 0.0

    def add(self, rows: Indices, aggregates: Indices, used: Floats, at: Floats, *, apart: bool = False) -> None:
        """One sample of usage for each row; no row twice. Absent, negative and late amounts are dropped.

        `apart`: no aggregate occurs twice either.
        """
        last = self.containers.floats("last_memory")
        with np.errstate(invalid="ignore"):
            # Equal times pass, unlike CPU's, as in upstream's addMemorySample (pkg/recommender/model/container.go).
            good = (used >= self._least) & (at >= last[rows])
        if not good.all():
            rows, aggregates, used, at = rows[good], aggregates[good], used[good], at[good]
        last[rows] = at
        self._minima.add(rows, used, at)
        self._feed(rows, aggregates, used, at, apart=apart)

    def kill(self, row: int, aggregate: int, memory: float, at: float) -> None:
        """A peak that an OOM kill shows, which may be older than the last sample."""
        self.containers.floats("last_memory")[row] = at
        self._minima.started_anew(row)
        self._feed(np.array([row]), np.array([aggregate]), np.array([memory]), np.array([at]), column="killed", apart=True)

    def _feed(  # noqa: PLR0913  # what a sample is, by keyword
        self, rows: Indices, aggregates: Indices, used: Floats, at: Floats, *, apart: bool, column: str = "peak"
    ) -> None:
        """Sort samples into those that open a window, those above the window's peak, and the rest, which is most of them."""
        end = self.containers.floats("window_end")
        old = np.maximum(self.containers.floats("peak")[rows], self.containers.floats("killed")[rows])
        opens = at >= end[rows]
        news = opens | ((old != 0.0) & (used > old))
        # Most samples of a day are below the day's peak, so most scrapes end here.
        if not np.count_nonzero(news):
            return
        rows, aggregates, used, old, opens, at = rows[news], aggregates[news], used[news], old[news], opens[news], at[news]
        opened = rows[opens]
        if len(opened):
            window = self.memory.rows.floats("window")[aggregates[opens]]
            end[opened] = _window_end(end[opened], at[opens], window)
            self.containers.floats("peak")[opened] = 0.0
            self.containers.floats("killed")[opened] = 0.0
        self._count(aggregates, np.where(opens, 0.0, old), used, end[rows], apart=apart)
        self.containers.floats(column)[rows] = used

    def _count(self, aggregates: Indices, old: Floats, used: Floats, at: Floats, *, apart: bool) -> None:
        """Replace `old` (0: nothing) by `used`, one sample after the other within an aggregate."""
        if not np.count_nonzero(old) and (at == at[0]).all():
            self.memory.add(aggregates, used, WEIGHT, at, apart=apart)
            return
        # One after the other within an aggregate, because sums of floats depend on their order.
        for now in (np.arange(len(aggregates)),) if apart else layers(aggregates):
            replaced = now[old[now] != 0.0]
            if len(replaced):
                self.memory.subtract(aggregates[replaced], old[replaced], WEIGHT, at[replaced])
            self.memory.add(aggregates[now], used[now], WEIGHT, at[now], apart=True)


def _window_end(ends: Floats, at: Floats, window: Floats) -> Floats:
    """The end of the window that holds `at`; the first sample of all opens one.

    end + floor((at - end) / window) * window + window
    """
    ends = np.where(ends == NEVER, at, ends)
    return np.asarray(ends + np.floor((at - ends) / window) * window + window)
