"""Rows that have room for their own span alone hold what whole rows would, and little room is lost."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.tables.sparse_rows import SparseRows

WIDTH, COUNT = 40, 5

ONE = st.tuples(st.integers(0, COUNT - 1), st.integers(0, WIDTH - 1))
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(ONE, min_size=1, max_size=6)),
        st.tuples(st.just("zero"), ONE),
        st.tuples(st.sampled_from(["clear", "scale"]), st.lists(st.integers(0, COUNT - 1), unique=True, min_size=1)),
    ),
    max_size=30,
)


def act(spans: SparseRows, whole: Any, what: str, how: Any) -> None:
    if what == "add":
        rows, places = (np.array(each, np.int64) for each in zip(*how, strict=True))
        cells = spans.cells(rows, places)
        np.add.at(spans.pool, cells, 1.5)
        np.add.at(whole, (rows, places), 1.5)
    elif what == "zero":
        row, place = how
        cells = spans.cells(np.array([row]), np.array([place]))
        spans.pool[cells] = 0.0
        whole[row, place] = 0.0
    elif what == "clear":
        spans.clear(np.array(how))
        whole[how] = 0.0
    else:
        spans.scale(np.array(how), np.full(len(how), 0.5))
        whole[how] *= 0.5


@settings(max_examples=40, deadline=None)
@given(ACTS)
def test_rows_with_room_for_their_span_hold_what_whole_rows_hold(acts: Any) -> None:
    spans, whole = SparseRows(WIDTH), np.zeros((COUNT, WIDTH))
    spans.grow(COUNT)
    for what, how in acts:
        act(spans, whole, what, how)
        assert spans.dense(np.arange(COUNT)).tolist() == whole.tolist()
        held = np.flatnonzero((whole != 0.0).any(axis=1))
        if len(held):
            first, last = (whole[held] != 0.0).argmax(axis=1), WIDTH - 1 - (whole[held, ::-1] != 0.0).argmax(axis=1)
            lines = spans.stretches(held, first, last)
            for row, line, begin, end in zip(held, lines, first, last, strict=True):
                assert line[: end - begin + 1].tolist() == whole[row, begin : end + 1].tolist()
                assert (line >= 0.0).all()


def test_a_number_that_moved_far_away_leaves_its_old_room() -> None:
    spans = SparseRows(176)
    spans.grow(1000)
    rows = np.arange(1000)
    for place in (5, 60, 120, 171):
        cells = spans.cells(rows, np.full(1000, place))
        spans.pool[cells] = 1.0
        spans.pool[cells] = 0.0
    # one number fits into room for 8; half as much again may be spare, and an eighth is kept for growth
    assert len(spans.pool) <= 1000 * 8 * 2 * 1.125
