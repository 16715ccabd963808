"""Numbers and times: every conversion is exact where it can be, and its own inverse."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import times

MOMENTS = st.timedeltas(timedelta(0), timedelta(days=80_000)).map(lambda since: times.EPOCH + since)
NEW_YEAR_2000_MS = (30 * 365 + 7) * 86_400_000  # 7 leap days from 1970 to 2000


def test_new_year_2000_is_the_number_that_a_calendar_gives() -> None:
    assert times.to_ms(datetime(2000, 1, 1, tzinfo=UTC)) == NEW_YEAR_2000_MS
    assert times.from_ms(NEW_YEAR_2000_MS) == datetime(2000, 1, 1, tzinfo=UTC)
    assert times.to_seconds(datetime(2000, 1, 1, tzinfo=UTC)) == NEW_YEAR_2000_MS / 1000


@given(st.integers(0, 7_000_000_000_000))
def test_milliseconds_come_back_as_they_were(number: int) -> None:
    at = times.from_ms(number)
    assert times.to_ms(at) == times.nearest_ms(at) == number


@given(MOMENTS)
def test_seconds_come_back_to_the_microsecond(at: datetime) -> None:
    assert abs(times.from_seconds(times.to_seconds(at)) - at) <= timedelta(microseconds=1)


@pytest.mark.parametrize(("microseconds", "down", "nearest"), [(499, 0, 0), (500, 0, 0), (501, 0, 1), (999, 0, 1), (1_500, 1, 2)])
def test_a_part_of_a_millisecond_is_rounded_as_the_name_says(microseconds: int, down: int, nearest: int) -> None:
    at = times.EPOCH + timedelta(microseconds=microseconds)
    assert (times.to_ms(at), times.nearest_ms(at)) == (down, nearest)


def test_times_before_the_epoch_are_rounded_down_too() -> None:
    assert times.to_ms(times.EPOCH - timedelta(microseconds=1)) == -1


def test_another_offset_is_the_same_moment() -> None:
    at = datetime(2024, 1, 1, 2, 0, tzinfo=timezone(timedelta(hours=2)))
    assert times.to_ms(at) == times.to_ms(datetime(2024, 1, 1, tzinfo=UTC))
    assert times.rfc3339(at) == "2024-01-01T00:00:00Z"


def test_a_time_without_offset_is_refused() -> None:
    with pytest.raises(TypeError):
        times.to_ms(datetime(2024, 1, 1))  # noqa: DTZ001  # that it has no offset is the point
