"""Histograms by worked numbers: buckets, percentiles, epsilon, decay, merging. The numbers are upstream's own test facts."""

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.engine.tables.row_table import RowTable
from agents.logic.usage import buckets
from agents.logic.usage.buckets import Buckets, ExponentialBuckets, cpu_buckets, memory_buckets
from agents.logic.usage.histograms import Histograms
from tests.support.linear_buckets import Linear

DAY = 86_400.0
MIDNIGHT = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""


def histograms(scale: Buckets, half_life: float = math.inf, rows: int = 1) -> Histograms:
    table = RowTable("test", Histograms.columns("h", scale, half_life))
    for i in range(rows):
        table.add((str(i),))
    return Histograms(table, "h", scale)


def add(mine: Histograms, value: float, weight: float, at: float = 0.0, row: int = 0) -> None:
    mine.add(np.array([row]), np.array([value], np.float64), weight, at)


def percentile(mine: Histograms, share: float, row: int = 0) -> float:
    return float(mine.percentiles(np.array([row]), [share])[0][0])


def test_both_resources_have_176_buckets() -> None:
    assert (len(cpu_buckets(0.05).starts), len(memory_buckets(0.05).starts)) == (176, 176)


def test_buckets_grow_by_their_ratio_and_what_is_beyond_falls_into_the_last() -> None:
    scale = ExponentialBuckets(maximum=500, first=40, ratio=1.5)
    # 40; 40 + 60 = 100; 100 + 90 = 190; 190 + 135 = 325; 325 + 202.5 = 527.5
    assert scale.starts.tolist() == pytest.approx([0, 40, 100, 190, 325, 527.5])
    assert scale.find(np.array([-1, 39.99, 40, 100, 900])).tolist() == [0, 0, 1, 2, 5]


def test_buckets_end_at_the_worked_bytes() -> None:
    mine = histograms(memory_buckets(0.05))
    for amount, end in ((512 * 2**20, 546691264), (1e9, 1016281388), (2**30, 1077095457), (2**33, 8790737608)):
        bucket = int(memory_buckets(0.05).find(np.array([float(amount)]))[0])
        assert int(mine._ends[bucket]) == end


def test_a_percentile_is_the_end_of_the_bucket_that_reaches_it() -> None:
    mine = histograms(Linear(10, 1.0, 1e-15))
    for value in (1, 2, 3, 4):
        add(mine, value, value)
    found = [percentile(mine, share / 10) for share in range(11)]
    # weights 1, 2, 3, 4 of 10: the first tenth ends at 2, the next two at 3, the next three at 4, the last four at 5
    assert found == [2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5]
    assert percentile(histograms(Linear(10, 1.0, 1e-15)), 0.5) == 0


def test_shares_outside_0_and_1_are_the_first_and_the_last_bucket() -> None:
    mine = histograms(Linear(1.0, 0.1, 1e-15))
    add(mine, 0.1, 1)
    add(mine, 0.2, 1)
    assert (percentile(mine, -0.1), percentile(mine, 1.1)) == pytest.approx((0.2, 0.3))
    add(mine, 0.0, 1)
    add(mine, 1.0, 1)
    assert (percentile(mine, -0.1), percentile(mine, 1.1)) == pytest.approx((0.1, 1.0))  # the last one gives its start


def test_what_weighs_less_than_epsilon_is_nothing() -> None:
    epsilon = 0.001
    mine = histograms(Linear(10, 1.0, epsilon))
    add(mine, 1.0, 2.5 * epsilon)
    emptied = []
    for _ in range(2):
        mine.subtract(np.array([0]), np.array([1.0]), epsilon, 0.0)
        emptied.append(percentile(mine, 0.5) == 0)
    assert emptied == [False, True]


