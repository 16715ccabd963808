"""What holds the scaler back, and for how long: pauses, too many broken nodes, the budget of nodes; each is said once."""

from dataclasses import replace
from itertools import pairwise

import pytest

from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleRefused
from schemas.facts.nodes import InstanceInterruptionNoticed, InterruptionKind
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction
from tests.support.cluster_events import START, when
from tests.support.node_cloud import NodeCloud
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


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (InterruptionKind.REBALANCE, {"rebalances": True}),
        (InterruptionKind.MAINTENANCE, {}),
        # As long as a node takes to come, or hardly longer.
        (None, {"expire_after": 240.0}),
    ],
)
def test_nodes_that_are_to_be_replaced_soon_after_they_came_are_replaced_more_and_more_seldom(
    kind: InterruptionKind | None, settings: dict[str, object]
) -> None:
    run = ScalerRun(shape("a", cpu=3500), controller("a"), tick=10_000, settings=settings)
    cloud = NodeCloud(run, group("a", desired=1))
    cloud.wait("a", "pod")
    told = set[str]()
    for _ in range(6 * 60):
        cloud.go(60)
        joined_now = [machine.name for machine in cloud.companies["a"].machines.values() if machine.joined]
        for name in joined_now if kind is not None else ():
            if name not in told:
                told.add(name)
                run.step(InstanceInterruptionNoticed(when(run.now), CLUSTER, name, kind, f"m-{name}", when(run.now)))
    removals = [plan.at for plan in run.of(NodeRemovalPlanned)]
    pauses = [(later - sooner).total_seconds() for sooner, later in pairwise(removals)]
    # 90 of them in these six hours, without pauses that grow.
    assert 10 < len(removals) < 20
    assert min(pauses[4:]) >= 1500.0
    assert not cloud.waiting
    assert "ReplacedTooOften" in {refusal.code for refusal in run.of(ScaleRefused)}


def test_old_nodes_are_replaced_without_such_pauses() -> None:
    run = ScalerRun(shape("a", cpu=3500), controller("a", replicas=6), tick=10_000, settings={"expire_after": 14_400.0})
    cloud = NodeCloud(run, group("a", desired=6, most=12))
    cloud.wait("a", *(f"pod-{number}" for number in range(6)))
    cloud.go(14_400.0)
    removals = run.of(NodeRemovalPlanned)
    assert len(removals) == 6
    # One after the other, each as soon as the new node of the one before is there.
    assert (removals[-1].at - removals[0].at).total_seconds() < 1200.0
