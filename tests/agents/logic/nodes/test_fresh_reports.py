"""Public reports about the Cluster Autoscaler and Karpenter that nobody had tried here, each as a scene of its own."""

from typing import Any

import pytest

from schemas.decisions.node_updates import ScaleRefused
from schemas.facts.nodes import NodeDetailsRemoved, NodeInstanceGone, NodeTaint, NodeTemplateSeen
from schemas.facts.pods import PodPhase
from schemas.facts.scheduled_pods import (
    AttachedVolume,
    LabelDemand,
    LabelQuery,
    NodeQuery,
    PodPlacementRemoved,
    PodToleration,
    RequiredPodAffinity,
)
from schemas.policies.control import ControlChanged, Mode
from schemas.well_known_labels import ABANDONED, TO_BE_DELETED
from tests.support.cluster_events import GIB, START, when
from tests.support.node_scene import ScalerRun, controller, group, instance, joined, node, pod, shape

AUTOSCALER, EBS, ZONE, HOST = (
    "cluster-autoscaler.kubernetes.io",
    "ebs.csi.aws.com",
    "topology.kubernetes.io/zone",
    "kubernetes.io/hostname",
)
QUICK: dict[str, Any] = {"unneeded_time": 5.0, "delay_after_add": 0.0, "interval": 1.0}


def volume(zone: str = "", **more: Any) -> AttachedVolume:
    terms = (NodeQuery((LabelDemand(ZONE, "In", (zone,)),)),) if zone else ()
    return AttachedVolume(EBS, "data", terms, own=True, **more)


def test_a_new_node_whose_volume_driver_is_late_makes_no_second_node() -> None:
    """autoscaler#4712: two growths for one pod with a volume, because its new node could not attach any yet."""
    run = ScalerRun(group("a"), shape(volumes=(volume("zone-a"),)), controller(), settings=QUICK)
    run.step(pod("p"))
    run.run(2.0)
    assert run.grown == [("a", 0, 1)]
    run.step(group("a", desired=1), *joined("n1"), pod("p"))
    run.run(600.0)
    assert run.grown == [("a", 0, 1)]
    assert "NotUnderstood" in run.refused("web"), "the pod is named, with the scheduler's own words"


def test_a_claim_that_is_not_bound_yet_makes_no_node() -> None:
    """autoscaler#923: the seconds in which a claim is being bound were enough for a new instance."""
    late = shape(volumes=(volume(missing="persistentvolumeclaim 'shop/data' is not bound"),))
    run = ScalerRun(group("a"), late, controller())
    run.step(pod("p"))
    run.run(30.0)
    assert run.grown == []


def test_a_volume_in_a_zone_without_nodes_lets_the_group_of_that_zone_grow() -> None:
    """autoscaler#6000: nothing grew, because no node of the cluster was in the volume's zone."""
    run = ScalerRun(
        group("a", desired=1), *joined("n1"), group("b"), shape(volumes=(volume("zone-b"),)), controller(), settings=QUICK
    )
    run.step(pod("p"))
    run.run(5.0)
    assert run.grown == [("b", 0, 1)]


def test_pods_that_end_for_ever_on_a_dead_node_do_not_keep_it() -> None:
    """autoscaler#3407: the kubelet is gone, so its pods stay "Terminating", and the node stays with them."""
    dead = {"conditions": {"Ready": "Unknown"}, "taints": (NodeTaint("node.kubernetes.io/unreachable", "", "NoSchedule"),)}
    leaving = pod("p", node="n1", deleted=when(START - 3_600_000))
    run = ScalerRun(
        group("a", desired=1), instance("n1"), node("n1", **dead), shape(cpu=3500), controller(), leaving,
        settings={**QUICK, "unready_time": 20.0, "ok_unready": 5},
    )  # fmt: skip
    run.run(60.0)
    assert run.removed == ["n1"]


@pytest.mark.parametrize(("annotations", "removed"), [({}, ["n1"]), ({"safe-to-evict": "false"}, [])])
def test_a_job_keeps_its_node_where_it_asks_for_that(annotations: dict[str, str], removed: list[str]) -> None:
    """autoscaler#7095, #4813: pods of Jobs were evicted, beside more nodes than they needed."""
    marks = {f"cluster-autoscaler.kubernetes.io/{name}": text for name, text in annotations.items()}
    job = shape("job", cpu=500, annotations=marks, restart_policy="Never")
    run = ScalerRun(
        group("a", desired=2), *joined("n1"), *joined("n2"), job, controller("job"), shape("busy", cpu=3000),
        controller("busy"), pod("j", "job", node="n1"), pod("b", "busy", node="n2"), settings=QUICK,
    )  # fmt: skip
    run.run(30.0)
    assert run.removed == removed