def test_a_sample_weighs_half_after_each_half_life() -> None:
    mine = histograms(Linear(10, 1.0, 1e-15), DAY)
    for i in (1, 2, 3, 4):
        add(mine, i, i, MIDNIGHT + i * DAY)
    # 1 + 2 * 2 + 3 * 4 + 4 * 8 = 49: 1/49 = 0.0204, 5/49 = 0.102, 17/49 = 0.347
    found = {share: percentile(mine, share) for share in (0.02, 0.03, 0.10, 0.11, 0.34, 0.35, 1.0)}
    assert found == {0.02: 2, 0.03: 3, 0.10: 3, 0.11: 4, 0.34: 4, 0.35: 5, 1.0: 5}


def test_a_thousand_outweigh_one_for_twenty_half_lives_and_nothing_is_left_after_101() -> None:
    mine = histograms(Linear(10, 1.0, 1e-15), DAY)
    add(mine, 2, 1000, MIDNIGHT)
    add(mine, 1, 1, MIDNIGHT + 20 * DAY)
    # 1 * 2^20 against 1000: 1000 / 1049576 = 0.00095
    assert (percentile(mine, 0.999), percentile(mine, 1.0)) == (2, 3)
    far = histograms(Linear(10, 1.0, 1e-15), DAY)
    add(far, 2, 1, MIDNIGHT)
    add(far, 1, 1, MIDNIGHT + 101 * DAY)
    assert percentile(far, 1.0) == 2


def test_the_reference_is_the_nearest_midnight_and_noon_belongs_to_the_next() -> None:
    for second, reference, weight in ((DAY / 2 - 1, 0, 0.1 * 2 ** (43199 / 86400)), (DAY / 2, DAY, 0.1 * 2**-0.5)):
        mine = histograms(cpu_buckets(0.05), DAY)
        add(mine, 0.1, 0.1, MIDNIGHT + second)
        assert mine.reference[0] == MIDNIGHT + reference
        assert mine.total[0] == pytest.approx(weight)
    assert pytest.approx(0.070711, abs=1e-6) == 0.1 * 2**-0.5


def test_a_tenth_now_and_a_tenth_a_day_later_weigh_three_tenths() -> None:
    mine = histograms(cpu_buckets(0.05), DAY)
    add(mine, 0.1, 0.1, MIDNIGHT)
    add(mine, 0.1, 0.1, MIDNIGHT + DAY)
    assert mine.total[0] == pytest.approx(0.1 + 0.2)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (96, 4, (110, 110, 110)),
        (94, 6, (110, 110, 1016)),
        (91, 9, (110, 110, 1016)),
        (89, 11, (110, 1016, 1016)),
    ],
)
def test_few_high_samples_show_in_high_percentiles_only(low: int, high: int, expected: Any) -> None:
    mine = histograms(cpu_buckets(0.05), DAY)
    for value, count in ((0.1, low), (1.0, high)):
        for _ in range(count):
            add(mine, value, 0.1, MIDNIGHT)
    assert tuple(int(percentile(mine, share) * 1000) for share in (0.5, 0.9, 0.95)) == expected


@pytest.mark.parametrize(
    ("before", "after", "days", "changes"),
    [(1.0, 0.1, 1, {0.5: 843, 0.9: 3542, 0.95: 4885}), (0.1, 1.0, 7, {0.95: 106, 0.9: 218, 0.5: 1432})],
)
def test_a_lasting_change_of_use_shows_after_so_many_samples(before: float, after: float, days: int, changes: Any) -> None:
    mine = histograms(cpu_buckets(0.05), DAY)
    start = MIDNIGHT
    for minute in range(days * 1440):
        add(mine, before, 0.1, start + 60 * minute)
    shares, found = list(changes), dict.fromkeys(changes, 0)
    for minute in range(max(changes.values()) + 5):
        add(mine, after, 0.1, start + days * DAY + 60 * minute)
        for share, end in zip(shares, mine.percentiles(np.array([0]), shares), strict=True):
            if not found[share] and (end[0] > 0.5) == (after > 0.5):
                found[share] = minute + 1
    assert found == {share: pytest.approx(count, abs=1) for share, count in changes.items()}


