"""Crons on examples worked out by hand, and what must not be taken."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.logic.replicas import ehpa_crons
from agents.logic.replicas.ehpa_crons import CronEntry
from schemas import cron_schedules


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def active(start: str, end: str, text: str, zone: str = "") -> bool:
    return ehpa_crons.in_window(CronEntry("c", start, end, 1, zone), at(text))


@pytest.mark.parametrize(
    ("clock", "expected"), [("10:14:59", False), ("10:15:00", True), ("14:14:59", True), ("14:15:00", False)]
)
def test_a_window_holds_its_start_and_not_its_end(clock: str, expected: bool) -> None:
    assert active("15 10 * * *", "15 14 * * *", f"2024-03-05T{clock}") is expected


@pytest.mark.parametrize(("clock", "expected"), [("23:30", True), ("05:59", True), ("06:00", False), ("12:00", False)])
def test_a_window_may_reach_over_midnight(clock: str, expected: bool) -> None:
    assert active("0 22 * * *", "0 6 * * *", f"2024-03-05T{clock}") is expected


def test_a_window_may_reach_over_a_weekend() -> None:
    days = {"2024-03-09T12:00": True, "2024-03-10T22:59": True, "2024-03-10T23:00": False, "2024-03-06T12:00": False}
    assert {day: active("0 0 * * 6", "0 23 * * 0", day) for day in days} == days


def test_nine_in_shanghai_is_one_in_greenwich() -> None:
    assert not active("0 9 * * *", "0 10 * * *", "2024-03-05T00:59", "Asia/Shanghai")
    assert active("0 9 * * *", "0 10 * * *", "2024-03-05T01:00", "Asia/Shanghai")


def test_the_largest_target_of_the_active_counts_and_the_minimum_is_a_floor() -> None:
    always = [CronEntry("a", "0 0 1 1 *", "0 0 30 2 *", 5), CronEntry("b", "0 0 1 1 *", "0 0 30 2 *", 3)]
    assert ehpa_crons.wanted(always, 0, least=2) == 5
    assert ehpa_crons.wanted(always[1:], 0, least=4) == 4
    assert ehpa_crons.wanted([], 0, least=2) == 2
    with pytest.raises(ValueError, match="'x'"):
        ehpa_crons.wanted([*always, CronEntry("c", "x", "* * * * *")], 0, least=2)


def spans(start: str, end: str, first: str, hours: float, zone: str = "Europe/Prague") -> list[tuple[str, str]]:
    """The local times of the minutes in which a cron begins to be active, and in which it no longer is."""
    cron, place = CronEntry("c", start, end, 1, zone), ZoneInfo(zone)
    now, was, turns = datetime.fromisoformat(first).replace(tzinfo=place).timestamp(), False, list[str]()
    for minute in range(int(hours * 60)):
        on = ehpa_crons.in_window(cron, now + 60 * minute)
        if on is not was:
            turns.append(f"{datetime.fromtimestamp(now + 60 * minute, place):%a %H:%M %Z}")
        was = on
    return list(zip(turns[::2], turns[1::2], strict=True))


def test_a_window_of_weekdays_that_ends_daily_is_off_at_the_weekend() -> None:
    """kedacore/keda#4677: by upstream's rule it lasts from Friday to Sunday."""
    found = spans("30 6 * * 1-5", "10 22 * * *", "2026-03-05T00:00", 24 * 6)
    assert found == [(f"{day} 06:30 CET", f"{day} 22:10 CET") for day in ("Thu", "Fri", "Mon", "Tue")]


@pytest.mark.parametrize(
    ("start", "end", "saturday", "sunday"),
    [
        ("0 2 * * *", "0 3 * * *", ("02:00 CET", "03:00 CET"), None),
        ("30 2 * * *", "30 3 * * *", ("02:30 CET", "03:30 CET"), ("03:00 CEST", "03:30 CEST")),
        ("30 2 * * *", "0 22 * * *", ("02:30 CET", "22:00 CET"), ("03:00 CEST", "22:00 CEST")),
        ("30 1 * * *", "15 2 * * *", ("01:30 CET", "02:15 CET"), ("01:30 CET", "03:00 CEST")),
        ("15 2 * * *", "45 2 * * *", ("02:15 CET", "02:45 CET"), None),
    ],
)
def test_a_moment_that_the_clocks_skip_happens_when_they_go_on(
    start: str, end: str, saturday: tuple[str, str], sunday: tuple[str, str] | None
) -> None:
    """With the skipped moment left out, a window would last 25 hours, or be missing for a whole day."""
    expected = [(f"Sat {saturday[0]}", f"Sat {saturday[1]}")]
    expected += [] if sunday is None else [(f"Sun {sunday[0]}", f"Sun {sunday[1]}")]
    assert spans(start, end, "2026-03-28T00:00", 47) == expected


