"""When a workload is due: the sorted look-up finds what a look at every due time finds."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.vertical.recommendation_schedule import Slots, TurnSpan

PERIOD = 1_000
SPANS = st.lists(st.tuples(st.integers(0, 3 * PERIOD), st.integers(0, PERIOD + 50)), min_size=1, max_size=12)


@given(st.lists(st.integers(0, 10 * PERIOD), max_size=40), SPANS)
def test_sorted_due_times_find_what_a_look_at_each_of_them_finds(spread: list[int], spans: list[tuple[int, int]]) -> None:
    numbers = np.array(spread, np.int64)
    slots = Slots(numbers, PERIOD)
    for _ in range(Slots.UNSORTED):
        slots.crossed(TurnSpan(0, 1))
    for before, length in spans:
        span = TurnSpan(before, before + length)
        assert slots.crossed(span).tolist() == span.crosses(numbers, PERIOD).nonzero()[0].tolist()


@given(st.integers(0, 10 * PERIOD), st.integers(1, PERIOD // 2))
def test_each_element_is_due_once_in_a_period(spread: int, length: int) -> None:
    slots = Slots(np.array([spread], np.int64), PERIOD)
    turns = range(0, 4 * PERIOD + 1, length)
    due = [now for before, now in itertools.pairwise(turns) if len(slots.crossed(TurnSpan(before, now)))]
    assert len(due) in (3, 4)
    assert all(0 <= now - (spread % PERIOD + PERIOD * ((now - spread % PERIOD) // PERIOD)) < length for now in due)
