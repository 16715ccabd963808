"""Switches of a group that change what its size means, or whether AWS acts on it by itself: each is read, and told."""

from typing import Any

import pytest

from schemas.facts.nodes import NodeGroupSeen, NodeInstanceGone, NodeInstanceSeen
from tests.streams.sources.asg.test_asg_source import OURS, SourceScene
from tests.support.aws_double import ZONES, AwsDouble, aws, aws_server

__all__ = ["aws", "aws_server"]


@pytest.fixture
def scene(aws: AwsDouble) -> SourceScene:
    scene = SourceScene(aws)
    aws.group("pool", least=0, most=5, desired=1, tags=OURS)
    scene.poll()
    return scene


def told(scene: SourceScene, later: float = 2.0) -> NodeGroupSeen:
    [fact] = [event for event in scene.poll(later) if isinstance(event, NodeGroupSeen)]
    return fact


@pytest.mark.parametrize(
    ("switch", "sentence"),
    [
        ({"desired_capacity_type": "vcpu"}, "its sizes count 'vcpu' and not nodes (DesiredCapacityType)"),
        ({"desired_capacity_type": "memory-mib"}, "its sizes count 'memory-mib' and not nodes (DesiredCapacityType)"),
        ({"desired_capacity_type": "units", "capacity_rebalance": True}, ""),
        ({"status": "Delete in progress"}, "AWS is deleting it"),
        ({"operator": {"Principal": "eks.amazonaws.com"}}, "only 'eks.amazonaws.com' may change it (Operator)"),
    ],
)
def test_a_group_whose_sizes_are_no_numbers_of_nodes_is_told_with_a_sentence(
    scene: SourceScene, switch: dict[str, Any], sentence: str
) -> None:
    scene.aws.switch("pool", **switch)
    assert told(scene).unscalable == sentence


@pytest.mark.parametrize(("weights", "heaviest"), [(("1", "1"), 0), (("1", "4"), 4), (("8", "8"), 8), ((None, "2"), 2)])
def test_weights_of_types_make_a_size_something_else_than_nodes(
    aws: AwsDouble, weights: tuple[str | None, ...], heaviest: int
) -> None:
    template = {"LaunchTemplateId": aws.template("types"), "Version": "$Latest"}
    overrides = [
        {"InstanceType": kind, **({} if weight is None else {"WeightedCapacity": weight})}
        for kind, weight in zip(("m5.large", "c5.xlarge"), weights, strict=True)
    ]
    policy = {"LaunchTemplate": {"LaunchTemplateSpecification": template, "Overrides": overrides}}
    aws.group("mixed", tags=OURS, MixedInstancesPolicy=policy)
    said = f"an instance counts for up to {heaviest} of its size (WeightedCapacity), which is no number of nodes"
    assert told(SourceScene(aws)).unscalable == (said if heaviest else "")


def test_the_longest_life_of_an_instance_and_rebalancing_are_told(scene: SourceScene) -> None:
    scene.aws.switch("pool", max_instance_lifetime=604_800, capacity_rebalance=True)
    fact = told(scene)
    assert (fact.lifetime, fact.rebalances) == (604_800.0, True)


def test_an_instance_in_the_warm_pool_is_none_of_the_groups_and_one_in_standby_does_not_count(scene: SourceScene) -> None:
    [first] = scene.aws.instances("pool")
    scene.aws.lifecycle("pool", first, "Warmed:Stopped")
    assert [type(event) for event in scene.poll()] == [NodeInstanceGone]
    scene.aws.lifecycle("pool", first, "Standby")
    [seen] = scene.poll()
    assert isinstance(seen, NodeInstanceSeen)
    assert seen.lifecycle == "Standby"
    group = scene.aws.client().group("pool")
    assert group is not None
    assert (group.existing, group.settled) == (0, False)


