"""The DSP predictor on series whose answer is known, and on series that support none."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.forecast import dsp, load_series, period_detection
from agents.logic.forecast.dsp import DspSettings, FittedForecast, FourierEstimator, MaximumEstimator, estimate
from agents.logic.forecast.forecast_values import NoForecast, NoForecastReason

MONDAY = 1_704_067_200
DAY = 86_400


def made(days: float, step: int = 60, hours: float = 24.0) -> tuple[Any, Any]:
    """Times and phases (radians) of a cycle of so many hours."""
    times = MONDAY + np.arange(0, int(days * DAY + 3600), step)
    return times, 2 * np.pi * (times - MONDAY) / (hours * 3600)


def fitted(times: Any, values: Any, **settings: Any) -> FittedForecast:
    found = dsp.fit(times, values, DspSettings(**settings))
    assert isinstance(found, FittedForecast), found
    return found


@pytest.mark.parametrize("days", [15, 7, 3, 2])
def test_a_daily_sine_is_forecast_from_two_days_on(days: int) -> None:
    times, phase = made(days)
    found = fitted(times, 5 + 2 * np.sin(phase))
    profile = np.array(found.forecast.profile)
    assert (found.period, found.periods, len(profile)) == (DAY, days, 1440)
    assert (profile.min(), profile.mean(), profile.max()) == pytest.approx((3.03, 5.05, 7.07), abs=0.02)
    assert found.forecast.start == times[-1] + 60
    at, (value,) = found.forecast.window(MONDAY + (days + 1) * DAY + 6 * 3600, MONDAY + (days + 1) * DAY + 6 * 3600 + 59)
    assert value == pytest.approx(7.07, abs=0.02), at


def test_a_low_amplitude_does_not_prevent_a_forecast() -> None:
    times, phase = made(15)
    profile = fitted(times, 0.5 + 0.2 * np.sin(phase)).forecast.profile
    assert (min(profile), max(profile)) == pytest.approx((0.303, 0.707), abs=0.002)


def test_a_week_takes_two_weeks_to_be_seen() -> None:
    times, phase = made(15)
    weekday = (times - MONDAY) // DAY % 7 < 5
    values = np.where(weekday, 5 + 2 * np.sin(phase), 2 + 0.5 * np.sin(phase))
    assert fitted(times, values).period == 7 * DAY
    week = times < MONDAY + 7 * DAY
    assert fitted(times[week], values[week]).period == DAY


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        (lambda phase: np.full(len(phase), 3.0), NoForecastReason.CONSTANT),
        (lambda phase: np.zeros(len(phase)), NoForecastReason.CONSTANT),
        (lambda phase: np.full(len(phase), 0.1), NoForecastReason.CONSTANT),
        (lambda phase: 5 + np.sin(2 * phase), NoForecastReason.OTHER_PERIOD),
        (lambda phase: 5 + np.sin(4 * phase), NoForecastReason.OTHER_PERIOD),
        (lambda phase: 1 + 10 * np.arange(len(phase)) / len(phase), NoForecastReason.NO_PERIOD),
        (lambda phase: np.full(len(phase), np.nan), NoForecastReason.NO_SAMPLES),
    ],
)
def test_a_series_that_supports_no_forecast_gets_none_and_the_cause(values: Any, cause: NoForecastReason) -> None:
    times, phase = made(15, 300)
    found = dsp.fit(times, values(phase), DspSettings(step=300))
    assert isinstance(found, NoForecast)
    assert found.cause == cause
    assert found.text


def test_47_hours_are_too_few_and_the_reason_says_how_many_there_are() -> None:
    times, phase = made(46 / 24)
    found = dsp.fit(times, 5 + 2 * np.sin(phase), DspSettings())
    assert found == NoForecast(NoForecastReason.SHORT_HISTORY, "47.0 hours of even history are there; a period of a day takes 48")


def test_a_step_that_does_not_fit_is_said_with_its_place() -> None:
    found = dsp.fit(np.array([0, 60, 150]), np.ones(3), DspSettings())
    assert found == NoForecast(NoForecastReason.BAD_STEP, "90 s lie between the sample of 60 and the next: no multiple of 60 s")


@pytest.mark.parametrize("seed", range(5))
def test_noise_gets_no_forecast(seed: int) -> None:
    times, _ = made(15, 300)
    values = np.random.default_rng(seed).normal(5, 1, len(times))
    assert isinstance(dsp.fit(times, values, DspSettings(step=300)), NoForecast)


@pytest.mark.parametrize("seed", range(5))
def test_a_day_is_found_under_noise(seed: int) -> None:
    times, phase = made(15)
    values = 5 + 2 * np.sin(phase) + np.random.default_rng(seed).normal(0, 1, len(times))
    assert fitted(times, values).period == DAY


@pytest.mark.parametrize("kind", ["normal", "exponential", "lognormal"])
@pytest.mark.parametrize(("count", "spike"), [(4320, 0), (4320, 60), (336, 50)])
def test_the_level_of_chance_is_what_shuffling_finds(kind: str, count: int, spike: float) -> None:
    chance = np.random.default_rng(7)
    values = getattr(chance, kind)(size=count) + np.sin(np.arange(count) / 50)
    values[5] += spike
    highest = []
    for _ in range(200):
        chance.shuffle(values)
        highest.append(np.abs(np.fft.rfft(values))[1 : len(values) // 2].max())
    found = period_detection.chance(values - values.mean(), float(values.var()))
    assert found == pytest.approx(np.quantile(highest, 0.98), rel=0.08)


def test_one_spike_among_few_samples_does_not_hide_the_day() -> None:
    times, phase = made(5, 3600)
    values = 5 + 2 * np.sin(phase)
    values[54] = 80
    assert fitted(times, values, step=3600.0).period == DAY


def test_a_load_that_rests_at_zero_is_not_refused_for_what_rounding_leaves_of_it() -> None:
    """Six hours of each day are 0, so what a spectrum of all components says of them is 0, or 1e-16 more or less."""
    times, _ = made(5, 3600)
    hour = times // 3600 % 24
    values = np.where(hour < 6, 0.0, 5.0 + hour % 3)
    profile = estimate(FourierEstimator(fewest=60, low=1e-9), values, 24, step=3600)
    assert profile[hour[-24:] < 6].tolist() == [0.01] * 6


def test_any_period_is_found_though_only_days_and_weeks_are_forecast() -> None:
    _, phase = made(16, 600, hours=36)
    values = 5 + np.sin(phase)
    found = period_detection.find(values[: 10 * 216], step=600)
    assert found is not None
    assert found.samples == 216
    assert found.strength > 0.9


def test_the_maximum_of_each_phase_gets_its_margin() -> None:
    found = estimate(MaximumEstimator(0.1), np.array([1, 5, 3, 2, 2, 4, 6, 1.0]), 4, step=60)
    assert found.tolist() == pytest.approx([2.2, 5.5, 6.6, 2.2])


@pytest.mark.parametrize(("fewest", "folded", "highest"), [(1, False, 14.2), (1, True, 14.4), (2, False, 14.4), (2, True, 14.4)])
def test_a_slow_weak_component_is_halved_unless_frequencies_are_folded(fewest: int, folded: bool, highest: float) -> None:
    cycle = 2 * np.pi * np.arange(2880) / 1440
    values = 10 + 4 * np.cos(cycle) + 0.4 * np.cos(10 * cycle)
    found = estimate(FourierEstimator(fewest=fewest, folded=folded, low=0.2 if fewest == 2 else 1.0), values, 1440, step=60)
    assert found.max() == pytest.approx(highest, abs=0.01)


def test_what_would_not_be_above_zero_is_a_hundredth() -> None:
    values = 1 + 2 * np.cos(2 * np.pi * np.arange(2880) / 1440)
    found = estimate(FourierEstimator(margin=0.1), values, 1440, step=60)
    assert found.max() == pytest.approx(3.3)
    assert found.min() > 0
    assert found[values[:1440] < -0.01].tolist() == pytest.approx([0.011] * int((values[:1440] < -0.01).sum()))


def test_estimators_without_a_finite_error_win_nothing() -> None:
    times, phase = made(15, 300)
    found = dsp.fit(
        times,
        5 + np.sin(phase),
        DspSettings(step=300, estimators=(MaximumEstimator(float("nan")), MaximumEstimator(float("inf")))),
    )
    assert isinstance(found, NoForecast)
    assert found.cause == NoForecastReason.NOT_FINITE


def test_estimators_that_expect_nothing_where_something_came_win_nothing() -> None:
    times, phase = made(4, 3600)
    values = np.where(np.sin(phase) > 0, 5.0, 0.0)
    values[-24:] = 1.0
    even = load_series.LoadSeries(int(times[0]), 3600, values[-72:])
    found = dsp.forecast(even, DAY, (MaximumEstimator(),))
    assert found == NoForecast(NoForecastReason.NOT_FINITE, "none of 1 estimators has a finite error on the last period")


def test_samples_that_are_no_numbers_are_filled_like_a_gap() -> None:
    times, phase = made(3, 300)
    values = 5 + 2 * np.sin(phase)
    holes = values.copy()
    holes[100:105] = np.nan
    assert fitted(times, holes, step=300).forecast.profile == pytest.approx(
        fitted(times, values, step=300).forecast.profile, rel=0.01
    )


def test_outliers_take_the_value_before_them() -> None:
    values = np.random.default_rng(3).uniform(0, 1, 10_080)
    values[[1000, 3000, 8000]] = 3.5, -1.0, 1000.0
    clean = load_series.without_outliers(values)
    assert clean[[1000, 3000, 8000]].tolist() == values[[999, 2999, 7999]].tolist()
    assert load_series.without_outliers(values[7500:8499]) is not None
    assert load_series.without_outliers(values[7500:8499])[500] == 1000.0


@given(
    st.lists(st.sampled_from([0.0, 1.0, -3.0, 1e308, -1e308, 1e-300, float("nan"), float("inf"), 5.0]), min_size=0, max_size=8),
    st.integers(0, 900),
    st.sampled_from([1.0, 60.0, 300.0, 3600.0, 0.0, -60.0, 0.5, 420.0]),
)
def test_no_series_makes_an_error_or_a_forecast_that_is_no_number(pattern: list[float], length: int, step: float) -> None:
    values = np.resize(np.array(pattern), length if pattern else 0)
    times = MONDAY + np.arange(len(values)) * max(int(step), 1)
    with np.errstate(all="ignore"):
        found = dsp.fit(times, values, DspSettings(step=step, history=4 * DAY))
    assert isinstance(found, NoForecast) or np.isfinite(found.forecast.profile).all()
