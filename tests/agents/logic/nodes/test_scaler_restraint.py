"""What holds the scaler back, and for how long: pauses, too many broken nodes, the budget of nodes; each is said once."""

from dataclasses import replace

import pytest

from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, joined, node, pod, shape

QUICK = {"unneeded_time": 5.0, "delay_after_add": 0.0, "interval": 1.0}


def test_a_pause_that_holds_only_removals_back_is_said_once_as_well_and_again_after_a_resume() -> None:
    run = ScalerRun(group(desired=1), *joined("n1"), settings=QUICK)
    pause = ControlChanged(when(START), CLUSTER, Mode.APPLY, paused=True, budget=Fraction(1.0), reason="INC-1")
    run.step(pause)
    run.run(60.0)
    assert (run.removed, run.refused(CLUSTER)) == ([], ["paused"])
    run.step(shape(cpu=3000), pod("p", node="n1"))  # for a while there is nothing to hold back
    run.run(10.0)
    run.step(pod("p", node="n1", deleted=when(START)))
    run.run(60.0)
    assert run.refused(CLUSTER) == ["paused"]
    run.step(replace(pause, paused=False), pod("p", node="n1"))
    run.run(10.0)
    run.step(pause, pod("p", node="n1", deleted=when(START)))
    run.run(60.0)
    assert run.refused(CLUSTER) == ["paused", "paused"]


@pytest.mark.parametrize(("schedules", "gone"), [("", ["n0"]), ("0% @ * * * * * for 24h", [])])
def test_a_node_that_is_not_ready_is_not_held_by_the_budget_that_it_uses_up_itself(schedules: str, gone: list[str]) -> None:
    names = [f"n{number}" for number in range(5)]
    nodes = [event for name in names for event in joined(name)]
    settings = {**QUICK, "unready_time": 5.0, "budget_schedules": schedules}
    run = ScalerRun(group(desired=5), *nodes, shape(cpu=3000), controller(), settings=settings)
    control = ControlChanged(when(START), CLUSTER, Mode.APPLY, budget=Fraction(0.1))
    run.step(control, node("n0", conditions={"Ready": "Unknown"}), *[pod(f"p{name}", node=name) for name in names[1:]])
    run.run(20.0)
    assert run.removed == gone