@pytest.mark.parametrize(
    ("gibs", "gap", "expected"),
    [
        (range(300, 1001, 100), DAY, (1077095457, 1077095457, 1077095457)),
        (range(1000, 299, -100), DAY, (330659541, 664388475, 752988293)),
        (range(300, 1001, 100), 0.0, (664388475, 1077095457, 1077095457)),
    ],
)
def test_eight_daily_peaks(gibs: Any, gap: float, expected: Any) -> None:
    mine = histograms(memory_buckets(0.05), DAY)
    for day, mib in enumerate(gibs):
        add(mine, mib * 2**20, 1.0, MIDNIGHT + day * gap)
    assert tuple(int(percentile(mine, share)) for share in (0.5, 0.9, 0.95)) == expected


def test_one_high_peak_and_then_lower_ones_each_day() -> None:
    mine = histograms(memory_buckets(0.05), DAY)
    add(mine, 1e9, 1.0, MIDNIGHT)
    found = []
    for day in range(1, 5):
        add(mine, 5e8, 1.0, MIDNIGHT + day * DAY)
        found.append(tuple(int(percentile(mine, share)) for share in (0.9, 0.95)))
    high, low = 1016281388, 511134537
    assert found == [(high, high), (high, high), (low, high), (low, low)]


# properties

SAMPLES = st.lists(st.tuples(st.floats(0, 900), st.floats(0.1, 10), st.integers(0, 200)), min_size=1, max_size=40)
QUICK = settings(max_examples=60, deadline=None)


def fold(mine: Histograms, samples: list[Any], row: int) -> None:
    for value, weight, days in samples:
        add(mine, value, weight, MIDNIGHT + days * DAY / 2, row)


def seen(mine: Histograms, row: int) -> Any:
    return mine.weights.dense(np.array([row]))[0], float(mine.total[row]), float(mine.reference[row])


@QUICK
@given(SAMPLES, SAMPLES)
def test_merging_is_adding_all(one: list[Any], other: list[Any]) -> None:
    mine = histograms(cpu_buckets(0.05), DAY, rows=3)
    ordered = sorted(one, key=lambda s: s[2]), sorted(other, key=lambda s: s[2])
    fold(mine, ordered[0], 0)
    fold(mine, ordered[1], 1)
    fold(mine, [*ordered[0], *ordered[1]], 2)
    mine.absorb(np.array([0]), mine, np.array([1]))
    (merged, total, reference), (all_, expected, theirs) = seen(mine, 0), seen(mine, 2)
    scale = 2.0 ** ((theirs - reference) / DAY)
    assert merged == pytest.approx(all_ * scale, rel=1e-9, abs=1e-3)  # a merge leaves out what weighs less than epsilon
    assert total == pytest.approx(expected * scale, rel=1e-9)


@QUICK
@given(st.lists(st.none() | SAMPLES, min_size=1, max_size=30), st.sampled_from([1, 2, 1024]))
def test_adding_many_rows_at_once_is_adding_one_after_the_other(parts: list[Any], block: int) -> None:
    mine, count = histograms(cpu_buckets(0.05), DAY, rows=len(parts) + 2), len(parts)
    for row, samples in enumerate(parts):
        fold(mine, samples or [], row)
        mine.absorb(np.array([count]), mine, np.array([row]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agents.logic.usage.histograms._BLOCK", block)
        mine.absorb_all(count + 1, mine, np.arange(count))
    one, other = seen(mine, count), seen(mine, count + 1)
    assert one[0].tobytes() == other[0].tobytes()
    assert one[1:] == other[1:]
    assert (mine.low[count], mine.high[count]) == (mine.low[count + 1], mine.high[count + 1])


@QUICK
@given(SAMPLES, st.randoms(use_true_random=False))
def test_samples_in_one_batch_are_as_good_as_one_by_one(samples: list[Any], chance: random.Random) -> None:
    mine = histograms(cpu_buckets(0.05), DAY, rows=2 * len(samples))
    order = chance.sample(range(len(samples)), len(samples))
    values, weights = np.array([samples[i][0] for i in order]), samples[0][1]
    mine.add(np.array(order), values, weights, MIDNIGHT)
    for i, (value, *_) in enumerate(samples):
        add(mine, value, weights, MIDNIGHT, len(samples) + i)
    for i in range(len(samples)):
        one, other = seen(mine, i), seen(mine, len(samples) + i)
        assert one[0].tobytes() == other[0].tobytes()
        assert one[1:] == other[1:]


@QUICK
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 175), st.floats(0.001, 1e6)), max_size=200))
def test_where_the_numbers_lie_does_not_show(cells: list[Any]) -> None:
    mine = histograms(cpu_buckets(0.05), DAY, rows=6)
    plain = np.zeros((6, 176))
    for row, place, number in cells:
        at = mine.weights.cells(np.array([row]), np.array([place]))
        mine.weights.pool[at] += number
        plain[row, place] += number
        if number < 1.0:
            mine.weights.clear(np.array([row]))
            plain[row] = 0.0
    assert mine.weights.dense(np.arange(6)).tobytes() == plain.tobytes()
    mine.weights._compact()
    assert mine.weights.dense(np.arange(6)).tobytes() == plain.tobytes()


