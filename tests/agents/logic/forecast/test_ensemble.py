"""Our own forecast: what it follows, what it says of itself, and when it says nothing."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.forecast import ensemble, load_series, seasonal_profiles
from agents.logic.forecast.ensemble import EnsembleForecast, EnsembleSettings
from agents.logic.forecast.forecast_values import NoForecast, NoForecastReason
from agents.logic.forecast.seasonal_profiles import ForecastWindow, ProfileStack

MONDAY = 1_704_067_200
DAY = 86_400


def times(days: float, step: int = 300) -> Any:
    return MONDAY + np.arange(0, int(days * DAY), step)


def cycle(at: Any, hours: float = 24.0) -> Any:
    return np.sin(2 * np.pi * (at - MONDAY) / (hours * 3600))


def fitted(at: Any, values: Any, **settings: Any) -> EnsembleForecast:
    found = ensemble.fit(at, values, EnsembleSettings(**settings))
    assert isinstance(found, EnsembleForecast), found
    return found


@pytest.mark.parametrize("hours", [24.0, 6.0, 36.0, 7.0])
def test_any_period_that_the_history_shows_is_followed(hours: float) -> None:
    at = times(14)
    found = fitted(at, 5 + 2 * cycle(at, hours), horizon=6 * 3600)
    ahead = at[-1] + 300 * np.arange(1, 73)
    assert np.abs(np.array(found.forecast.profile) - (5 + 2 * cycle(ahead, hours))).max() < 0.25
    assert found.accuracy.error < 0.03
    assert found.forecast.start == at[-1] + 300
    assert found.period == pytest.approx(hours * 3600, rel=0.01)


def test_workdays_and_weekends_are_told_apart_after_eleven_days() -> None:
    """Upstream forecasts Monday as Sunday was."""
    at = times(14 - 3 + 3)
    workday = (at - MONDAY) // DAY % 7 < 5
    values = np.where(workday, 5 + 2 * cycle(at), 2 + 0.5 * cycle(at))
    sunday_night = at < MONDAY + 14 * DAY
    found = fitted(at[sunday_night], values[sunday_night], horizon=DAY // 2)
    ahead = MONDAY + 14 * DAY + 300 * np.arange(144)
    assert np.abs(np.array(found.forecast.profile) - (5 + 2 * cycle(ahead))).mean() < 0.5


def test_a_new_level_is_followed_within_the_hour() -> None:
    at = times(14)
    values = (5 + 2 * cycle(at)) * np.where(at >= at[-1] - 3 * 3600, 2.0, 1.0)
    found = fitted(at, values)
    assert found.forecast.profile[0] == pytest.approx(values[-1], rel=0.15)


def test_the_upper_forecast_covers_what_is_asked_for() -> None:
    chance = np.random.default_rng(5)
    covered = []
    for seed in range(8):
        at = times(16)
        values = 10 + 4 * cycle(at) + chance.normal(0, 1, len(at))
        known = at < MONDAY + (15 * 24 + 3 * seed % 24) * 3600
        found = fitted(at[known], values[known], coverage=0.9)
        count = len(found.upper.profile)
        covered += (values[~known][:count] <= np.array(found.upper.profile)).tolist()
    assert 0.82 <= np.mean(covered) <= 0.98


def test_the_upper_forecast_covers_also_what_was_tried_seldom_and_far_ahead() -> None:
    """Five days give 12 trials of half a day, and values that go slowly back to their mean make whole trials high or low.

    A margin that the trials of the chosen candidates would have needed themselves covers 0.86 of the time here.
    """
    covered = []
    for seed in range(120):
        chance, at = np.random.default_rng(seed), times(5.5, step=900)
        values = np.empty(len(at))
        values[0] = 0.0
        for place, change in enumerate(chance.normal(0, 1, len(at) - 1), 1):
            values[place] = 0.94 * values[place - 1] + change
        values += 30
        known = at < MONDAY + 5 * DAY
        found = ensemble.fit(at[known], values[known], EnsembleSettings(step=900, horizon=12 * 3600, recent=1800, coverage=0.9))
        if isinstance(found, EnsembleForecast):
            covered.append(np.mean(values[~known] <= np.array(found.upper.profile)[: (~known).sum()]))
    assert len(covered) > 50
    assert 0.88 <= np.mean(covered) <= 0.95


def test_the_stated_error_is_near_the_one_that_comes() -> None:
    at = times(16)
    values = 10 + 4 * cycle(at) + np.random.default_rng(6).normal(0, 1, len(at))
    known = at < MONDAY + 15 * DAY
    found = fitted(at[known], values[known], horizon=DAY)
    came = values[~known][:288]
    actual = np.abs(np.array(found.forecast.profile) - came).sum() / came.sum()
    assert found.accuracy.error == pytest.approx(actual, rel=0.3)
    assert found.accuracy.last_value > 3 * found.accuracy.error


def test_what_returns_to_its_mean_is_forecast_so_and_not_called_periodic() -> None:
    """Each value is 0.8 of the one before and a shock, to the mean of 20; its profiles show days that are not there."""
    shocks, at = np.random.default_rng(7).normal(0, 1, 14 * 288), times(14)
    off = [0.0]
    for shock in shocks[1:]:
        off.append(0.8 * off[-1] + shock)
    found = fitted(at, 20 + np.array(off), horizon=12 * 3600)
    assert found.period is None
    assert np.array(found.forecast.profile)[72:] == pytest.approx(20, abs=0.5)
    assert found.accuracy.error < 0.95 * found.accuracy.last_value


@pytest.mark.parametrize(("height", "period"), [(0.35, None), (2.0, DAY)])
def test_a_day_counts_as_a_period_only_if_it_is_worth_more_than_the_margin(height: float, period: int | None) -> None:
    """Under noise of 1 a wave of 0.35 takes 3 % off the mean's error, one of 2 takes half."""
    at = times(14)
    values = 20 + height * cycle(at) + np.random.default_rng(8).normal(0, 1, len(at))
    assert fitted(at, values, horizon=12 * 3600).period == period


