"""Expiry and drift: old nodes and such of another version go, each after its replacement is ready, within the budgets."""

from typing import Any

import pytest

from agents.logic.nodes.cluster import group_patterns
from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleRefused, ScaleUpPlanned
from schemas.facts.nodes import InstanceInterruptionNoticed, InterruptionKind, NodeDetailsRemoved, NodeInstanceGone, NodeTaint
from schemas.facts.scheduled_pods import AttachedVolume, LabelDemand, LabelQuery, NodeQuery
from schemas.facts.update_facts import PodDisruptionBudgetChanged
from schemas.outcomes import Result
from schemas.policies.control import ControlChanged, Mode
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, instance, node, pod, shape

DAY = 86_400_000
SETTINGS: dict[str, Any] = {"interval": 1.0, "delay_after_add": 0.0, "unneeded_time": 10_000.0}


def aged(name: str, days: float, version: str = "lt-1:6", **more: Any) -> list[Any]:
    """A node that was started so long ago, from a version of a template."""
    return [instance(name, launched=when(START - int(days * DAY)), launch_version=version), node(name, **more)]


def full(name: str, count: int = 4) -> list[Any]:
    return [pod(f"{name}-{number}", node=name) for number in range(count)]


def world(*more: Any, settings: dict[str, Any], **changed: Any) -> ScalerRun:
    of = group(**{"desired": 2, "launch_version": "lt-1:7", **changed})
    return ScalerRun(of, shape(), controller(replicas=8), *more, settings={**SETTINGS, **settings})


def test_an_expired_node_goes_after_a_replacement_is_ready_and_not_before() -> None:
    run = world(*aged("n1", 31), *aged("n2", 1), *full("n1"), *full("n2"), settings={"expire_after": 30 * 86_400.0})
    run.run(5.0)
    [grown] = run.of(ScaleUpPlanned)
    assert (grown.before, grown.after, grown.expander, grown.because["replaces"]) == (2, 3, "replacement", "n1")
    assert run.removed == []
    run.answer(grown, Result.DONE)
    run.step(group(desired=3, launch_version="lt-1:7"), instance("n3"))
    run.run(5.0)
    assert (run.removed, len(run.grown)) == ([], 1)  # it was started, and is no node yet
    run.step(node("n3"))
    run.run(2.0)
    [gone] = run.of(NodeRemovalPlanned)
    assert (gone.node, gone.reason, len(gone.evict)) == ("n1", RemovalReason.EXPIRED, 4)
    run.run(5.0)
    assert (run.removed, len(run.grown)) == (["n1"], 1)


def test_a_drifted_node_with_room_elsewhere_goes_at_once_and_one_after_the_other() -> None:
    drifted = [*aged("n1", 2), *aged("n2", 1), *aged("n3", 1, "lt-1:7")]
    run = world(*drifted, *full("n1", 1), *full("n2", 1), settings={"drift": True}, desired=3)
    run.run(3.0)
    assert [(one.node, one.reason) for one in run.of(NodeRemovalPlanned)] == [("n1", RemovalReason.DRIFTED)]
    run.run(10.0)
    assert run.removed == ["n1"]  # one drain at a time
    assert run.grown == []


def test_where_a_group_may_not_shrink_it_grows_first_and_at_its_maximum_nothing_happens() -> None:
    least = world(*aged("n1", 2), *aged("n2", 2, "lt-1:7"), settings={"drift": True}, least=2)
    least.run(3.0)
    assert (least.grown, least.removed) == ([("a", 2, 3)], [])
    most = world(*aged("n1", 2), *aged("n2", 2, "lt-1:7"), settings={"drift": True}, least=2, most=2)
    most.run(3.0)
    assert (most.grown, most.removed) == ([], [])


