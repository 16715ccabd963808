"""Soft taints: nodes that may go soon get one, a bounded number in each look, and lose it when they are needed again."""

from typing import Any

from schemas.decisions.node_updates import SoftTaintPlanned
from schemas.facts.nodes import NodeTaint
from schemas.outcomes import Result
from schemas.policies.control import ControlChanged, Mode
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, joined, node, pod, shape

SLOW: dict[str, Any] = {"interval": 1.0, "delay_after_add": 0.0}
TAINT = NodeTaint("DeletionCandidateOfClusterAutoscaler", "1767225600", "PreferNoSchedule")


def world(nodes: int, *more: Any, **settings: Any) -> ScalerRun:
    """Nodes without pods, which wait ten minutes before they go."""
    empty = [*(event for number in range(nodes) for event in joined(f"n{number:02}")), *more]
    return ScalerRun(group(desired=nodes, most=100), shape(), controller(), *empty, settings={**SLOW, **settings})


def test_an_unneeded_node_is_tainted_once_with_the_numbers_it_rests_on() -> None:
    run = world(1)
    run.run(5.0)
    assert run.soft_taints == [("n00", True)]
    [plan] = run.of(SoftTaintPlanned)
    assert (plan.node_uid, plan.because["utilization"], plan.because["unneeded"]) == ("uid-n00", 0.0, True)
    run.answer(plan, Result.DONE)
    run.run(5.0)
    run.step(node("n00", taints=(TAINT,)))
    run.run(5.0)
    assert run.soft_taints == [("n00", True)]
    run.step(*[pod(f"p{number}", node="n00") for number in range(4)])
    run.run(2.0)
    assert run.soft_taints == [("n00", True), ("n00", False)]


def test_a_tainted_node_that_is_needed_again_loses_its_taint() -> None:
    run = world(1, node("n00", taints=(TAINT,)))
    run.run(3.0)
    assert run.soft_taints == []
    run.step(*[pod(f"p{number}", node="n00") for number in range(4)])
    run.run(2.0)
    assert run.soft_taints == [("n00", False)]
    [plan] = run.of(SoftTaintPlanned)
    run.answer(plan, Result.DONE)
    run.step(node("n00"))
    run.run(3.0)
    assert run.soft_taints == [("n00", False)]


def test_ten_are_tainted_in_one_look_and_the_others_when_those_are() -> None:
    run = world(13)
    run.run(1.0)
    assert [name for name, _ in run.soft_taints] == [f"n{number:02}" for number in range(10)]
    run.run(3.0)
    assert len(run.soft_taints) == 10
    run.step(*[node(f"n{number:02}", taints=(TAINT,)) for number in range(10)])
    run.run(2.0)
    assert sorted(name for name, _ in run.soft_taints) == [f"n{number:02}" for number in range(13)]


def test_with_none_allowed_those_that_are_there_go() -> None:
    run = world(2, node("n01", taints=(TAINT,)), soft_taints=0)
    run.run(3.0)
    assert run.soft_taints == [("n01", False)]


def test_a_refused_taint_is_planned_again_and_holds_no_removal_back() -> None:
    run = world(1, unneeded_time=330.0)
    run.run(2.0)
    run.answer(run.of(SoftTaintPlanned)[0], Result.FAILED)
    run.run(310.0)
    assert len(run.soft_taints) == 2
    run.run(25.0)
    assert run.removed == ["n00"]


def test_in_shadow_it_is_said_once() -> None:
    shadow = ScalerRun(group(desired=1), *joined("n1"), settings={**SLOW, "expires": 2.0}, mode=Mode.SHADOW)
    shadow.run(20.0)
    assert shadow.soft_taints == [("n1", True)]


def test_while_the_budget_holds_every_removal_soft_taints_still_follow() -> None:
    run = ScalerRun(settings={**SLOW, "unneeded_time": 3.0})
    run.step(ControlChanged(when(START), CLUSTER, Mode.APPLY, budget=0.0))  # type: ignore[arg-type]  # a unit
    away = node("n03", conditions={"Ready": "False"})
    nodes = [event for number in range(4) for event in joined(f"n{number:02}")]
    used = [pod(f"p{number}-{each}", node=f"n{number:02}") for number in (1, 2) for each in range(4)]
    run.step(group(desired=4, most=100), shape(), controller(replicas=8), *nodes, away, node("n01", taints=(TAINT,)))
    run.step(*used)
    run.run(10.0)
    assert "budget" in run.refused("n00")
    assert run.removed == []
    run.step(node("n02", taints=(TAINT,)))
    run.run(3.0)
    assert ("n02", False) in run.soft_taints