def test_in_the_hour_that_clocks_show_twice_a_window_is_open_whenever_they_show_it() -> None:
    found = spans("15 2 * * *", "45 2 * * *", "2026-10-25T00:00", 24)
    assert found == [("Sun 02:15 CEST", "Sun 02:45 CEST"), ("Sun 02:15 CET", "Sun 02:45 CET")]
    assert spans("30 2 * * *", "30 3 * * *", "2026-10-25T00:00", 24) == [("Sun 02:30 CEST", "Sun 03:30 CET")]


ZONES = ("UTC", "Europe/Prague", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata", "America/Havana")
HOURS = st.sampled_from(["*", "0", "1", "2", "3", "1-3", "*/6", "22", "23", "6,18"])
DAYS = st.sampled_from([("*", "*"), ("1", "*"), ("31", "*"), ("29-31", "*"), ("*", "1-5"), ("*", "0"), ("*/2", "*"), ("15", "6")])
SCHEDULES = st.builds(
    lambda minute, hour, day, month: f"{minute} {hour} {day[0]} {month} {day[1]}",
    st.sampled_from(["0", "15", "30", "45", "*/20", "5,50"]),
    HOURS,
    DAYS,
    st.sampled_from(["*", "3", "10", "2", "*/2"]),
)


def last_by_hand(text: str, now: int, zone: ZoneInfo, days: int) -> int | None:
    """Walk back minute by minute; a minute that clocks skip counts at the first instant after the skipped time."""
    schedule = cron_schedules.parse(text)

    def matches(wall: datetime) -> bool:
        day, weekday = wall.day in schedule.days, wall.isoweekday() % 7 in schedule.weekdays
        chosen = day and weekday if any(schedule.free) else day or weekday
        return chosen and wall.month in schedule.months and wall.hour in schedule.hours and wall.minute in schedule.minutes

    for at in range(now - now % 60, now - days * 86_400, -60):
        here, before = (datetime.fromtimestamp(moment, zone).replace(tzinfo=None) for moment in (at, at - 60))
        skipped = int((here - before).total_seconds()) // 60 - 1
        if any(matches(here - timedelta(minutes=minutes)) for minutes in range(max(skipped, 0) + 1)):
            return at
    return None


@settings(deadline=None, max_examples=25)
@given(text=SCHEDULES, zone=st.sampled_from(ZONES), now=st.integers(1_700_000_000, 1_800_000_000), near=st.booleans())
@example(text="30 2 * * *", zone="Europe/Prague", now=1_774_749_600, near=False)
@example(text="0 0 31 * *", zone="Pacific/Apia", now=1_325_419_200, near=False)
def test_the_last_moment_is_the_one_that_a_walk_back_through_the_minutes_finds(
    text: str, zone: str, now: int, *, near: bool
) -> None:
    at = datetime.fromtimestamp(now, UTC)
    changes = [datetime(at.year, 3, 29, 3, tzinfo=UTC), datetime(at.year, 10, 25, 3, tzinfo=UTC)]
    moment = int(min(changes, key=lambda change: abs(change - at)).timestamp()) + now % 86_400 if near else now
    found, days = cron_schedules.parse(text).last(moment, ZoneInfo(zone)), 20
    by_hand = last_by_hand(text, moment, ZoneInfo(zone), days)
    assert found == by_hand if by_hand is not None else found is None or found <= moment - days * 86_400


@pytest.mark.parametrize(
    ("crons", "sentence"),
    [
        ([CronEntry("c", "0 9 * * *", "0 17 * * *", 1, "Mars/Base")], "cron 'c': 'Mars/Base' is no time zone"),
        ([CronEntry("c", "x", "0 17 * * *")], "cron 'c': 'x' has 1 fields, not 5"),
        ([CronEntry("c", "0 9 30 2 *", "0 17 * * *")], "cron 'c': its start '0 9 30 2 *' or its end '0 17 * * *' never comes"),
        ([CronEntry("c", "0 9 * * *", "0 9 * * *")], "cron 'c' ends when it starts"),
        (
            [CronEntry("c", "@every 1h", "0 9 * * *")],
            "cron 'c': '@every' says how often, and not when it starts or ends",
        ),
        (
            [CronEntry("cron7", "0 9 * * *", "0 17 * * *"), CronEntry("Cron7", "0 9 * * *", "0 17 * * *")],
            "two crons have the internal name 'cron-n-e-cron7-utc-09xxx-017xxx'",
        ),
    ],
)
def test_what_must_not_be_taken_is_said(crons: list[CronEntry], sentence: str) -> None:
    assert ehpa_crons.refusals(crons, 0, namespace="n", ehpa="e") == [sentence]


def test_two_crons_of_one_name_are_refused() -> None:
    crons = [CronEntry("c", "0 9 * * *", "0 17 * * *"), CronEntry("c", "0 19 * * *", "0 20 * * *")]
    assert ehpa_crons.refusals(crons, 0, namespace="n", ehpa="e") == ["two crons are called 'c'"]
