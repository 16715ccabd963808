"""Finds the rows of a whole scrape at once: equal name columns are the same tuple objects, so identity is enough.

A found scrape lists its rows in key order, so that sums do not depend on the order of a scrape. It forgets a scrape when one of
its rows was freed or relinked, and everything when it holds too much.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agents.engine.tables.row_table import CHUNK, Indices, RowTable

NameColumn = tuple[str, ...]

_REMEMBERED = 4096
"""Scrapes remembered at most; more than the batches of one round of a partition."""

_FEW = 64
"""Rows of which Python finds sooner than numpy that none stands twice."""
_FREED = 100_000
"""Row numbers given back that are remembered at most."""


@dataclass(slots=True)
class ScrapeLayer:
    """A part of a scrape in which no container occurs twice. `order`: positions in the scrape; None for all, in order.

    `apart`: no aggregate occurs twice either.
    """

    order: Indices | None
    containers: Indices
    aggregates: Indices
    container_chunks: list[int]
    aggregate_chunks: list[int]
    apart: bool


@dataclass(slots=True)
class ScrapeRows:
    """A scrape's rows; holds the name columns, so that no other objects get their identity.

    `passed_over`: some rows do not count.
    """

    names: tuple[NameColumn, NameColumn, NameColumn]
    layers: list[ScrapeLayer]
    rows: Indices
    freed: int
    passed_over: bool


class ScrapeLookup:
    """Remembers the rows of scrapes; `row` makes or finds the row of a container by workload, pod and container, -1 for none."""

    def __init__(self, containers: RowTable, row: Callable[[str, str, str], int]) -> None:
        self._containers, self._row = containers, row
        self._remembered: dict[tuple[int, int, int], ScrapeRows] = {}
        self._again = False

    def find(self, workloads: NameColumn, pods: NameColumn, names: NameColumn) -> list[ScrapeLayer]:
        """The rows of one scrape."""
        if self._again:
            self._remembered = {key: scrape for key, scrape in self._remembered.items() if not scrape.passed_over}
            self._again = False
        # The codec returns the same tuple for the same bytes, and a remembered scrape keeps its tuples alive.
        key = (id(workloads), id(pods), id(names))
        scrape = self._remembered.get(key)
        if scrape is not None and self._stands(scrape):
            return scrape.layers
        # Positions in `freed` are what a scrape remembers, so the two are dropped together.
        if len(self._remembered) >= _REMEMBERED or len(self._containers.freed) >= _FREED:
            self._remembered.clear()
            self._containers.freed.clear()
        self._remembered[key] = scrape = self._search((workloads, pods, names))
        return scrape.layers

    def look_again(self) -> None:
        """Ignored rows may count now."""
        self._again = True

    def _stands(self, scrape: ScrapeRows) -> bool:
        """Whether none of its rows was freed since the last look-up."""
        freed = self._containers.freed
        if scrape.freed == len(freed):
            return True
        if np.isin(freed[scrape.freed :], scrape.rows).any():
            return False
        scrape.freed = len(freed)
        return True

    def _search(self, names: tuple[NameColumn, NameColumn, NameColumn]) -> ScrapeRows:
        keys = list(zip(*names, strict=True))
        # In the order of the keys, so that sums do not depend on the order in which a source sends its rows.
        order = sorted(range(len(keys)), key=keys.__getitem__)
        every = np.array([self._row(*keys[i]) for i in order], np.int64)
        counts = every >= 0
        rows, positions = every[counts], np.array(order, np.int64)[counts]
        in_layers = [self.layer(positions[part], rows[part], whole=len(part) == len(every)) for part in layers(rows)]
        return ScrapeRows(names, in_layers, rows, len(self._containers.freed), passed_over=not counts.all())

    def layer(self, order: Indices, rows: Indices, *, whole: bool) -> ScrapeLayer:
        """A layer of these container rows, which stand at `order` in the scrape."""
        aggregates = self._containers["aggregate"][rows].astype(np.int64)
        as_they_stand = whole and bool((order == np.arange(len(order))).all())
        apart = len(np.unique(aggregates)) == len(aggregates)
        return ScrapeLayer(None if as_they_stand else order, rows, aggregates, _chunks(rows), _chunks(aggregates), apart)


def _chunks(rows: Indices) -> list[int]:
    return [int(chunk) for chunk in np.unique(rows // CHUNK)]


def layers(rows: Indices) -> list[Indices]:
    """Positions in `rows`, cut so that no layer holds a row twice and each row's positions come in order."""
    if len(rows) <= _FEW and len(set(rows.tolist())) == len(rows):
        return [np.arange(len(rows))]
    order = np.argsort(rows, kind="stable")
    ranked = rows[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    rank = np.arange(len(rows)) - np.repeat(starts, np.diff(np.r_[starts, len(rows)]))
    if not len(rank) or rank.max() == 0:
        return [np.arange(len(rows))]
    place = np.empty_like(rank)
    place[order] = rank
    return [np.flatnonzero(place == layer) for layer in range(rank.max() + 1)]
