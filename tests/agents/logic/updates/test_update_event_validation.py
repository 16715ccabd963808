"""Guards in a policy are checked as the updater's own settings are."""

from agents.logic.updates.update_settings import reasons
from schemas.policies.vertical import GuardOverrides, VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.units import Fraction, Seconds
from tests.support.cluster_events import START, when


def why(**guards: object) -> list[str]:
    overrides = GuardOverrides(**guards)  # type: ignore[arg-type]  # values that the types forbid are the point
    return list(reasons(VerticalPolicyChanged(when(START), "prod/*", "1", guards=overrides)))


def test_guards_that_the_updater_could_have_itself_pass_and_absent_ones_say_nothing() -> None:
    assert why() == why(budget=Fraction(0.5), cool_down=Seconds(60.0), profile="upstream") == []


def test_a_guard_that_could_not_be_a_setting_is_named_with_its_value() -> None:
    for guards in ({"cool_down": -1.0}, {"profile": "ours"}, {"budget_schedules": "5%"}):
        (reason,) = why(**guards)
        assert reason.startswith(f"guards.{next(iter(guards))}"), reason


def test_other_events_are_not_its_own() -> None:
    assert list(reasons(VerticalPolicyRemoved(when(START), "prod/*"))) == []
