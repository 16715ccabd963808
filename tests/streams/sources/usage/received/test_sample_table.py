"""The newest samples of series, and PromQL's rate over them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.sources.usage.received.sample_table import SampleTable

NAN = float("nan")


def table_of(samples: list[tuple[float, float]], *, depth: int = 32, window: float = 300.0) -> SampleTable:
    table = SampleTable(depth, window)
    table.grow(1)
    append(table, samples)
    return table


def append(table: SampleTable, samples: list[tuple[float, float]]) -> dict[str, int]:
    at, values = zip(*samples, strict=True)
    return dict(table.append(np.zeros(len(at), np.int64), np.array(at, np.float64), np.array(values, np.float64)))


def rate_by_hand(samples: list[tuple[float, float]], after: float, until: float) -> float:
    """PromQL's documentation of `rate`, sample by sample."""
    inside = [(at, value) for at, value in samples if after < at <= until]
    if len(inside) < 2:
        return NAN
    rise = inside[-1][1] - inside[0][1] + sum(a for (_, a), (_, b) in itertools.pairwise(inside) if b < a)
    sampled = inside[-1][0] - inside[0][0]
    distance = sampled / (len(inside) - 1)
    to_start, to_end = inside[0][0] - after, until - inside[-1][0]
    to_start = distance / 2 if to_start >= 1.1 * distance else to_start
    to_end = distance / 2 if to_end >= 1.1 * distance else to_end
    if rise > 0:
        to_start = min(to_start, sampled * inside[0][1] / rise)
    return rise * (sampled + to_start + to_end) / sampled / (until - after)


def test_a_steady_counter_has_its_slope_as_its_rate() -> None:
    table = table_of([(1000.0 + 15 * n, 50.0 + 15 * n * 0.25) for n in range(21)])
    assert table.rates(1000.0 - 1, 1300.0)[0] == pytest.approx(0.25 * 301 / 301)


def test_what_a_counter_had_before_it_began_anew_counts() -> None:
    """10 at the first sample, 16, then 2 after a new beginning, 5: it rose by 6 + 2 + 3 = 11 in 30 s."""
    table = table_of([(0.0, 10.0), (10.0, 16.0), (20.0, 2.0), (30.0, 5.0)])
    assert table.rates(-1.0, 30.0)[0] == pytest.approx(11 * (30 + 1) / 30 / 31)


@given(
    st.lists(st.tuples(st.floats(1.0, 60.0), st.floats(-5.0, 50.0)), min_size=1, max_size=30),
    st.floats(0.0, 200.0),
    st.floats(1.0, 600.0),
)
def test_rates_are_those_of_promql_sample_by_sample(steps: list[tuple[float, float]], after: float, length: float) -> None:
    at, value, samples = 0.0, 100.0, []
    for step, rise in steps:
        at, value = at + step, max(0.0, value + rise)
        samples.append((at, value))
    table = table_of(samples, window=0.0)
    expected, rate = rate_by_hand(samples, after, after + length), table.rates(after, after + length)[0]
    assert (math.isnan(expected) and math.isnan(rate)) or rate == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_sample_that_comes_again_is_repeated_and_an_older_one_is_out_of_order() -> None:
    table = table_of([(10.0, 1.0), (20.0, 2.0)])
    assert append(table, [(20.0, 2.0), (15.0, 1.5), (20.0, 9.0), (30.0, 3.0)]) == {
        "repeated": 1,
        "out_of_order": 2,
        "stored": 1,
    }
    assert table.values()[0] == 3.0


def test_a_stale_marker_ends_a_series_until_its_next_sample() -> None:
    table = table_of([(10.0, 1.0), (20.0, NAN)])
    assert table.stale[0]
    assert append(table, [(20.0, NAN)])["repeated"] == 1
    append(table, [(30.0, 2.0)])
    assert not table.stale[0]
    assert table.rates(0.0, 30.0)[0] == pytest.approx(1.0 / 20 * (20 + 10) / 30)


def test_samples_that_come_too_close_are_thinned_and_the_window_stays_covered() -> None:
    """One a second for 300 s into 32 places: the rate over the window is still a quarter."""
    table = table_of([(float(n), 100 + n * 0.25) for n in range(301)])
    assert table.rates(0.0, 300.0)[0] == pytest.approx(0.25, rel=1e-3)


def test_no_new_beginning_of_a_counter_is_thinned_away() -> None:
    """Each tenth sample begins at zero: 29 new beginnings, each after the counter rose by 9."""
    samples = [(float(n), float(n % 10)) for n in range(60)]
    table = table_of(samples)
    assert table.rates(-1.0, 59.0)[0] == pytest.approx(rate_by_hand(samples, -1.0, 59.0), rel=0.02)


def test_a_row_that_was_cleared_is_empty() -> None:
    table = table_of([(10.0, 1.0), (20.0, 2.0)])
    table.clear(np.array([0]))
    assert math.isnan(table.rates(0.0, 20.0)[0])
    assert append(table, [(5.0, 1.0)])["stored"] == 1


def test_a_table_of_no_samples_takes_none() -> None:
    empty = np.empty(0)
    assert not SampleTable(32, 300.0).append(empty.astype(np.int64), empty, empty).total()


def test_what_a_sender_brings_late_is_no_use_that_is_missing() -> None:
    table = table_of([(float(second), 0.25 * second) for second in range(100, 121)], window=25.0)
    assert table.rates(100.0, 125.0)[0] < 0.21  # as a server would say of a target that has gone
    for until in (120.0, 121.0, 122.0, 125.0, 140.0):
        assert table.rates(until - 25.0, until, watched=99.0, late=True)[0] == pytest.approx(0.25, rel=0.03)
    assert math.isnan(table.rates(130.0, 155.0, watched=99.0, late=True)[0])
