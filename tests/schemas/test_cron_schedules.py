"""When the next moment of a schedule is: fields against a plain search, zones, and what is no schedule."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import cron_schedules

ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Europe/Berlin")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def field(low: int, high: int) -> Any:
    some = st.lists(st.integers(low, high), min_size=1, max_size=3).map(lambda values: ",".join(map(str, values)))
    step = st.integers(2, 20).map(lambda step: f"*/{step}")
    return st.one_of(st.just("*"), st.just("*"), some, step)


def values(text: str, low: int, high: int) -> set[int]:
    if text == "*":
        return set(range(low, high + 1))
    return set(range(low, high + 1, int(text[2:]))) if text.startswith("*/") else set(map(int, text.split(",")))


@given(
    st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)),
    st.integers(1_700_000_000, 1_740_000_000),
    st.sampled_from(ZONES),
)
def test_the_next_moment_is_the_first_minute_whose_fields_all_match(parts: Any, now: int, zone: str) -> None:
    limits = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    sets = [values(part, low, high) for part, (low, high) in zip(parts, limits, strict=True)]
    stars = any(part == "*" for part in (parts[2], parts[4]))

    def matches(moment: int) -> bool:
        wall = datetime.fromtimestamp(moment, ZoneInfo(zone))
        day, weekday = wall.day in sets[2], wall.isoweekday() % 7 in sets[4]
        right = day and weekday if stars else day or weekday
        return right and wall.month in sets[3] and wall.hour in sets[1] and wall.minute in sets[0]

    found = cron_schedules.parse(" ".join(parts)).next(now, ZoneInfo(zone))
    first = now - now % 60 + 60
    near = next((moment for moment in range(first, first + 3 * 86_400, 60) if matches(moment)), None)
    if near is not None:
        assert found == near
    else:
        assert found is not None
        assert found > first + 3 * 86_400 - 60
        assert matches(found)


def test_a_moment_that_clocks_skip_comes_a_day_later() -> None:
    zone = ZoneInfo("America/New_York")
    before = at("2024-03-10T05:00:00")
    assert cron_schedules.parse("30 2 * * *").next(before, zone) == at("2024-03-11T06:30:00")


def test_midnight_skipped_by_the_clock_costs_its_day_as_upstream_has_it() -> None:
    zone = ZoneInfo("Africa/Cairo")
    before = at("2024-04-25T12:00:00")
    assert cron_schedules.parse("0 5 * * *").next(before, zone) == at("2024-04-26T02:00:00")
    assert cron_schedules.parse("0 5 26 4 *").next(before, zone) == at("2025-04-26T02:00:00")


def test_a_day_that_a_zone_leaves_out_ends_no_search() -> None:
    """Samoa had no 30 December 2011."""
    before = int(datetime(2011, 12, 29, 12, tzinfo=UTC).timestamp())
    found = cron_schedules.parse("CRON_TZ=Pacific/Apia 0 9 30 12 *").next(before, UTC)
    assert found == int(datetime(2012, 12, 30, 9, tzinfo=ZoneInfo("Pacific/Apia")).timestamp())


def test_a_date_that_never_is_never_comes() -> None:
    assert cron_schedules.parse("0 0 30 2 *").next(at("2024-01-01"), UTC) is None
    assert cron_schedules.parse("0 0 29 2 *").next(at("2024-03-01"), UTC) == at("2028-02-29")


def test_every_counts_from_now_in_whole_seconds() -> None:
    assert cron_schedules.parse("@every 1m30s").next(1000.7, UTC) == 1090
    assert cron_schedules.parse("@every 10ms").next(1000, UTC) == 1001
    assert cron_schedules.parse("@every -1h").next(1000, UTC) == cron_schedules.parse("@every 0").next(1000, UTC) == 1001


def test_a_schedules_own_zone_counts() -> None:
    assert cron_schedules.parse("CRON_TZ=Asia/Tokyo 0 9 * * *").next(at("2024-01-01T12:00:00"), UTC) == at("2024-01-02T00:00:00")


@pytest.mark.parametrize(
    "text",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* * 0 * *", "* * * * 7", "5-1 * * * *", "*/0 * * * *", "@often", "@every x",
     "a * * * *", "1-2-3 * * * *", "1/2/3 * * * *", "TZ=Mars/Base 0 9 * * *", "TZ=UTC", "-1 * * * *"],
)  # fmt: skip
def test_what_is_no_schedule_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        cron_schedules.parse(text)


@pytest.mark.parametrize("name", ["Mars/Base", "America", "../etc", "/etc/passwd"])
def test_what_is_no_zone_is_said(name: str) -> None:
    with pytest.raises(ValueError, match="is no time zone"):
        cron_schedules.load(name)