@given(ratio=st.floats(1.0 + 1e-9, 100.0), count=st.integers(0, 300))
@example(ratio=1.0003, count=3_000)
@example(ratio=1.05, count=177)
def test_powers_in_one_pass_are_to_the_bit_those_taken_one_by_one(ratio: float, count: int) -> None:
    with np.errstate(over="ignore"):
        one_by_one = [float(buckets.power(np.array([ratio]), n)[0]) for n in range(count)]
        assert buckets.powers(ratio, count).tolist() == one_by_one


@given(st.integers(190, 700), st.sampled_from([1.05, 1.4, 3.0]), st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_many_rows_have_to_the_bit_the_percentiles_that_each_has_alone(rows: int, spread: float, seed: int) -> None:
    chance, mine = np.random.default_rng(seed), histograms(cpu_buckets(0.05), math.inf, rows)
    every = np.arange(rows)
    for _ in range(8):
        mine.add(every, spread ** chance.normal(0, 4, rows), 1.0, MIDNIGHT, apart=True)
    shares = [0.5, 0.9, chance.uniform(-0.1, 1.1, rows)]
    order = chance.permutation(rows)
    together = mine.percentiles(order, [0.5, 0.9, shares[2][order]])
    for i in range(rows):
        alone = mine.percentiles(order[i : i + 1], [0.5, 0.9, shares[2][order[i : i + 1]]])
        assert [column[i] for column in together] == [column[0] for column in alone]


@QUICK
@given(st.lists(SAMPLES, min_size=1, max_size=6))
def test_rows_that_are_known_to_be_apart_get_the_same_sums(parts: list[Any]) -> None:
    known, unknown = histograms(cpu_buckets(0.05), DAY, 6), histograms(cpu_buckets(0.05), DAY, 6)
    for i in range(max(map(len, parts))):
        rows = np.array([row for row, part in enumerate(parts) if len(part) > i])
        values, weights, at = (np.array([parts[row][i][k] for row in rows], np.float64) for k in range(3))
        known.add(rows, values, float(weights[0]), at, apart=True)
        unknown.add(rows, values, float(weights[0]), at)
    for column in ("total", "reference", "low", "high"):
        assert known.rows[f"h_{column}"].tobytes() == unknown.rows[f"h_{column}"].tobytes()
    assert known.weights.dense(np.arange(6)).tobytes() == unknown.weights.dense(np.arange(6)).tobytes()


def test_ten_millicores_and_ten_megabytes_are_in_the_second_bucket_on_every_processor() -> None:
    """Upstream on amd64 puts values where a bucket starts one lower, but for the second bucket."""
    for scale, first in ((cpu_buckets(0.05), 0.01), (memory_buckets(0.05), 1e7)):
        many = np.full(16, first)
        assert scale.find(many).tolist() == [1] * 16
        assert scale.find(np.nextafter(many, 0.0)).tolist() == [0] * 16
