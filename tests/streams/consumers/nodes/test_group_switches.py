"""A group whose size is no number of nodes, or whose instances AWS handles by itself, is changed by no plan of ours."""

from typing import Any

import pytest

from schemas.decisions.node_updates import RemovalReason
from schemas.outcomes import OutcomeDetail
from tests.support.asg_scene import NodeScene
from tests.support.attested_plans import word_of
from tests.support.aws_double import AwsDouble, aws, aws_server

__all__ = ["aws", "aws_server"]


@pytest.fixture
def scene(aws: AwsDouble) -> NodeScene:
    scene = NodeScene(aws)
    scene.nodes.add("one", scene.instances[0])
    return scene


@pytest.mark.parametrize("switch", [{"desired_capacity_type": "vcpu"}, {"status": "Delete in progress"}])
def test_no_plan_changes_a_group_whose_size_is_no_number_of_nodes(scene: NodeScene, switch: dict[str, Any]) -> None:
    scene.aws.switch("pool", **switch)
    scene.grow(2, 3)
    scene.correct(2, 1)
    scene.remove("one")
    for _ in range(5):
        scene.consumer.poll_once()
        scene.tick(1.5)
    assert {word: outcome.detail for outcome in scene.outcomes() if (word := word_of(outcome.decision)) != "correct"} == {
        "up": OutcomeDetail.INVALID,
        "down": OutcomeDetail.INVALID,
    }
    assert (scene.aws.desired("pool"), scene.terminated(), scene.marked("one")) == (2, [], False)


def test_a_group_that_ends_no_instances_keeps_its_nodes_unmarked(scene: NodeScene) -> None:
    scene.aws.sdk("autoscaling").suspend_processes(AutoScalingGroupName="pool", ScalingProcesses=["Terminate"])
    scene.remove("one")
    scene.run()
    (outcome,) = scene.outcomes()
    assert (outcome.detail, "'Terminate' is suspended" in outcome.reason) == (OutcomeDetail.INVALID, True)
    assert (scene.terminated(), scene.marked("one")) == ([], False)


def test_an_instance_that_went_back_to_the_warm_pool_is_removed(scene: NodeScene) -> None:
    scene.aws.lifecycle("pool", scene.instances[0], "Warmed:Stopped")
    scene.remove("one")
    scene.run()
    assert scene.ended() == [("done", OutcomeDetail.ALREADY_DONE)]
    assert scene.terminated() == []


def test_an_instance_that_is_put_aside_is_left_alone(scene: NodeScene) -> None:
    scene.aws.lifecycle("pool", scene.instances[0], "Standby")
    scene.remove("one")
    scene.run()
    assert scene.ended() == [("refused", OutcomeDetail.MOVED)]


def test_a_node_that_aws_replaces_by_itself_is_emptied_and_left_to_aws(scene: NodeScene) -> None:
    scene.aws.switch("pool", capacity_rebalance=True)
    scene.remove("one", reason=RemovalReason.INTERRUPTED)
    scene.run()
    assert scene.ended() == [("done", OutcomeDetail.APPLIED)]
    assert (scene.terminated(), scene.aws.desired("pool")) == ([], 2)
