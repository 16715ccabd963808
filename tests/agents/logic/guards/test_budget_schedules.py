"""Budgets that hold at certain times: from the moment of the schedule on, for as long as they say and no longer."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from agents.logic.guards import budget_schedules

MIDNIGHT = 1_767_225_600
"""Thursday, 2026-01-01T00:00:00Z, in seconds."""
NINE = MIDNIGHT + 9 * 3600


def share(text: str, at: int) -> float | None:
    found = budget_schedules.in_force(text, at * 1000)
    return None if found is None else float(found.share)


@pytest.mark.parametrize(("length", "seconds"), [("90m", 5400), ("8h", 28_800), ("2d", 172_800), ("31d", 2_678_400)])
def test_an_entry_holds_from_its_moment_on_for_so_long(length: str, seconds: int) -> None:
    text = f"5% @ 0 9 1 1 * for {length}"
    assert [share(text, at) for at in (NINE - 1, NINE, NINE + seconds - 1, NINE + seconds)] == [None, 0.05, 0.05, None]


def instant(zone: str, wall: str, fold: int = 0) -> int:
    return int(datetime.fromisoformat(wall).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp())


@pytest.mark.parametrize(
    ("zone", "cron", "wall"),
    [
        ("Europe/Berlin", "30 2 * * *", "2026-03-29T03:00"),
        ("America/New_York", "30 2 * * *", "2026-03-08T03:00"),
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-04T02:30"),
        ("Africa/Cairo", "30 0 * * *", "2026-04-24T01:00"),
        ("Pacific/Apia", "0 9 30 12 *", "2011-12-31T00:00"),
    ],
)
def test_an_entry_whose_beginning_the_clocks_skip_begins_when_they_go_on(zone: str, cron: str, wall: str) -> None:
    begin, text = instant(zone, wall), f"0% @ CRON_TZ={zone} {cron} for 2h"
    assert [share(text, begin + after) for after in (-1, 0, 7199, 7200)] == [None, 0.0, 0.0, None]


@pytest.mark.parametrize(("zone", "wall"), [("Europe/Berlin", "2026-10-25T02:30"), ("America/New_York", "2026-11-01T01:30")])
def test_an_entry_whose_beginning_the_clocks_show_twice_begins_twice(zone: str, wall: str) -> None:
    text = f"0% @ CRON_TZ={zone} {wall[14:16]} {int(wall[11:13])} * * * for 10m"
    for fold in (0, 1):
        begin = instant(zone, wall, fold)
        assert [share(text, begin + after) for after in (-1, 0, 599, 600)] == [None, 0.0, 0.0, None]


def test_of_all_that_hold_the_smallest_counts_and_none_raises_a_share() -> None:
    text = "10% @ 0 9 * * * for 8h; 0% @ 0 10 * * * for 1h; 50% @ 0 0 * * * for 24h"
    assert [share(text, NINE + hour * 3600) for hour in (-1, 0, 1, 2, 8)] == [0.5, 0.1, 0.0, 0.1, 0.5]
    assert budget_schedules.at_most(0.2, text, NINE * 1000) == 0.1  # type: ignore[arg-type]  # a share
    assert budget_schedules.at_most(0.2, text, MIDNIGHT * 1000) == 0.2  # type: ignore[arg-type]  # a share
    assert budget_schedules.at_most(0.2, "", NINE * 1000) == 0.2  # type: ignore[arg-type]  # a share


def test_one_of_nothing_says_for_how_long() -> None:
    found = budget_schedules.in_force("0% @ 0 9 * * * for 90m; 5% @ 0 1 * * * for 1h", NINE * 1000)
    assert found is not None
    assert found.closed == "the budget is 0 now, for 90 minutes from each '0 9 * * *' on"
    [_, other] = budget_schedules.parse("0% @ 0 9 * * * for 90m; 5% @ 0 1 * * * for 1h")
    assert other.closed == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("5%", "not of the form"),
        ("101% @ 0 9 * * * for 8h", "more than 100%"),
        ("5% @ 0 9 * * * for 0h", "holds for 0 s"),
        ("5% @ 0 9 * * * for 32d", "holds for 2764800 s"),
        ("5% @ 0 25 * * * for 8h", "has no schedule"),
        ("0% @ @every 1h for 2h", "@every has no moment of its own"),
        ("0% @ 0 0 30 2 * for 2h", "there is no such day"),
        ("; ".join(["5% @ 0 9 * * * for 8h"] * 51), "it has 51 entries"),
    ],
)
def test_what_is_no_budget_is_refused_with_the_entry(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        budget_schedules.parse(text)
