"""Budgets that hold at certain times: from the moment of the schedule on, for as long as they say and no longer."""

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
        ("; ".join(["5% @ 0 9 * * * for 8h"] * 51), "it has 51 entries"),
    ],
)
def test_what_is_no_budget_is_refused_with_the_entry(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        budget_schedules.parse(text)