def _jobs(at: Any, days: Any) -> Any:
    """A quiet load with noise, and a job of 900 from ten to sixteen o'clock of some days."""
    values = 5 + 0.3 * np.random.default_rng(1).standard_normal(len(at))
    hour, day = (at - MONDAY) % DAY // 3600, (at - MONDAY) // DAY
    return values + 900.0 * (np.isin(day, days) & (hour >= 10) & (hour < 16))


def test_a_job_that_has_ended_is_not_forecast_to_return() -> None:
    at = times(10)
    hour = (at - MONDAY) // 3600 % 24
    values = np.where((hour >= 8) & (hour < 20), 40.0, 0.5)
    night, ended = at < MONDAY + 9 * DAY + 7 * 3600, np.where(at >= MONDAY + 9 * DAY, 0.5, values)
    assert max(fitted(at[night], values[night], horizon=6 * 3600).forecast.profile) > 30
    found = ensemble.fit(at, ended, EnsembleSettings(horizon=12 * 3600))
    assert isinstance(found, NoForecast)
    assert found.cause is NoForecastReason.ENDED


def test_a_job_that_came_twice_is_no_period_and_one_of_every_day_is() -> None:
    """What wins by one great hour and is wrong at another repeats nothing; quiet hours do not speak against a nightly job."""
    at = times(7 + 9 / 24)
    found = ensemble.fit(at, _jobs(at, (5, 6)), EnsembleSettings())
    assert getattr(found, "period", None) is None
    assert fitted(at, _jobs(at, range(8))).period == DAY


