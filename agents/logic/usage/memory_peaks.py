"""Memory counts as one peak for each container and window; a higher use in the same window replaces the lower one.

A container's first sample opens its window, so windows are not aligned between containers. An OOM kill counts as a sample above
the container's limit, which plain usage can never show.
"""

import numpy as np

from agents.engine.tables.row_table import ColumnSpec, Floats, Indices, RowTable
from agents.logic.usage.histograms import Histograms
from agents.logic.usage.scrape_lookup import layers
from schemas.times import NEVER

# The lowest memory use of each container in each hour, and which containers' only rises.
# Garbage collection and requests come and go within an hour, so that the lowest use of an hour is what a container cannot give
# back. It leaks if that rose in each of the last `hours` hours, by enough in all and in the last one, and is not the load. An
# hour without a sample ends a series and forgets what was used before, and so does a restart. docs/usage.md has how often this is
# wrong, measured on real traces.

LEAST_RISE = 0.2
"""The share of itself that the lowest use rises by in all."""
STILL = 0.25
"""In the last hour it rises by at least this share of the mean of all hours: caches and warm-ups rise more and more slowly."""
FELL = 0.1
"""Growth with the load is no leak until CPU has fallen by this share from its highest."""
HOUR = 3600.0

COLUMNS = {
    "hour": ColumnSpec(np.int32, -1),
    "hour_low": ColumnSpec(np.float32, np.nan),
    "last_low": ColumnSpec(np.float32, np.nan),
    "first_low": ColumnSpec(np.float32, np.nan),
    "rises": ColumnSpec(np.int16),
    "high": ColumnSpec(np.float32, np.nan),
    "hour_cpu": ColumnSpec(np.float32, np.nan),
    "first_cpu": ColumnSpec(np.float32, np.nan),
    "high_cpu": ColumnSpec(np.float32, np.nan),
}
"""Of each container: the hour (since 1970) of its newest sample and the lowest use in it; the lowest use of the last whole hour
and of the hour before the first rise; the hours in a row that rose; the highest of these lows before them, since the container
was started. Of CPU: the lowest use in the hour of the newest sample, in the hour before the first rise, and the highest of these
since. Bytes in single precision are exact to a seven-millionth."""
_MOST_RISES = 30_000


class HourlyMinima:
    """The series of `containers`. A container leaks after `hours` rises; 0 keeps no series at all."""

    def __init__(self, containers: RowTable, hours: int) -> None:
        self._containers, self._hours = containers, min(hours, _MOST_RISES)
        self.leaking: list[int] = []
        """Rows of containers that an hour ended for in which they leaked, since somebody took this list."""

    def add(self, rows: Indices, used: Floats, at: Floats) -> None:
        """One sample of bytes at a time in seconds for each row; no row twice, none older than the row's newest."""
        if not self._hours or not len(rows):
            return
        columns = self._containers
        hours, kept = (at / HOUR).astype(np.int64), columns.whole("hour")[rows]
        low = columns.floats("hour_low")
        new = hours > kept
        if np.count_nonzero(new):
            self._end_hours(rows[new], hours[new], kept[new])
        low[rows] = np.fmin(low[rows], used)

    def load(self, rows: Indices, cores: Floats) -> None:
        """The CPU of samples that were just added. Absent and negative amounts are none."""
        if self._hours and len(rows):
            low = self._containers.floats("hour_cpu")
            low[rows] = np.fmin(low[rows], np.where(cores >= 0.0, cores, np.nan))

    def _end_hours(self, rows: Indices, hours: Indices, ended: Indices) -> None:
        """The hours `ended` are over for these rows, whose newest samples are of `hours`."""
        columns = self._containers
        low, last, first, high = (columns.floats(name) for name in ("hour_low", "last_low", "first_low", "high"))
        low_cpu, first_cpu, high_cpu = (columns.floats(name) for name in ("hour_cpu", "first_cpu", "high_cpu"))
        lowest, before, cores = low[rows], last[rows], low_cpu[rows]
        rose = lowest > before
        count = np.where(rose, np.minimum(columns.whole("rises")[rows] + 1, _MOST_RISES), 0)
        columns["rises"][rows] = count
        first[rows] = np.where(rose, first[rows], lowest)
        first_cpu[rows] = np.where(rose, first_cpu[rows], cores)
        high_cpu[rows] = np.where(rose, np.fmax(high_cpu[rows], cores), cores)
        high[rows] = np.where(rose, high[rows], np.where(np.isnan(before), np.nan, np.fmax(high[rows], before)))
        last[rows] = np.where(hours == ended + 1, lowest, np.nan)
        columns["hour"][rows], low[rows] = hours, np.nan
        low_cpu[rows] = np.nan
        many = (count >= self._hours) & (hours == ended + 1)  # of a series that an hour without a sample ended nothing is known
        if np.count_nonzero(many):
            rows, count, cores = rows[many], count[many], cores[many]
            lowest, before, base = (lows.astype(np.float64) for lows in (lowest[many], before[many], first[rows]))
            grown = lowest - base
            # What rises each morning gives its memory back each night, so a leak must exceed what was used before the series.
            # NaN, where nothing was, passes.
            more = ~(lowest <= high[rows])
            # On a container's first morning nothing shows that yet, but its CPU rises with it: no larger a share of memory than
            # of CPU is load.
            loaded = (cores * base > first_cpu[rows] * lowest) & (cores >= (1.0 - FELL) * high_cpu[rows])
            leaks = more & ~loaded & (grown >= LEAST_RISE * base) & ((lowest - before) * count >= STILL * grown)
            self.leaking += rows[leaks].tolist()

    def started_anew(self, row: int) -> None:
        """A container of this row was killed or restarted: what it used before says nothing about what it uses now."""
        for name in ("high", "last_low", "hour_low"):
            self._containers[name][row] = np.nan

    def lowest(self, row: int) -> float:
        """The lowest use of a row in the present and the last whole hour, in bytes; NaN where nothing is known of them."""
        return float(np.fmin(self._containers["hour_low"][row], self._containers["last_low"][row]))

    def series(self, row: int) -> tuple[float, float, int, int]:
        """Of a row that leaks: the lowest use before the first rise and in the last whole hour, the rises, and that hour."""
        columns = self._containers
        first, last = (float(columns[name][row]) for name in ("first_low", "last_low"))
        return first, last, int(columns["rises"][row]), int(columns["hour"][row]) - 1


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
