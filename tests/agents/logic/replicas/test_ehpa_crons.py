"""Crons on examples worked out by hand, and what must not be taken."""

from datetime import UTC, datetime

import pytest

from agents.logic.replicas import ehpa_crons
from agents.logic.replicas.ehpa_crons import CronEntry


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def active(start: str, end: str, text: str, zone: str = "") -> bool:
    return ehpa_crons.active(CronEntry("c", start, end, 1, zone), at(text))


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
    always = [CronEntry("a", "0 0 30 2 *", "* * * * *", 5), CronEntry("b", "0 0 30 2 *", "* * * * *", 3)]
    assert ehpa_crons.wanted(always, 0, least=2) == 5
    assert ehpa_crons.wanted(always[1:], 0, least=4) == 4
    assert ehpa_crons.wanted([], 0, least=2) == 2
    with pytest.raises(ValueError, match="'x'"):
        ehpa_crons.wanted([*always, CronEntry("c", "x", "* * * * *")], 0, least=2)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([CronEntry("c", "0 9 * * *", "0 17 * * *", 1, "Mars/Base")], "cron 'c': 'Mars/Base' is no time zone"),
        ([CronEntry("c", "x", "0 17 * * *")], "cron 'c': 'x' has 1 fields, not 5"),
        ([CronEntry("c", "0 9 30 2 *", "0 17 * * *")], "cron 'c': its start '0 9 30 2 *' or its end '0 17 * * *' never comes"),
        ([CronEntry("c", "0 9 * * *", "0 9 * * *")], "cron 'c' ends when it starts"),
        (
            [CronEntry("cron7", "0 9 * * *", "0 17 * * *"), CronEntry("Cron7", "0 9 * * *", "0 17 * * *")],
            "two crons have the internal name 'cron-n-e-cron7-utc-09xxx-017xxx'",
        ),
    ],
)
def test_what_must_not_be_taken_is_said(given: list[CronEntry], sentence: str) -> None:
    assert ehpa_crons.refusals(given, 0, namespace="n", ehpa="e") == [sentence]


def test_two_crons_of_one_name_are_refused() -> None:
    given = [CronEntry("c", "0 9 * * *", "0 17 * * *"), CronEntry("c", "0 19 * * *", "0 20 * * *")]
    assert ehpa_crons.refusals(given, 0, namespace="n", ehpa="e") == ["two crons are called 'c'"]
