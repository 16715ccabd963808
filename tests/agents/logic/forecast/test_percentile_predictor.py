"""The percentile predictor on samples whose answer is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.forecast import percentile_predictor
from agents.logic.forecast.forecast_values import NoForecast, NoForecastReason
from agents.logic.forecast.percentile_predictor import LinearBuckets, Percentiles, PercentileSettings

HUNDRED = np.array([1.0] * 99 + [5.0])
MINUTES = np.arange(100) * 60


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (PercentileSettings(), 5.1),
        (PercentileSettings(percentile=0.95), 1.1),
        (PercentileSettings(margin=0.15, utilization=0.5), 11.73),
    ],
)
def test_each_sample_weighs_its_own_value(settings: PercentileSettings, expected: float) -> None:
    """The one 5 weighs 5 of 104, so it lies above the 95th percentile and holds the 99th."""
    assert percentile_predictor.estimate([(MINUTES, HUNDRED)], settings) == pytest.approx(expected)


def test_values_beyond_the_buckets_take_the_last_and_the_first() -> None:
    assert percentile_predictor.estimate([(MINUTES, np.full(100, 150.0))], PercentileSettings()) == pytest.approx(100.0)
    assert percentile_predictor.estimate([(MINUTES, np.full(100, 0.05))], PercentileSettings()) == pytest.approx(0.1)
    assert percentile_predictor.estimate([], PercentileSettings()) == 0.0
    assert percentile_predictor.estimate([(MINUTES, np.full(100, np.nan))], PercentileSettings()) == 0.0


def test_a_block_without_half_life_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'halfLife'"):
        percentile_predictor.read({"historyLength": "7d", "sampleInterval": "1m", "histogram": {}})


def test_too_many_buckets_are_refused() -> None:
    block = {
        "historyLength": "7d",
        "sampleInterval": "1m",
        "histogram": {"halfLife": "1d", "maxValue": "1e12", "bucketSize": "1"},
    }
    with pytest.raises(ValueError, match="1000000000000 buckets"):
        percentile_predictor.read(block)


@pytest.mark.parametrize(
    ("maximum", "first", "growth", "words"),
    [
        ("1", "1", "1e-17", "too little to make one wider"),
        ("1000000", "0.0001", "0.0003", "would have 49721 buckets, more than 10000"),
        ("1e308", "1e-308", "1e308", "would have inf buckets"),
    ],
)
def test_growing_buckets_that_nobody_could_make_are_refused(maximum: str, first: str, growth: str, words: str) -> None:
    histogram = {"halfLife": "1d", "maxValue": maximum, "firstBucketSize": first, "bucketSizeGrowthRatio": growth}
    with pytest.raises(ValueError, match=words):
        percentile_predictor.read({"historyLength": "7d", "sampleInterval": "1m", "histogram": histogram})


def test_the_half_life_counts_only_if_asked_for() -> None:
    """Old samples of 10, then as many of 1, three half lives later: at 1 they weigh 10/8 of the new ones, at infinity 10."""
    times = np.array([0.0] * 10 + [3 * 3600.0] * 10)
    values = np.array([10.0] * 10 + [1.0] * 10)
    block = {"historyLength": "7d", "sampleInterval": "1m", "percentile": "0.3", "histogram": {"halfLife": "1h"}}
    assert percentile_predictor.estimate([(times, values)], percentile_predictor.read(block)) == pytest.approx(10.1)
    assert percentile_predictor.estimate([(times, values)], percentile_predictor.read(block, decaying=True)) == pytest.approx(1.1)


def test_what_lies_below_the_lowest_bucket_that_counts_adds_nothing_on_the_way_up() -> None:
    """Of weights 2, 4, 6 and 10 those below 5 do not count: 6 is less than half of 22, so it is the last bucket."""
    block = {
        "historyLength": "7d", "sampleInterval": "1m", "percentile": "0.5", "minSampleWeight": "1",
        "histogram": {"halfLife": "1h", "maxValue": "20", "bucketSize": "1", "epsilon": "5"},
    }  # fmt: skip
    values = np.array([4.0, 6.0, 2.0, 10.0])
    found = percentile_predictor.estimate([(np.arange(4), values)], percentile_predictor.read(block))
    assert found == pytest.approx(11.0)


def test_a_share_that_is_reached_exactly_is_reached() -> None:
    """Half of the weight, 4 of 8, lies in the first of the two buckets."""
    settings = PercentileSettings(percentile=0.5, least_weight=4.0)
    found = percentile_predictor.estimate([(np.arange(2), np.array([1.02, 3.02]))], settings)
    assert found == pytest.approx(1.1)


@given(
    st.lists(st.lists(st.floats(0, 120), min_size=2, max_size=2), min_size=1, max_size=30), st.sampled_from([math.inf, 3600.0])
)
def test_learning_sample_by_sample_comes_to_what_the_whole_history_gives(rows: list[list[float]], half_life: float) -> None:
    settings = PercentileSettings(half_life=half_life, percentile=0.7, buckets=LinearBuckets(100, 5))
    learnt = Percentiles("p", settings)
    both = np.array([learnt.rows.add(("a",)), learnt.rows.add(("b",))])
    times = np.arange(len(rows)) * 900
    for at, row in zip(times.tolist(), rows, strict=True):
        learnt.add(both, np.array(row), at)
    columns = np.array(rows).T
    assert learnt.estimates(both).tolist() == [percentile_predictor.estimate([(times, column)], settings) for column in columns]


def test_the_buckets_learnt_go_into_a_checkpoint_and_come_back() -> None:
    first, second = (Percentiles("p", PercentileSettings()) for _ in range(2))
    row = first.rows.add(("a",))
    first.learn(row, MINUTES, HUNDRED)
    for chunk in first.rows.take_dirty():
        second.rows.load(chunk, first.rows.dump(chunk))
    assert second.estimates(np.array([row])).tolist() == first.estimates(np.array([row])).tolist() == [pytest.approx(5.1)]


def test_an_estimate_that_is_no_number_is_refused() -> None:
    found = percentile_predictor.estimate([(MINUTES, HUNDRED)], PercentileSettings(utilization=0.0))
    assert found == math.inf
    refused = percentile_predictor.constant(found, first=0, last=600, step=60)
    assert isinstance(refused, NoForecast)
    assert refused.cause == NoForecastReason.NOT_FINITE
