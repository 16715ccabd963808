"""Volumes bind pods to zones and count against what a node attaches: in growth, and when nodes are emptied."""

from typing import Any

import pytest

from schemas.decisions.node_updates import ScaleRefused
from schemas.facts.scheduled_pods import AttachedVolume, LabelDemand, NodeQuery
from tests.support.node_scene import ScalerRun, controller, group, joined, node, pod, shape

EBS = "ebs.csi.aws.com"
QUICK: dict[str, Any] = {"unneeded_time": 5.0, "delay_after_add": 0.0, "interval": 1.0}


def data(zone: str = "", **more: Any) -> AttachedVolume:
    terms = (NodeQuery((LabelDemand("topology.kubernetes.io/zone", "In", (zone,)),)),) if zone else ()
    return AttachedVolume(EBS, "data", terms, own=True, **more)


@pytest.mark.parametrize("zone", ["a", "b"])
def test_the_group_in_the_zone_of_the_volume_grows(zone: str) -> None:
    run = ScalerRun(group("a"), group("b"), shape(volumes=(data(f"zone-{zone}"),)))
    run.step(pod("p"))
    run.run(2.0)
    assert run.grown == [(zone, 0, 1)]


def test_a_volume_that_nobody_has_yet_holds_no_group_back_and_what_is_missing_holds_all() -> None:
    free = ScalerRun(group("a"), shape(volumes=(data(),)))
    free.step(pod("p"))
    free.run(2.0)
    assert free.grown == [("a", 0, 1)]
    lost = ScalerRun(group("a"), shape(volumes=(data(missing="persistentvolumeclaim 'shop/data' not found"),)))
    lost.step(pod("p"))
    lost.run(2.0)
    assert lost.grown == []
    [refused] = [one for one in lost.of(ScaleRefused) if one.code == "NoGroupFits"]
    assert refused.because["groups"] == {"a": ["Unreadable", "persistentvolumeclaim 'shop/data' not found"]}


def test_a_node_attaches_no_more_volumes_than_its_driver_says() -> None:
    full = node("n1", attachable={EBS: 3})
    running = [pod(f"r{number}", node="n1") for number in range(2)]
    run = ScalerRun(group("a", desired=1), *joined("n1"), full, shape(cpu=100, volumes=(data(),)), controller(), *running)
    run.step(pod("one"))
    run.run(12.0)
    assert run.grown == []
    run.step(pod("two"), pod("three"), pod("four"), pod("five"))
    run.run(12.0)
    assert run.grown == [("a", 1, 3)]  # a new node is like the one there is, and takes three, too


def test_a_node_whose_pod_has_a_volume_of_its_zone_stays_if_no_other_node_is_there() -> None:
    def world(zone: str) -> ScalerRun:
        used = [pod(f"full{number}", "full", node=f"n{number}") for number in (1, 2)]
        return ScalerRun(
            *(group(name, desired=1) for name in ("a", "b")),
            *joined("n1", "a"),
            *joined("n2", "b"),
            controller(),
            controller("full"),
            shape(cpu=100, volumes=(data(zone),)),
            shape("full", cpu=1000),
            *used,
            pod("db", node="n1"),
            settings=QUICK,
        )

    bound, free = world("zone-a"), world("")
    bound.run(10.0)
    free.run(10.0)
    assert "n1" not in bound.removed
    assert "NoPlaceToMovePods" in bound.refused("n1")
    assert len(free.removed) == 1
