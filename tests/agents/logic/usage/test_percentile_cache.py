"""Percentiles that are kept until a row changes equal those of a fresh look, whatever happens to rows in between."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.tables.row_table import RowTable
from agents.logic.usage.buckets import memory_buckets
from agents.logic.usage.container_usage import PercentileCache
from agents.logic.usage.histogram_checkpoints import restore
from agents.logic.usage.histograms import Histograms
from schemas.facts.usage import SavedHistogram

DAY, NOW, SCALE = 86_400.0, 1_767_225_600.0, memory_buckets(0.05)
NAMES = ("a", "b", "c", "d")
SHARES = (0.5, 0.9, 0.95)


class Site:
    """A table of histograms, in which each name of NAMES may have a row, and what is kept of them."""

    def __init__(self) -> None:
        self.table = RowTable("test", Histograms.columns("memory", SCALE, DAY))
        self.memory = Histograms(self.table, "memory", SCALE)
        self.known = PercentileCache(self.memory)

    def rows(self, names: Any) -> Any:
        return np.array([self.table.row((name,)) for name in names if (name,) in self.table], np.int64)

    def come(self, names: Any) -> None:
        for name in names:
            if (name,) not in self.table:
                self.table.add((name,))

    def go(self, names: Any) -> None:
        for name in names:
            if (name,) in self.table:
                self.table.free((name,))

    def sample(self, names: Any, value: float, weight: float, at: float) -> None:
        rows = self.rows(names)
        self.memory.add(rows, np.full(len(rows), value), weight, at)

    def take(self, names: Any, value: float, weight: float, at: float) -> None:
        rows = self.rows(names)
        self.memory.subtract(rows, np.full(len(rows), value), weight, at)

    def live(self, names: Any, half_life: float, at: float) -> None:
        rows = self.rows(names)
        self.memory.live_for(rows, np.full(len(rows), half_life), at)

    def absorb(self, names: Any) -> None:
        rows = self.rows(names)
        self.memory.absorb(rows[:1], self.memory, rows[-1:])

    def absorb_all(self, names: Any) -> None:
        rows = self.rows(names)
        if len(rows) > 1:
            self.memory.absorb_all(int(rows[0]), self.memory, rows[1:])

    def restore(self, names: Any, total: float) -> None:
        for row in self.rows(names)[:1].tolist():
            restore(self.memory, row, SavedHistogram(NOW, total, {"3": 10_000, "50": 700}))

    def reload(self) -> None:
        for chunk in list(self.table.chunks()):
            self.table.load(chunk, self.table.dump(chunk))

    def ask(self, names: Any, shares: Any) -> None:
        """Kept and fresh answers are equal bit for bit, also those of a table that was loaded from this one's chunks."""
        rows = self.rows(names)
        wanted = np.array([shares] * len(rows)).reshape(len(rows), 3)
        found = np.array(self.known.find(rows, wanted))
        assert found.tobytes() == np.array(self.memory.percentiles(rows, list(wanted.T))).tobytes()
        loaded = Site()
        for chunk in self.table.chunks():
            loaded.table.load(chunk, self.table.dump(chunk))
        for _ in range(2):
            assert found.tobytes() == np.array(loaded.known.find(rows, wanted)).tobytes()


subsets = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)
values = st.sampled_from([1e6, 5e8, 3e10])
weights = st.sampled_from([1.0, 0.00015])  # the latter is nothing soon after
times = st.sampled_from([NOW, NOW + 60.0, NOW + DAY, NOW + 20 * DAY, NOW + 70 * DAY, NOW + 250 * DAY])
steps = st.one_of(
    st.tuples(st.just("sample"), subsets, values, weights, times),
    st.tuples(st.just("take"), subsets, values, weights, times),
    st.tuples(st.just("come"), subsets),
    st.tuples(st.just("go"), subsets),
    st.tuples(st.just("live"), subsets, st.sampled_from([DAY / 2, DAY, 2 * DAY]), times),
    st.tuples(st.just("absorb"), st.permutations(NAMES)),
    st.tuples(st.just("absorb_all"), st.permutations(NAMES)),
    st.tuples(st.just("restore"), subsets, values),
    st.tuples(st.just("reload")),
    st.tuples(st.just("ask"), subsets, st.tuples(*[st.sampled_from((0.0, *SHARES, 1.0))] * 3)),
)


def opened() -> Site:
    site = Site()
    site.come(NAMES)
    for name, value in zip(NAMES, (1e6, 5e8, 3e10, 5e8), strict=True):
        site.sample([name], value, 1.0, NOW)
    return site


@settings(max_examples=40)
@given(st.lists(steps, max_size=40))
def test_what_is_kept_equals_a_fresh_look(todo: Any) -> None:
    site = opened()
    for what, *said in todo:
        getattr(site, what)(*said)
        site.ask(NAMES, SHARES)


def test_a_row_that_did_not_change_is_not_looked_through_again(monkeypatch: Any) -> None:
    site = opened()
    rows, shares = site.rows(NAMES), np.array([SHARES] * 4)
    first = site.known.find(rows, shares)
    looked: list[int] = []
    fresh = Histograms.percentiles

    def counted(self: Histograms, rows: Any, shares: Any) -> Any:
        looked.append(len(rows))
        return fresh(self, rows, shares)

    monkeypatch.setattr(Histograms, "percentiles", counted)
    again = site.known.find(rows, shares)
    site.sample(["b"], 5e9, 1.0, NOW)
    after = site.known.find(rows, shares)
    assert looked == [1]
    assert np.array_equal(first, again)
    assert [column[0] for column in after] == [column[0] for column in first]
    assert after[2][1] > first[2][1]
