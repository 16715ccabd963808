"""Taints and conditions of one node at one moment: no new node of its group is expected to have them."""

import pytest

from schemas.catalogue import Event
from schemas.facts.nodes import NodeTaint, NodeTemplateSeen
from tests.support.node_scene import SIZE, ScalerRun, group, instance, node, pod, shape

READY = [
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
    "NodeWithImpairedVolumes",
    "status-taint.cluster-autoscaler.kubernetes.io/hot",
    "example.com/hot",
]
NOT_READY = [
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/network-unavailable",
    "startup-taint.cluster-autoscaler.kubernetes.io/cni",
    "ignore-taint.cluster-autoscaler.kubernetes.io/cni",
    "node.cilium.io/agent-not-ready",
]
"""A node with such a taint counts as not ready, so that no new node is imagined after it."""
NAMED = {"startup_taints": "node.cilium.io/agent-not-ready", "status_taints": " example.com/hot ,example.com/cold"}
"""The settings that name the last ones."""


def growth(*facts: Event, **settings: str) -> list[tuple[str, int, int]]:
    """What a group grows by for a pod that fills a node, which no node that is there has room for."""
    run = ScalerRun(*facts, shape(cpu=3900), settings={**NAMED, **settings})
    run.step(pod("waits"), pod("full", node="n1"))
    run.run(3.0)
    return run.grown


@pytest.mark.parametrize("key", [*READY, *NOT_READY])
def test_a_new_node_is_not_expected_to_have_the_taint_that_an_old_one_has_now(key: str) -> None:
    taints = (NodeTaint(key, "", "NoSchedule"),)
    tainted = instance("n1"), node("n1", taints=taints)
    assert growth(group(desired=1, template=NodeTemplateSeen({}, taints, SIZE, SIZE)), *tainted) == [("a", 1, 2)]
    assert growth(group(desired=1, template=None), *tainted) == ([] if key in NOT_READY else [("a", 1, 2)])


def test_any_other_taint_is_one_of_the_group() -> None:
    taint = (NodeTaint("example.com/team", "x", "NoSchedule"),)
    assert growth(group(desired=1), instance("n1"), node("n1", taints=taint)) == []
    assert growth(group(desired=1), instance("n1"), node("n1", taints=taint), status_taints="example.com/team") == [("a", 1, 2)]


@pytest.mark.parametrize("condition", ["DiskPressure", "NetworkUnavailable"])
def test_a_node_without_disk_or_network_is_not_ready_whatever_its_kubelet_says(condition: str) -> None:
    """It goes after the longer time of nodes that are not ready."""
    facts = [group(desired=1), instance("n1"), node("n1", conditions={"Ready": "True", condition: "True"})]
    run = ScalerRun(*facts, settings={"unneeded_time": 2.0, "unready_time": 20.0, "delay_after_add": 0.0, "interval": 1.0})
    run.run(10.0)
    assert (run.removed, run.refused("n1")) == ([], ["NotUnreadyLongEnough"])
    run.run(15.0)
    assert run.removed == ["n1"]
