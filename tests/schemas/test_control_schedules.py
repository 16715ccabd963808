"""A control record at a moment: what its schedules make of it, in zones with summer time, and what no schedule may say."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.policies import control
from schemas.policies.control import ControlChanged, ControlSchedule, Mode
from schemas.units import Fraction

OFFICE = ControlSchedule("0 9 * * mon-fri", 8 * 60, "Europe/Berlin", mode=Mode.SHADOW, reason="office hours")
SALE = ControlSchedule("30 10 2 7 *", 60, budget=Fraction(0.02))
FREEZE = ControlSchedule("0 0 24 12 *", 3 * 24 * 60, paused=True, reason="freeze")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def record(*schedules: ControlSchedule, **changed: Any) -> ControlChanged:
    base = ControlChanged(at("2026-01-01"), "prod", Mode.APPLY, budget=Fraction(0.1), schedules=schedules)
    return replace(base, **changed)


@pytest.mark.parametrize(
    ("moment", "mode"),
    [
        ("2026-07-02T06:59:59", Mode.APPLY),  # Thursday; Berlin is two hours ahead of UTC in summer
        ("2026-07-02T07:00:00", Mode.SHADOW),
        ("2026-07-02T14:59:59", Mode.SHADOW),
        ("2026-07-02T15:00:00", Mode.APPLY),
        ("2026-01-08T07:30:00", Mode.APPLY),  # Thursday; one hour ahead in winter
        ("2026-01-08T08:00:00", Mode.SHADOW),
        ("2026-07-04T09:00:00", Mode.APPLY),  # Saturday
    ],
)
def test_office_hours_are_those_of_their_zone(moment: str, mode: Mode) -> None:
    assert record(OFFICE).in_force_at(at(moment)).mode is mode


def test_of_those_that_apply_together_the_most_careful_counts_and_each_reason_is_said() -> None:
    there = record(OFFICE, SALE, replace(OFFICE, mode=Mode.PLAN, budget=Fraction(0.05), reason="")).in_force_at(
        at("2026-07-02T11:00:00")
    )
    assert (there.mode, there.budget, there.paused, there.reason) == (Mode.SHADOW, 0.02, False, "office hours")
    assert control.objection(record(FREEZE).in_force_at(at("2026-12-26T23:59:59")), "prod") == "cluster 'prod' is paused: freeze"
    assert control.objection(record(FREEZE).in_force_at(at("2026-12-27T00:00:00")), "prod") is None


def test_a_schedule_never_ends_a_pause_and_may_go_further_than_the_record() -> None:
    night = ControlSchedule("0 1 * * *", 120, mode=Mode.APPLY, budget=Fraction(0.3))
    there = record(night, mode=Mode.SHADOW, paused=True).in_force_at(at("2026-07-02T02:00:00"))
    assert (there.mode, there.budget, there.paused) == (Mode.APPLY, 0.3, True)
    assert record(night, mode=Mode.SHADOW).may_apply
    assert not record(OFFICE, mode=Mode.SHADOW).may_apply


def test_a_pause_whose_beginning_a_change_of_the_clock_skips_begins_when_the_skipped_time_ends() -> None:
    skipped = ControlSchedule("30 2 * * *", 60, "Europe/Berlin", paused=True)
    assert not record(skipped).in_force_at(at("2026-03-29T00:59:59")).paused
    assert record(skipped).in_force_at(at("2026-03-29T01:00:00")).paused
    assert not record(skipped).in_force_at(at("2026-03-29T02:00:00")).paused


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"begins": "every morning"}, "schedules[0]: 'every morning' has 2 fields, not 5"),
        ({"begins": "@every 1h"}, "schedules[0].begins is '@every 1h'; @every has no moment at which it begins"),
        ({"zone": "Mars/Olympus"}, "schedules[0]: 'Mars/Olympus' is no time zone"),
        ({"minutes": 0}, "schedules[0].minutes is 0; it is from 1 to 44640"),
        ({"minutes": 44_641}, "schedules[0].minutes is 44641"),
        ({"mode": None}, "schedules[0] says neither mode nor budget nor paused"),
        ({"budget": Fraction(2.0)}, "schedules[0].budget is 2.0"),
    ],
)
def test_what_no_schedule_may_say_is_a_fault_of_the_record(changes: dict[str, Any], why: str) -> None:
    (fault,) = control.faults(record(replace(OFFICE, **changes)))
    assert fault.startswith(why)
    assert list(control.faults(record(OFFICE, SALE, FREEZE))) == []


@pytest.mark.parametrize("begins", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", ", 9 * * *"])
def test_a_schedule_that_never_begins_is_refused_at_the_door_and_no_fault_of_a_record(begins: str) -> None:
    never = record(OFFICE, replace(FREEZE, begins=begins))
    (why,) = control.refusals(never)
    assert why == f"schedules[1].begins is '{begins}'; there is no such day, so it never begins"
    assert list(control.faults(never)) == list(control.refusals(record(OFFICE, replace(SALE, begins="0 0 29 2 *")))) == []


@pytest.mark.parametrize(
    ("moment", "paused"),
    [
        ("2026-10-25T00:29:59", False),  # Berlin shows 2:30 twice on this day: at 0:30 and at 1:30 UTC
        ("2026-10-25T00:30:00", True),
        ("2026-10-25T02:29:59", True),
        ("2026-10-25T02:30:00", False),
    ],
)
def test_a_pause_whose_beginning_clocks_show_twice_begins_with_the_first_and_ends_after_the_second(
    moment: str, *, paused: bool
) -> None:
    twice = ControlSchedule("30 2 * * *", 60, "Europe/Berlin", paused=True)
    assert record(twice).in_force_at(at(moment)).paused is paused


def test_a_window_over_midnight_and_one_that_outlasts_its_own_next_beginning_have_no_gap() -> None:
    night = record(ControlSchedule("0 23 31 12 *", 120, paused=True))
    assert [night.in_force_at(at(t)).paused for t in ("2026-12-31T22:59:59", "2027-01-01T00:00:00", "2027-01-01T01:00:00")] == [
        False,
        True,
        False,
    ]
    always = record(ControlSchedule("0 0 * * *", 24 * 60 + 1, paused=True))
    assert all(always.in_force_at(at(t)).paused for t in ("2026-07-01T23:59:59", "2026-07-02T00:00:00", "2026-07-02T00:01:00"))


def test_more_schedules_than_are_allowed_are_a_fault() -> None:
    (fault,) = control.faults(record(*[OFFICE] * 21))
    assert fault == "schedules has 21 entries; 20 are allowed"