def test_types_with_a_launch_template_of_their_own_are_told_with_its_version(aws: AwsDouble) -> None:
    """Else every node of such a type would look as if it came from an old version of the group's template."""
    base, arm = aws.template("types"), aws.template("arm", instance_type="m6g.large")
    own = {"InstanceType": "m6g.large", "LaunchTemplateSpecification": {"LaunchTemplateId": arm, "Version": "$Latest"}}
    launch = {"LaunchTemplateId": base, "Version": "$Latest"}
    policy = {"LaunchTemplate": {"LaunchTemplateSpecification": launch, "Overrides": [{"InstanceType": "m5.large"}, own]}}
    aws.group("mixed", tags=OURS, MixedInstancesPolicy=policy)
    fact = told(SourceScene(aws))
    assert (fact.launch_version, fact.own_versions) == (f"{base}:1", (f"{arm}:1",))


@pytest.mark.parametrize("suspended", [False, True])
def test_a_group_that_aws_balances_between_zones_stands_in_the_reports(aws: AwsDouble, suspended: bool) -> None:
    aws.group("wide", zones=ZONES[:2], tags=OURS)
    if suspended:
        aws.sdk("autoscaling").suspend_processes(AutoScalingGroupName="wide", ScalingProcesses=["AZRebalance"])
    scene = SourceScene(aws)
    scene.poll()
    said = "group 'wide' has 2 zones, and its process AZRebalance is not suspended: AWS may end nodes of it without a drain"
    assert scene.lacks() == (() if suspended else (said,))


def test_what_else_sets_a_size_stands_in_the_reports_until_it_is_gone(scene: SourceScene) -> None:
    sdk = scene.aws.sdk("autoscaling")
    sdk.put_scheduled_update_group_action(AutoScalingGroupName="pool", ScheduledActionName="night", DesiredCapacity=0)
    sdk.put_scaling_policy(AutoScalingGroupName="pool", PolicyName="busy", AdjustmentType="ExactCapacity", ScalingAdjustment=3)
    scene.aws.group("foreign")
    sdk.put_scheduled_update_group_action(AutoScalingGroupName="foreign", ScheduledActionName="day", DesiredCapacity=1)
    scene.poll(301.0)
    said = "group 'pool' has the scheduled action 'night' and the scaling policy 'busy', which set its size beside Ullage"
    assert scene.lacks() == (said,)
    sdk.delete_scheduled_action(AutoScalingGroupName="pool", ScheduledActionName="night")
    sdk.delete_policy(AutoScalingGroupName="pool", PolicyName="busy")
    scene.poll(301.0)
    scene.poll(31.0)
    assert scene.lacks() == ()


def test_a_group_whose_instances_aws_replaces_is_told_so_until_that_is_over(scene: SourceScene) -> None:
    scene.aws.refresh("pool", "InProgress")
    assert told(scene, 301.0).refreshing
    assert not [event for event in scene.poll(61.0) if isinstance(event, NodeGroupSeen)]
    scene.aws.refresh("pool", "Successful")
    assert not told(scene, 61.0).refreshing


def test_without_the_right_to_ask_the_reports_say_so_and_groups_are_told(scene: SourceScene) -> None:
    for action in ("DescribePolicies", "DescribeInstanceRefreshes"):
        scene.aws.refuse(action, "AccessDenied", "not yours", status=403, times=9)
    scene.aws.switch("pool", capacity_rebalance=True)
    assert told(scene, 301.0).rebalances
    lacks = scene.lacks()
    assert any("scaling policy" in said and "autoscaling:DescribePolicies" in said for said in lacks)
    assert any("is replacing the instances" in said for said in lacks)


def test_few_groups_are_asked_about_at_a_time_and_all_have_their_turn(aws: AwsDouble) -> None:
    scene = SourceScene(aws)
    template = aws.template("types")
    for number in range(12):
        aws.group(f"g{number:02}", tags=OURS, template=template)
    asked = []
    for _look in range(4):
        scene.poll(1.0)
        asked.append(len(aws.calls("DescribeInstanceRefreshes")) - sum(asked))
    assert asked == [5, 5, 2, 0]
