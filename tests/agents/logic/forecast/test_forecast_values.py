"""Reading a forecast."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.forecast.forecast_values import Forecast, floored


@given(
    st.lists(st.floats(0, 9), min_size=1, max_size=7),
    st.integers(0, 5),
    st.sampled_from([1, 7, 60]),
    st.floats(-3, 40),
    st.floats(-3, 40),
)
def test_a_window_holds_the_values_whose_times_lie_in_it(
    profile: list[float], repeats: int, step: int, after: float, until: float
) -> None:
    first, last = 100 + after * step, 100 + until * step
    forecast = Forecast(100, step, tuple(profile), repeats)
    whole = [(100 + i * step, value) for i, value in enumerate(profile * repeats)]
    expected = [(at, value) for at, value in whole if first <= at <= last]
    at, values = forecast.window(first, last)
    assert [(at + i * step, value) for i, value in enumerate(values)] == expected
    assert forecast.highest(first, last) == max((value for _, value in expected), default=None)


def test_the_last_time_is_that_of_the_last_value() -> None:
    assert Forecast(60, 60, (1.0, 2.0), 3).last == 60 + 5 * 60


def test_a_forecast_is_a_plain_value_that_a_checkpoint_can_hold() -> None:
    forecast = Forecast(60, 60, (1.0, 0.1), 3)
    assert msgspec.json.decode(msgspec.json.encode(forecast), type=Forecast) == forecast


def test_times_are_cut_to_multiples_counted_from_the_year_one() -> None:
    assert floored(1_704_067_205, 7) == 1_704_067_200
    assert floored(1_704_067_259.9, 60) == 1_704_067_200