def test_a_node_with_a_pod_that_must_not_be_moved_stays_and_no_group_grows_for_it() -> None:
    kept = shape("kept", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    run = world(*aged("n1", 2), kept, controller("kept"), pod("k", "kept", node="n1"), settings={"drift": True}, desired=1)
    run.run(5.0)
    assert (run.grown, run.removed) == ([], [])
    assert "BlockedByPod" in run.refused("n1")


def test_pods_that_no_new_node_would_take_are_no_reason_to_grow() -> None:
    tied = shape("tied", node_selector={"kubernetes.io/hostname": "n1"})
    run = world(*aged("n1", 2), tied, controller("tied"), pod("t", "tied", node="n1"), settings={"drift": True}, desired=1)
    run.run(5.0)
    assert (run.grown, run.removed) == ([], [])
    assert "NoPlaceToMovePods" in run.refused("n1")


def test_a_group_whose_new_node_is_in_another_zone_than_the_volume_grows_by_one_at_most() -> None:
    term = NodeQuery((LabelDemand("topology.kubernetes.io/zone", "In", ("zone-a",)),))
    tied = shape("tied", cpu=3000, volumes=(AttachedVolume("ebs.csi.aws.com", "data", (term,), own=True),))
    first = [*aged("n1", 31), tied, controller("tied"), pod("t", "tied", node="n1")]
    run = world(*first, settings={"expire_after": 30 * 86_400.0}, desired=1, zones=("zone-a", "zone-b"))
    for number in range(2, 5):
        run.run(5.0)
        for plan in run.of(ScaleUpPlanned)[number - 2 :]:
            run.answer(plan, Result.DONE)
            labels = {"kubernetes.io/hostname": f"n{number}", "topology.kubernetes.io/zone": "zone-b", "group": "a"}
            run.step(group(desired=number, launch_version="lt-1:7", zones=("zone-a", "zone-b")))
            run.step(*aged(f"n{number}", 0, "lt-1:7", labels=labels))
    assert (run.grown, run.removed) == ([("a", 1, 2)], [])
    assert "NoPlaceToMovePods" in run.refused("n1")


@pytest.mark.parametrize("settings", [{}, {"profile": "upstream", "drift": True, "expire_after": 1.0}])
def test_by_default_and_as_upstream_nothing_is_replaced(settings: dict[str, Any]) -> None:
    run = world(*aged("n1", 900), *aged("n2", 900), *full("n1"), *full("n2"), settings=settings)
    run.run(10.0)
    assert (run.grown, run.removed) == ([], [])


@pytest.mark.parametrize(
    ("of_group", "of_instance", "drifted"),
    [
        ("lt-1:7", "lt-1:6", True),
        ("lt-1:7", "lt-1:7", False),
        ("lt-2:7", "lt-1:7", True),
        ("lt-1:7", "", False),
        ("lt-1:7", "lt-1:$Latest", False),
        ("web-config", "lt-1:7", False),
    ],
)
def test_only_numbered_versions_are_compared(of_group: str, of_instance: str, drifted: bool) -> None:
    assert group_patterns.drifted(group(launch_version=of_group), instance("n", launch_version=of_instance)) is drifted


@pytest.mark.parametrize(
    ("of_instance", "drifted"), [("lt-1:7", False), ("lt-arm:2", False), ("lt-arm:1", True), ("lt-1:2", True)]
)
def test_a_type_of_a_mixed_group_with_a_template_of_its_own_drifts_from_that_alone(of_instance: str, drifted: bool) -> None:
    fact = group(launch_version="lt-1:7", own_versions=("lt-arm:2",))
    assert group_patterns.drifted(fact, instance("n", launch_version=of_instance)) is drifted


def broken(name: str) -> Any:
    return node(name, conditions={"Ready": "Unknown"})


def test_a_node_that_is_not_ready_for_so_long_is_replaced_once_there_is_room_for_its_pods() -> None:
    nodes = [event for name in ("n1", "n2", "n3") for event in aged(name, 1)]
    run = world(*nodes, *full("n1"), *full("n2"), settings={"repair_after": 30.0}, desired=3)
    run.step(broken("n1"))
    run.run(25.0)
    run.step(broken("n1"))
    assert run.removed == []
    run.run(10.0)
    assert [(one.node, one.reason) for one in run.of(NodeRemovalPlanned)] == [("n1", RemovalReason.BROKEN)]


def test_a_node_that_was_ready_in_between_starts_anew() -> None:
    run = world(*aged("n1", 1), *aged("n2", 1), *full("n1", 1), settings={"repair_after": 30.0})
    run.step(broken("n1"))
    run.run(25.0)
    run.step(node("n1"))
    run.step(broken("n1"))
    run.run(25.0)
    assert run.removed == []
    run.run(10.0)
    assert run.removed == ["n1"]


def test_where_many_nodes_of_a_group_are_not_ready_none_is_repaired() -> None:
    nodes = [event for number in range(8) for event in aged(f"n{number}", 1)]
    run = world(*nodes, settings={"repair_after": 30.0, "most_broken": 0.3, "max_unready": 0.9}, desired=8)
    run.step(*[broken(f"n{number}") for number in range(3)])
    run.run(60.0)
    assert run.removed == []
    run.step(node("n2"))
    run.run(3.0)
    assert run.removed == ["n0"]


def test_what_the_cloud_takes_in_the_same_turn_counts_in_the_budget() -> None:
    drifted = [*aged("n1", 2), *(event for number in range(2, 6) for event in aged(f"n{number}", 1, "lt-1:7"))]
    many = [one for number in range(1, 6) for one in full(f"n{number}", 1)]
    run = world(settings={"drift": True}, desired=5)
    budget = ControlChanged(when(START), CLUSTER, Mode.APPLY, budget=0.2)  # type: ignore[arg-type]  # a unit
    taken = InstanceInterruptionNoticed(when(START), CLUSTER, "n5", InterruptionKind.SPOT, "m-1", when(START))
    run.step(budget, *drifted, *many, taken)
    run.run(3.0)
    assert [(one.node, one.reason) for one in run.of(NodeRemovalPlanned)] == [("n5", RemovalReason.INTERRUPTED)]


def test_pods_are_not_sent_to_a_node_that_goes_itself() -> None:
    """n1's pod fits on n2 alone, and n2's on n3: only one of the two may go now."""
    shapes = [shape("big", cpu=2000), shape("three", cpu=3000), controller("big"), controller("three")]
    pods = [pod("p1", "big", node="n1"), pod("p2", node="n2"), pod("p3", "three", node="n3")]
    settings = {"expire_after": 30 * 86_400.0, "most_drains": 2}
    run = world(*aged("n1", 40), *aged("n2", 40), *aged("n3", 1), *shapes, *pods, settings=settings, desired=3)
    run.run(1.0)
    assert [one.because["pods go to"] for one in run.of(NodeRemovalPlanned)] == [{"n2": 1}]


def test_two_nodes_are_not_emptied_onto_each_other() -> None:
    pods = [pod("p1", node="n1"), pod("p2", node="n2")]
    settings = {"expire_after": 30 * 86_400.0, "most_drains": 2}
    run = world(*aged("n1", 40), *aged("n2", 40), *pods, settings=settings)
    run.run(3.0)
    assert run.removed == ["n1"]


def test_an_empty_node_that_pods_are_sent_to_does_not_go_in_the_same_look() -> None:
    settings = {"unneeded_time": 3.0, "expire_after": 40 * 86_400.0 + 4.0, "most_drains": 2}
    run = world(*aged("n1", 40), *aged("n2", 1), *full("n1", 3), settings=settings)
    run.run(8.0)
    assert [(one.node, one.because["pods go to"]) for one in run.of(NodeRemovalPlanned)] == [("n1", {"n2": 3})]


def going(name: str) -> list[Any]:
    """A node that somebody removes for ever."""
    taint = NodeTaint("ToBeDeletedByClusterAutoscaler", "1767225600", "NoSchedule")
    return [node(name, "b", taints=(taint,)), instance(name, "b")]


def test_no_replacement_is_started_while_its_drain_could_not_begin() -> None:
    other = [group("b", desired=1), *going("m1")]
    run = world(*aged("n1", 40), *full("n1"), *other, settings={"expire_after": 30 * 86_400.0}, desired=1)
    run.run(20.0)
    assert (run.grown, run.removed) == ([], [])
    free = world(*aged("n1", 40), *full("n1"), *other, settings={"expire_after": 30 * 86_400.0, "most_drains": 2}, desired=1)
    free.run(20.0)
    assert free.grown == [("a", 1, 2)]


def test_a_replacement_that_waits_for_its_drain_is_not_scaled_down() -> None:
    other = [group("b", desired=1), *going("m1")]
    settings = {"expire_after": 30 * 86_400.0, "unneeded_time": 5.0}
    run = world(*aged("n1", 40), *aged("n2", 0, "lt-1:7"), *full("n1"), *other, settings=settings)
    run.run(60.0)
    assert (run.grown, run.removed) == ([], [])
    assert "ReplacesAnotherNode" in run.refused("n2")
    run.step(NodeDetailsRemoved(when(START), CLUSTER, "m1"), NodeInstanceGone(when(START), CLUSTER, "b", "m1"))
    run.run(3.0)
    assert run.removed == ["n1"]


def test_a_group_that_cannot_grow_keeps_no_other_from_it() -> None:
    nodes = [*aged("n1", 41), instance("m1", "b", launched=when(START - 40 * DAY)), node("m1", "b")]
    pods = [*full("n1"), *full("m1")]
    run = world(*nodes, *pods, group("b", desired=1), settings={"expire_after": 30 * 86_400.0}, desired=1, most=1)
    run.run(3.0)
    assert run.grown == [("b", 1, 2)]


def test_a_broken_node_that_goes_is_counted_as_away_once() -> None:
    """Of ten nodes one is broken and one expires in the same look; a budget of two lets both go."""
    nodes = [event for number in range(10) for event in aged(f"n{number}", 40 if number == 1 else 1)]
    pods = [one for number in range(10) for one in full(f"n{number}", 2)]
    settings = {"repair_after": 5.0, "expire_after": 40 * 86_400.0 + 6.0, "most_drains": 5}
    run = world(*nodes, *pods, settings=settings, desired=10)
    run.step(ControlChanged(when(START), CLUSTER, Mode.APPLY, budget=0.2), broken("n0"))  # type: ignore[arg-type]  # a unit
    run.run(4.5)
    assert run.removed == []
    run.run(1.0)
    assert run.removed == ["n0", "n1"]


def test_an_empty_node_that_takes_no_pods_is_no_replacement() -> None:
    cordoned = aged("n2", 1, "lt-1:7", unschedulable=True)
    run = world(*aged("n1", 2), *full("n1"), *cordoned, settings={"drift": True}, least=2)
    run.run(5.0)
    assert run.grown == [("a", 2, 3)]


def guarded(allowed: int) -> PodDisruptionBudgetChanged:
    return PodDisruptionBudgetChanged(when(START), CLUSTER, "shop", "web", LabelQuery({"app": "web"}), allowed, 4, 4, 4)


def replaced(**more: Any) -> ScalerRun:
    """A group grew for its expired node, and a disruption budget came before its new node did."""
    settings = {"expire_after": 30 * 86_400.0, "unneeded_time": 5.0, "replacement_hold": 60.0, **more}
    run = world(*aged("n1", 31), *full("n1"), settings=settings, desired=1)
    run.run(3.0)
    [grown] = run.of(ScaleUpPlanned)
    run.step(guarded(0))
    run.answer(grown, Result.DONE)
    run.step(group(desired=2, launch_version="lt-1:7"), *aged("n2", 0, "lt-1:7"))
    return run


def test_a_replacement_whose_drain_a_budget_blocks_is_kept_and_then_released_with_a_reason() -> None:
    run = replaced()
    run.run(50.0)
    assert (run.removed, "ReplacesAnotherNode" in run.refused("n2")) == ([], True)
    run.run(25.0)
    assert run.refused("n2")[-1] != "ReplacesAnotherNode"
    [told] = [one for one in run.of(ScaleRefused) if one.code == "ReplacementReleased"]
    assert told.subject.name == "n2"
    assert told.reason == "it came so that 'n1' could go, and is kept for that no longer: no drain could begin within 60 s"
    run.run(10.0)
    assert (run.removed, run.grown) == (["n2"], [("a", 1, 2)])


def test_a_budget_that_lets_go_while_the_replacement_is_kept_lets_the_drain_begin() -> None:
    run = replaced()
    run.run(40.0)
    run.step(guarded(4))
    run.run(3.0)
    assert (run.removed, run.grown) == (["n1"], [("a", 1, 2)])


def test_growth_for_a_replacement_that_failed_is_tried_again_after_its_backoff() -> None:
    settings = {"expire_after": 30 * 86_400.0, "backoff_first": 20.0}
    run = world(*aged("n1", 31), *full("n1"), settings=settings, desired=1)
    run.run(3.0)
    run.answer(run.of(ScaleUpPlanned)[0], Result.FAILED)
    run.run(10.0)
    assert run.grown == [("a", 1, 2)]
    run.run(20.0)
    assert run.grown == [("a", 1, 2), ("a", 1, 2)]