def test_a_spike_at_the_end_does_not_stand_for_what_comes() -> None:
    """Nothing is better than the last value of a random walk, unless that value is a spike."""
    at = times(7)
    walk = np.cumsum(np.random.default_rng(0).normal(0, 0.3, len(at)))
    walk -= walk.min() - 1
    assert isinstance(ensemble.fit(at, walk, EnsembleSettings()), NoForecast)
    walk[-1] = 1000.0
    assert max(fitted(at, walk).forecast.profile) < 200


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        (lambda at: np.full(len(at), 2.0), NoForecastReason.CONSTANT),
        (lambda at: np.zeros(len(at)), NoForecastReason.CONSTANT),
        (lambda at: np.full(len(at), np.nan), NoForecastReason.NO_SAMPLES),
        (lambda at: 100 + np.cumsum(np.random.default_rng(1).normal(size=len(at))), NoForecastReason.NOT_BETTER),
        (lambda at: np.where(at < MONDAY + 300, 1.0, np.nan), NoForecastReason.SHORT_HISTORY),
    ],
)
def test_a_series_that_supports_no_forecast_gets_none_and_the_cause(values: Any, cause: NoForecastReason) -> None:
    at = times(14)
    found = ensemble.fit(at, values(at), EnsembleSettings())
    assert isinstance(found, NoForecast)
    assert found.cause == cause, found


def test_less_than_two_days_are_too_few_to_try_a_forecast_on() -> None:
    """Trials begin after a day, seven hours apart: of four the newest lies 45 hours and a half after the beginning."""
    at = times(1.9)
    found = ensemble.fit(at, 5 + cycle(at), EnsembleSettings())
    assert found == NoForecast(NoForecastReason.SHORT_HISTORY, "1.9 days of history are too few to try a forecast on them")
    at = times(2.1)
    assert fitted(at, 5 + cycle(at)).period == DAY


def test_a_long_gap_in_the_history_leaves_four_trials_after_it() -> None:
    """Of 24 trials 13 lie in the gap; that is no reason to forecast nothing."""
    at = times(15)
    known = (at < MONDAY + 8 * DAY) | (at >= MONDAY + 12 * DAY)
    found = fitted(at[known], 5 + 2 * cycle(at[known]))
    assert found.period == DAY
    assert found.accuracy.error < 0.03
    barely = known & ((at < MONDAY + 8 * DAY) | (at >= MONDAY + 14.5 * DAY))
    few = ensemble.fit(at[barely], 5 + 2 * cycle(at[barely]), EnsembleSettings(origins=18))
    assert isinstance(few, NoForecast)
    assert few.cause == NoForecastReason.SHORT_HISTORY


