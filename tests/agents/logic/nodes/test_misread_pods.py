"""Pods that wait for what nobody here understands: named, with the scheduler's words, and no node is made for them."""

from dataclasses import replace
from typing import Any

import pytest

from agents.logic.nodes.scaler import scaling_dry_run
from schemas.decisions.node_updates import NodeScalingHalted, ScaleRefused
from schemas.facts.nodes import NodeTaint
from schemas.facts.pods import PodPhase
from schemas.facts.scheduled_pods import PodToleration
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, GIB, ScalerRun, controller, group, instance, joined, node, pod, shape

SAYS = "0/1 nodes are available: 1 node(s) did not have enough free storage."


def obstacles(run: ScalerRun, name: str) -> list[tuple[str, str]]:
    found = scaling_dry_run.pod_waits(run.stage, CLUSTER, name, run.now)
    assert found is not None
    return [(one.code, one.reason) for one in found[1]]


def codes(run: ScalerRun) -> list[str]:
    return [said.code for said in run.of(ScaleRefused) if said.subject.kind.value != "node"]


def test_a_pod_that_the_scheduler_refuses_beside_room_is_named_after_a_minute_with_its_words() -> None:
    run = ScalerRun(group(desired=1), *joined("n1"), shape(), controller())
    run.step(pod("p", message=SAYS))
    run.run(50.0)
    assert [code for code, _reason in obstacles(run, "p")] == ["HasRoom"]
    run.run(20.0)
    [(code, reason)] = obstacles(run, "p")
    assert code == "NotUnderstood"
    assert reason.startswith("not understood: for ")
    assert reason.endswith(f"node 'n1' has room for it by all rules that are known here, and the scheduler refuses it: '{SAYS}'")
    run.run(1000.0)
    assert codes(run).count("NotUnderstood") in (2, 3)  # every ten minutes
    assert run.grown == []


def test_room_that_came_a_moment_ago_is_no_reason_to_doubt() -> None:
    run = ScalerRun(group(desired=1), *joined("n1"), shape(cpu=3500), controller())
    run.step(pod("old", node="n1"), pod("p", message=SAYS))
    run.run(120.0)
    run.step(pod("old", node="n1", phase=PodPhase.RUNNING), *joined("n2"))
    run.run(30.0)
    assert "NotUnderstood" not in codes(run)


def test_what_a_shape_says_nobody_understands_makes_no_node_and_is_named() -> None:
    claims = "its resource claims 'gpu' (dynamic resource allocation)"
    run = ScalerRun(group(), shape(unread=(claims,)), controller())
    run.step(pod("p"))
    run.run(30.0)
    assert run.grown == []
    assert any(f"not understood: {claims}" in reason for _code, reason in obstacles(run, "p"))


CLAIM = "its resource claims 'gpu' (dynamic resource allocation)"


@pytest.mark.parametrize(
    ("unread", "said", "why"),
    [
        ((CLAIM,), "", f"{CLAIM}; its scheduler has said nothing about it in 70 s, as it does where it does not run, or where"),
        ((), "", "its scheduler has said nothing about it in 70 s, as it does where it does not run, or where"),
        ((), "nodeinfo not found", "its scheduler fails over it: 'nodeinfo not found'"),
    ],
)
def test_a_pod_of_which_no_scheduler_says_anything_is_named_after_a_minute(unread: tuple[str, ...], said: str, why: str) -> None:
    """A scheduler looks at no pod whose resource claim or pod group is not there, and writes no condition for it."""
    run = ScalerRun(group(), shape(unread=unread), controller())
    run.step(pod("p", unschedulable="SchedulerError" if said else "", message=said, created=run.now))
    run.run(50.0)
    assert [code for code, _reason in obstacles(run, "p")] == ["Young"]
    assert codes(run) == []
    run.run(20.0)
    [(code, reason)] = obstacles(run, "p")
    assert (code, reason.startswith(f"not understood: {why}")) == ("NotUnderstood", True), reason
    run.run(1000.0)
    assert codes(run).count("NotUnderstood") in (2, 3)  # every ten minutes
    assert run.grown == []
    run.step(pod("p", node="n1"))
    before = len(codes(run))
    run.run(1000.0)
    assert len(codes(run)) == before


def test_a_pod_for_which_the_scheduler_displaces_others_says_so() -> None:
    run = ScalerRun(group(desired=1), *joined("n1"), shape(), controller())
    run.step(pod("p", nominated="n1", message=SAYS))
    assert obstacles(run, "p") == [
        ("Nominated", "the scheduler displaces other pods for it on node 'n1', so no node is made for it")
    ]


def test_a_pod_behind_scheduling_gates_says_so() -> None:
    run = ScalerRun(group(), shape(), controller())
    run.step(pod("p", unschedulable="SchedulingGated"))
    run.run(30.0)
    assert run.grown == []
    [(code, _reason)] = obstacles(run, "shop/p")
    assert code == "SchedulingGated"


@pytest.mark.parametrize(
    ("operator", "value", "grows"), [("Gt", "5", True), ("Gt", "9", False), ("Lt", "9", True), ("Lt", "x", False)]
)
def test_a_toleration_may_compare_numbers(operator: str, value: str, grows: bool) -> None:
    """The node's taint has the value 7."""
    taint: Any = group().template
    tainted = group(template=replace(taint, taints=(NodeTaint("sla", "7", "NoSchedule"),)))
    run = ScalerRun(tainted, shape(tolerations=(PodToleration("sla", operator, value, "NoSchedule"),)), controller())
    run.step(pod("p"))
    run.run(30.0)
    assert bool(run.grown) is grows


def test_a_node_without_the_device_of_its_group_is_a_trouble_of_its_group_until_it_has_it() -> None:
    size = {"cpu": 4000, "memory": 16 * GIB, "pods": 110, "nvidia.com/gpu": 1}
    run = ScalerRun(group(desired=1), instance("n1"), node("n1", allocatable=size, capacity=size), settings={"interval": 1.0})
    run.run(5.0)
    bare = {name: amount for name, amount in size.items() if name != "nvidia.com/gpu"}
    young = when(START)
    run.step(group(desired=2), instance("n2"), node("n2", created=young, allocatable=bare, capacity=bare))
    run.run(5.0)
    run.step(node("n2", created=young, allocatable=size, capacity=size))
    run.run(5.0)
    assert [said.code for said in run.of(NodeScalingHalted)] == ["Incomplete", ""]
