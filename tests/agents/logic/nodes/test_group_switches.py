"""What a group's cloud does by itself, and sizes that are no numbers of nodes: obeyed, or the group is left as it is."""

from typing import Any

import pytest

from agents.logic.nodes.scaler import scaling_dry_run
from schemas.decisions.node_updates import NodeRemovalPlanned, NodeScalingHalted, RemovalReason
from schemas.facts.nodes import InstanceInterruptionNoticed, InterruptionKind
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, instance, joined, node, pod, shape

SOON = {"delay_after_add": 0.0, "unneeded_time": 5.0, "interval": 1.0}
WEIGHED = "an instance counts for up to 4 of its size (WeightedCapacity), which is no number of nodes"


def waiting(run: ScalerRun, number: int) -> None:
    run.step(*[pod(f"p{place}") for place in range(number)])
    run.run(5.0)


def test_a_group_whose_size_is_no_number_of_nodes_is_left_alone_and_hides_no_shortage() -> None:
    """Its desired 12 are three nodes of weight 4, so no nine more of them are on their way."""
    nodes = [event for name in ("n1", "n2", "n3") for event in joined(name)]
    run = ScalerRun(
        group(desired=12, most=40, unscalable=WEIGHED), group("b"), *nodes, shape(cpu=3500), controller(), settings=SOON
    )
    run.step(*[pod(f"old{place}", node=f"n{place + 1}") for place in range(2)])
    waiting(run, 3)
    run.run(60.0)
    assert run.grown == [("b", 0, 2)]  # one of the three fits on the third node
    assert run.removed == []
    [first] = {(said.group, said.code, said.reason) for said in run.of(NodeScalingHalted)}
    assert first == ("a", "Unscalable", f"it neither grows nor shrinks: {WEIGHED}")


@pytest.mark.parametrize("switch", [{"suspended": ("Terminate",)}, {"refreshing": True}, {"unscalable": WEIGHED}])
@pytest.mark.parametrize("reason", ["unneeded", "expired", "drifted", "unregistered"])
def test_no_node_goes_while_its_cloud_ends_none_or_replaces_all(switch: dict[str, Any], reason: str) -> None:
    settings: dict[str, Any] = {**SOON, "expire_after": 60.0 if reason == "expired" else 0.0, "drift": reason == "drifted"}
    old = {"launched": when(START - 7_200_000), "launch_version": "lt-1:1"}
    first = [instance("n1", **old), *([] if reason == "unregistered" else [node("n1")])]

    def removed(**changed: Any) -> list[str]:
        run = ScalerRun(group(desired=1, launch_version="lt-1:2", **changed), *first, settings=settings)
        if reason in ("expired", "drifted"):
            run.step(shape(cpu=3500), controller(), *joined("other"), pod("p", node="n1"))
        run.run(1000.0 if reason == "unregistered" else 30.0)
        return run.removed

    assert removed() != []
    assert removed(**switch) == []


def test_a_node_in_standby_belongs_to_no_group_and_its_place_is_not_counted() -> None:
    """Standby lowered the group's size to one, which the other instance has; growth goes on from there, once."""
    run = ScalerRun(
        group(desired=1),
        *joined("n1"),
        instance("aside", lifecycle="Standby"),
        node("aside", unschedulable=True),
        shape(cpu=3500),
        controller(),
        settings=SOON,
    )
    run.step(pod("old", node="n1"))
    waiting(run, 1)
    run.step(group(desired=2))
    run.run(60.0)
    assert run.grown == [("a", 1, 2)]
    assert run.removed == []
    [said] = scaling_dry_run.node_stays(run.stage, CLUSTER, "aside", run.now)  # type: ignore[misc]  # it is known
    assert said.code == "InstanceInStandby"


@pytest.mark.parametrize(("age", "goes"), [(80_000.0, True), (70_000.0, False)])
def test_a_node_is_drained_before_its_cloud_ends_it_for_its_age(age: float, goes: bool) -> None:
    """A day is the longest life, so that a drain begins after nine tenths of it."""
    run = ScalerRun(
        group(desired=2, lifetime=86_400.0),
        instance("n1", launched=when(START - int(age * 1000))),
        node("n1"),
        *joined("n2"),
        shape(cpu=2500),
        controller(),
        settings=SOON,
    )
    run.step(pod("p", node="n1"))
    run.run(30.0)
    assert [plan.reason for plan in run.of(NodeRemovalPlanned) if plan.node == "n1"] == ([RemovalReason.EXPIRED] if goes else [])


@pytest.mark.parametrize("rebalances", [True, False])
def test_a_recommendation_that_its_cloud_follows_by_itself_empties_the_node_at_once(rebalances: bool) -> None:
    run = ScalerRun(
        group(desired=1, least=1, most=1, rebalances=rebalances),
        *joined("n1"),
        shape(cpu=3000),
        controller(),
        settings={**SOON, "rebalances": True},
    )
    run.step(pod("p", node="n1"))
    run.step(InstanceInterruptionNoticed(when(START), CLUSTER, "n1", InterruptionKind.REBALANCE, "m-1", when(START)))
    run.run(10.0)
    assert [plan.reason for plan in run.of(NodeRemovalPlanned)] == ([RemovalReason.INTERRUPTED] if rebalances else [])
