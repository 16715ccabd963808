"""When a plan becomes void: after its lifetime, and never later than the inputs that allowed it."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from agents.logic.guards import shared_guards
from agents.logic.guards.shared_guards import PlanExpiry, plan_expiry
from schemas import times
from schemas.units import Seconds
from tests.support.cluster_events import MINUTE, START, turn, when

LIFETIME = Seconds(300.0)


def test_a_plan_on_fresh_inputs_ends_after_its_lifetime() -> None:
    inputs = [(START - 60 * MINUTE, Seconds(7200.0)), (START, Seconds(600.0))]
    assert plan_expiry(turn(START), lifetime=LIFETIME, inputs=inputs) == PlanExpiry(when(START + 5 * MINUTE))


def test_a_plan_that_is_made_at_the_end_of_a_window_ends_with_the_window() -> None:
    inputs = [(START - 119 * MINUTE, Seconds(7200.0)), (START - 2 * MINUTE, Seconds(3600.0))]
    expiry = plan_expiry(turn(START), lifetime=LIFETIME, inputs=inputs)
    assert expiry == PlanExpiry(when(START + 5 * MINUTE), when(START + MINUTE))


def test_an_input_that_stays_fresh_for_ever_limits_nothing() -> None:
    assert plan_expiry(turn(START), lifetime=LIFETIME, inputs=[(START, Seconds(1e300))]).stale_after is None
    assert plan_expiry(turn(START), lifetime=LIFETIME, inputs=[]).stale_after is None


@given(st.integers(0, 10**7), st.floats(0, 1e4), st.floats(0, 1e4), st.integers(0, 10**7))
def test_what_is_carried_out_still_passes_the_guard_on_stale_inputs(age: int, within: float, lifetime: float, later: int) -> None:
    """The guard and the expiry agree to the millisecond, for every plan that the guard lets pass."""

    def objection(now: int) -> str | None:
        return shared_guards.stale(what="recommendation", now=now, taken=START - age, within=Seconds(within))

    if objection(START) is None:
        expiry = plan_expiry(turn(START), lifetime=Seconds(lifetime), inputs=[(START - age, Seconds(within))])
        void_after = times.earliest(expiry.expires, expiry.stale_after)
        now = when(START) + timedelta(milliseconds=later)
        alive = objection(START + later) is None and now <= expiry.expires
        assert (now <= void_after) == alive