def test_nodes_that_required_anti_affinity_needs_are_not_removed_and_made_again() -> None:
    """karpenter#1256: nodes that pods need apart were consolidated, and came back, again and again."""
    apart = RequiredPodAffinity(HOST, LabelQuery({"app": "web"}))
    run = ScalerRun(
        group("a", desired=3), *(event for number in range(3) for event in joined(f"n{number}")),
        shape(cpu=100, anti_affinity=(apart,)), controller(), *(pod(f"p{number}", node=f"n{number}") for number in range(3)),
        settings=QUICK,
    )  # fmt: skip
    run.run(120.0)
    assert (run.removed, run.grown) == ([], [])


def test_a_node_takes_no_more_pods_than_its_kubelet() -> None:
    """kubernetes#119960: pods ended as "OutOfpods" on nodes that had room for their amounts, but not for their number."""
    few = {"cpu": 4000, "memory": 16 << 30, "pods": 4}
    nodes = [instance("n1"), node("n1", allocatable=few, capacity=few)]
    run = ScalerRun(group("a", desired=1), *nodes, shape(cpu=10), controller(), *(pod(f"r{n}", node="n1") for n in range(3)))
    run.step(*(pod(f"w{number}") for number in range(6)))
    run.run(12.0)
    assert run.grown == [("a", 1, 3)], "one more pod fits; five want two nodes of four each"


def test_a_slow_drain_in_one_group_leaves_empty_nodes_of_others_alone_to_go() -> None:
    """karpenter#670: nothing else was consolidated while one pod took its minutes to end."""
    slow, busy = shape("slow", cpu=100, grace=600.0), shape("busy", cpu=3000)
    nodes = [event for name in ("a0", "a1", "b0", "b1") for event in joined(name, name[0])]
    pods = [pod("s", "slow", node="a0"), pod("b", "busy", node="a1")]
    run = ScalerRun(
        group("a", desired=2),
        group("b", desired=2),
        *nodes,
        slow,
        busy,
        controller("slow"),
        controller("busy"),
        *pods,
        settings=QUICK,
    )
    run.run(60.0)
    assert sorted(run.removed) == ["a0", "b0", "b1"]


def test_a_cordoned_node_takes_nobody_and_still_goes() -> None:
    """autoscaler#5048: a node that somebody had cordoned was forgotten, and cost money for weeks."""
    run = ScalerRun(group("a", desired=1), instance("n1"), node("n1", unschedulable=True), shape(), controller(), settings=QUICK)
    run.run(30.0)
    assert run.removed == ["n1"]
    again = ScalerRun(group("a", desired=1), instance("n1"), node("n1", unschedulable=True), shape(), controller())
    again.step(pod("p"))
    again.run(12.0)
    assert again.grown == [("a", 1, 2)]


def test_a_pod_that_tolerates_a_cordon_makes_no_node_beside_a_cordoned_one() -> None:
    """Found on the real scheduler, which puts such a pod on the cordoned node (tests/controlplane/test_scheduler_agrees.py)."""
    cordon = PodToleration("node.kubernetes.io/unschedulable", "Exists")
    run = ScalerRun(
        group("a", desired=1), instance("n1"), node("n1", unschedulable=True), shape(tolerations=(cordon,)), controller()
    )
    run.step(pod("p"))
    run.run(12.0)
    assert run.grown == []


@pytest.mark.parametrize("began", [False, True])
def test_a_pod_that_asks_to_be_left_alone_is_obeyed_while_its_init_containers_run(began: bool) -> None:
    """karpenter-provider-aws#3594: such pods were evicted while their first init container ran."""
    phase = PodPhase.RUNNING if began else PodPhase.PENDING
    run = ScalerRun(
        group("a", desired=2), *joined("n1"), *joined("n2"),
        shape(cpu=100, annotations={"karpenter.sh/do-not-disrupt": "true"}), controller(), pod("p", node="n1", phase=phase),
        settings=QUICK,
    )  # fmt: skip
    run.run(60.0)
    assert run.removed == ["n2"]