def test_an_origin_that_knows_fewer_days_takes_them_again() -> None:
    """Days of 1, 2, 3 ...: the middle of three origins knows four days, the first one knows two and the last one six."""
    bins = np.arange(7.0 * 24)
    series = load_series.LoadSeries(MONDAY, 3600, bins // 24 + 1)
    found = seasonal_profiles.shapes(series, ForecastWindow(np.array([145, 97, 49]), 1, 2), None)
    day = dict(zip(found.names, found.values[:, :, 1].tolist(), strict=True))
    assert day["day before"] == [6, 4, 2]
    assert day["day, mean of all"] == [(6 + 5 + 4 + 3) / 4, (4 + 3 + 2 + 1) / 4, (2 + 1 + 2 + 1) / 4]


def test_gaps_order_and_repeats_do_not_matter() -> None:
    at = times(14)
    values = 5 + 2 * cycle(at)
    holes = np.ones(len(at), np.bool_)
    holes[1000:1100] = holes[3000:3003] = False
    order = np.random.default_rng(2).permutation(np.flatnonzero(holes))
    order = np.concatenate([order, order[:50]])
    whole, holed = fitted(at, values), fitted(at[order], values[order])
    assert holed.forecast.profile == pytest.approx(whole.forecast.profile, abs=0.1)


def test_a_long_gap_takes_the_values_of_the_day_before_and_a_short_one_a_straight_line() -> None:
    at = np.arange(0, 3 * DAY, 3600)
    values = (np.arange(72.0) % 24) ** 2
    seen = np.ones(72, np.bool_)
    seen[30:34] = seen[50] = False
    found = load_series.binned(at[seen], values[seen], step=3600)
    assert not isinstance(found, NoForecast)
    even, known = found
    assert even.values[28:36].tolist() == [16, 25, 36, 49, 64, 81, 100, 121]
    assert known.tolist() == seen.tolist()
    assert load_series.binned(np.array([0, 600, 1500]), np.array([1.0, 3.0, 9.0]), step=300)[0].values.tolist() == [
        1,
        2,
        3,
        5,
        7,
        9,
    ]  # type: ignore[index]  # two of them


def test_a_profile_is_moved_to_the_present_level_by_difference_or_by_ratio() -> None:
    """The profile says 2, the last two bins 3: one more or half as much again, of which half is left after two bins."""
    ahead = ForecastWindow(np.array([2]), 2, 4)
    found = seasonal_profiles.levelled(ProfileStack(("p",), (9,), np.full((1, 1, 6), 2.0)), np.full(6, 3.0), ahead, [2])
    assert found.names == ("p", "p scaled", "p levelled for 2 bins")
    assert found.values[0, 0].tolist() == [2, 2, 2, 2]
    assert found.periods == (9, 9, 9)
    scaled, levelled = found.values[1:, 0].tolist()
    assert scaled == pytest.approx([2 * 1.5**share for share in (0.5**0.5, 0.5, 0.5**1.5, 0.25)])
    assert levelled == pytest.approx([2 + 0.5**0.5, 2.5, 2 + 0.5**1.5, 2.25])


def test_a_scaled_profile_begins_at_the_present_level_also_where_that_is_far_lower() -> None:
    """The profile says 100, the last two bins 20; after two bins the square root of a fifth is left."""
    ahead = ForecastWindow(np.array([2]), 2, 4)
    found = seasonal_profiles.levelled(ProfileStack(("p",), (9,), np.full((1, 1, 6), 100.0)), np.full(6, 20.0), ahead, [2])
    scaled = found.values[1, 0].tolist()
    assert scaled == pytest.approx([100 * 0.2**share for share in (0.5**0.5, 0.5, 0.5**1.5, 0.25)])
    assert scaled[0] < 100 / 3


def test_one_burst_does_not_hide_the_wave_of_all_other_hours() -> None:
    """During the burst, in which one trial lies, nothing is better than the mean of the last half-hour."""
    at, noise = times(14), np.random.default_rng(1).normal(0, 0.3, 14 * 288)
    burst = (at >= at[-1] - 73 * 3600) & (at < at[-1] - 69.5 * 3600)
    values = np.where(burst, 100 + 30 * (np.arange(len(at)) % 3 - 1), 5 + 2 * cycle(at) + noise)
    assert fitted(at, values).period == DAY


def test_an_ensemble_is_a_plain_value_that_a_checkpoint_can_hold() -> None:
    at = times(14)
    found = fitted(at, 5 + 2 * cycle(at))
    assert msgspec.json.decode(msgspec.json.encode(found), type=EnsembleForecast) == found


@given(
    st.lists(st.sampled_from([0.0, 1.0, -3.0, 1e308, -1e308, 1e-300, 1e149, float("nan"), float("inf")]), min_size=0, max_size=9),
    st.integers(0, 700),
    st.sampled_from([300, 1800, 3600, 7200, 420, 0]),
)
def test_no_series_makes_an_error_or_a_forecast_that_is_no_number(pattern: list[float], length: int, step: int) -> None:
    values = np.resize(np.array(pattern), length if pattern else 0)
    at = MONDAY + np.arange(len(values)) * max(step, 1)
    with np.errstate(all="ignore"):
        found = ensemble.fit(at, values, EnsembleSettings(step=step, horizon=4 * 3600))
    assert isinstance(found, NoForecast) or np.isfinite(found.upper.profile).all()


def test_a_long_gap_takes_the_day_before_it_and_not_the_day_after() -> None:
    at = np.arange(72) * 3600
    values = np.repeat([1.0, 2.0, 3.0], 24) * 100 + np.tile(np.arange(24.0), 3)
    seen = (at < 30 * 3600) | (at >= 34 * 3600)
    found = load_series.binned(at[seen], values[seen], step=3600)
    assert not isinstance(found, NoForecast)
    assert found[0].values[29:35].tolist() == [205.0, 106.0, 107.0, 108.0, 109.0, 210.0]
