"""Node groups on the real scheduler: a shortage in one of five, types of several sizes, devices, down to nothing and back."""

import pytest

from schemas.decisions.node_updates import PODS_WAIT, NodeScalingHalted, RefusalCode, ScaleRefused
from tests.controlplane.group_scene import DEVICE, GroupScene
from tests.controlplane.plane import Plane
from tests.controlplane.world import World
from tests.support.aws_double import ZONES, AwsDouble, aws, aws_server

__all__ = ["aws", "aws_server"]
SHORT, OTHERS = "g0", ("g1", "g2", "g3", "g4")
NO_CAPACITY = (
    f"We currently do not have sufficient m5.large capacity in the Availability Zone you requested ({ZONES[0]}). "
    "Launching EC2 instance failed."
)


def test_a_shortage_of_an_hour_in_one_of_five_groups_stops_none_of_the_others(
    plane: Plane, world: World, aws: AwsDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = GroupScene(plane, world, aws, (SHORT, *OTHERS))
    monkeypatch.setattr(aws, "fail", lambda group, message: AwsDouble.fail(aws, group, message, ago=-scene.ahead))
    templates = {name: aws.template(f"of-{name}", name) for name in ("m5.large", "c5.large")}
    for name in (SHORT, *OTHERS):  # a lack of capacity is one of the type
        scene.group(name, {"cpu": "1200m"}, template=templates["m5.large" if name == SHORT else "c5.large"])
    aws.lack_capacity(SHORT, NO_CAPACITY)
    with scene.watching():
        began = scene.run.now
        scene.scale(3, SHORT)
        for _ in range(2):
            scene.scale(2, *OTHERS)
            scene.until(2, *OTHERS, within=900.0)
            scene.scale(1, *OTHERS)
            scene.until(1, *OTHERS, within=2400.0)
        while scene.run.now < began + 3_600_000:
            scene.step()
        assert max(scene.sizes[SHORT]) == 3, "three pods want three nodes, however often that failed"
        assert aws.instances(SHORT) == []
        assert scene.served(1, *OTHERS)
        troubles = {(one.group, one.code) for one in scene.run.of(NodeScalingHalted) if one.code}
        assert {group for group, _code in troubles} == {SHORT}
        assert (SHORT, "BackedOff") in troubles
        waiting = [one for one in scene.run.of(ScaleRefused) if one.subject.name.startswith(SHORT) and one.code in PODS_WAIT]
        assert {one.code for one in waiting} == {RefusalCode.NO_GROUP_MAY_GROW}
        aws.deliver(SHORT)
        scene.until(3, SHORT, within=3600.0)


def test_types_of_several_sizes_and_devices_grow_as_they_really_are_and_go_down_to_nothing_and_back(
    plane: Plane, world: World, aws: AwsDouble
) -> None:
    """A mixed group promises 4 cores and once gives 2; a group of GPUs has none until its driver is at work."""
    scene = GroupScene(plane, world, aws, ("mixed", "gpu"), m5_large=0, p3_8xlarge=4)
    template = aws.template("of-mixed", "c5.xlarge")
    specification = {"LaunchTemplateId": template, "Version": "$Latest"}
    overrides = [{"InstanceType": "c5.xlarge"}, {"InstanceType": "m5.large"}]
    policy = {"LaunchTemplate": {"LaunchTemplateSpecification": specification, "Overrides": overrides}}
    scene.group("mixed", {"cpu": "3500m"}, MixedInstancesPolicy=policy)
    scene.group("gpu", {"cpu": "1", DEVICE: "1"}, template=aws.template("of-gpu", "p3.8xlarge"))
    with scene.watching():
        scene.scale(1, "mixed")
        scene.scale(3, "gpu")
        scene.until_placed("mixed", 1, within=600.0)
        scene.until_placed("gpu", 3, within=600.0)
        assert (max(scene.sizes["mixed"]), max(scene.sizes["gpu"])) == (1, 1), "three pods fit on the four devices of one node"
        aws.gives("mixed", "m5.large")
        scene.scale(2, "mixed")
        for _ in range(120):
            scene.step()
        assert max(scene.sizes["mixed"]) == 2, "a node that came too small is not asked for again"
        refused = [one for one in scene.run.of(ScaleRefused) if one.code == RefusalCode.NO_GROUP_FITS]
        assert "has 2000m cpu" in refused[-1].reason
        aws.gives("mixed", "c5.xlarge")
        scene.scale(0, "mixed", "gpu")
        scene.until_placed("mixed", 0, within=3600.0)
        scene.until_placed("gpu", 0, within=3600.0)
        assert (aws.instances("mixed"), aws.instances("gpu")) == ([], [])
        scene.scale(1, "gpu")
        scene.until_placed("gpu", 1, within=600.0)
        assert scene.sizes["gpu"][-1] == 1