def test_a_new_node_is_not_empty_before_its_pod_has_begun() -> None:
    """karpenter-provider-aws#4341: a node was consolidated while the pod that it had been started for pulled its images."""
    run = ScalerRun(
        group("a", desired=1), *joined("n1"), shape(cpu=3000), controller(), pod("p", node="n1", phase=PodPhase.PENDING),
        settings=QUICK,
    )  # fmt: skip
    run.run(60.0)
    assert run.removed == []


@pytest.mark.parametrize(("disk", "grown"), [({}, []), ({"ephemeral-storage": 100 * GIB}, [("a", 0, 1)])])
def test_a_group_without_nodes_has_the_disk_that_its_template_names(disk: dict[str, int], grown: list[Any]) -> None:
    """autoscaler#1650, #1869: a group at zero never grew for a pod that asks for ephemeral storage, and nobody said why."""
    size = {"cpu": 4000, "memory": 16 * GIB, "pods": 110, **disk}
    template = NodeTemplateSeen({ZONE: "zone-a"}, (), size, size)
    wants = shape(requests={"cpu": 100, "memory": GIB, "ephemeral-storage": 10 * GIB})
    run = ScalerRun(group("a", template=template), wants, controller())
    run.step(pod("p"))
    run.run(12.0)
    assert run.grown == grown
    said = [refusal.reason for refusal in run.of(ScaleRefused)]
    assert grown or said[0].endswith("a new node has 0 MiB ephemeral-storage, and each of the pods asks for 10.00 GiB")


@pytest.mark.parametrize("age", [60.0, 3600.0, -60.0, -3600.0])
def test_a_mark_that_others_left_on_a_node_keeps_no_other_node(age: float) -> None:
    """autoscaler#5657: nodes that an autoscaler had marked before it ended stayed so, and nothing else was removed."""
    mark, kept = NodeTaint(TO_BE_DELETED, str(START // 1000 - int(age)), "NoSchedule"), f"{AUTOSCALER}/scale-down-disabled"
    left: dict[str, Any] = {"taints": (mark,), "annotations": {kept: "true"}}
    run = ScalerRun(
        group("a", desired=3), instance("n1"), node("n1", **left), *joined("n2"), *joined("n3"),
        shape(cpu=3000), shape("small", cpu=100), controller(), controller("small"),
        pod("p", node="n3"), pod("s", "small", node="n2"),
        ControlChanged(when(START), "demo", Mode.APPLY, budget=0.4),  # type: ignore[arg-type]  # a unit: one node of three
        settings=QUICK,
    )  # fmt: skip
    run.run(120.0)
    assert run.removed == (["n2"] if abs(age) > ABANDONED else [])


def test_pods_do_not_wait_for_a_node_whose_last_pod_takes_hours_to_end() -> None:
    """autoscaler#3949: while such a node was drained, its group counted it as one that was on its way."""
    leaving = pod("s", "slow", node="n1", deleted=when(START))
    mark = NodeTaint(TO_BE_DELETED, str(START // 1000), "NoSchedule")
    run = ScalerRun(
        group("a", desired=1), instance("n1"), node("n1", unschedulable=True, taints=(mark,)), shape(),
        shape("slow", grace=14_400.0), controller(), controller("slow"), leaving,
    )  # fmt: skip
    run.step(pod("p"))
    run.run(12.0)
    assert run.grown == [("a", 1, 2)]


def test_a_node_that_the_cloud_replaces_by_itself_is_not_replaced_twice() -> None:
    """autoscaler#4071: a spot instance was gone, its group started the next one, and the autoscaler made the group larger."""
    run = ScalerRun(
        group("a", desired=2), *joined("n1"), *joined("n2"), shape(cpu=3000), controller(), pod("p", node="n1"),
        pod("q", node="n2"),
    )  # fmt: skip
    gone = pod("q", node="n2")
    run.step(NodeInstanceGone(when(run.now), "demo", "a", "n2"), NodeDetailsRemoved(when(run.now), "demo", "n2"),
             PodPlacementRemoved(when(run.now), "demo", gone.pod), pod("r"))  # fmt: skip
    run.run(60.0)
    assert run.grown == []
    run.step(*joined("n4"), pod("r"))
    run.run(60.0)
    assert (run.grown, run.removed) == ([], [])
