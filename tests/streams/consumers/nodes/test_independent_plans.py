"""Plans of the asg consumer are carried out each by itself: one that fails holds up no other one."""

from datetime import timedelta
from typing import Any

from schemas.decisions.node_updates import RemovalReason, ScaleUpPlanned
from schemas.outcomes import OutcomeDetail
from streams.clients.kube.node_drain_client import DrainableNode
from streams.errors import GiveUp
from tests.support.asg_scene import CLUSTER, NodeScene
from tests.support.attested_plans import word_of
from tests.support.aws_double import AwsDouble, aws, aws_server

__all__ = ["aws", "aws_server"]


def test_a_group_that_cannot_grow_holds_up_no_other_one(aws: AwsDouble) -> None:
    """C41 of the inventory, as with upstream's parallel-scale-up."""
    scene = NodeScene(aws)
    scene.aws.group("second", desired=1)
    scene.aws.refuse("SetDesiredCapacity", "AccessDenied", "not yours", status=403, times=1)
    scene.grow(2, 3)
    end = scene.at + timedelta(minutes=5)
    plan = ScaleUpPlanned("up-too", scene.at, end, CLUSTER, "second", 1, 2, 3, ("shop/a",), "least-waste", {})
    scene.publish(plan, "node-updates")
    for _ in range(10):
        scene.consumer.poll_once()
        scene.tick(1.5)
    assert {word_of(one.decision): one.result.value for one in scene.outcomes()} == {"up": "failed", "up-too": "done"}
    assert (scene.aws.desired("pool"), scene.aws.desired("second")) == (2, 2)


def test_a_node_that_cannot_be_tainted_holds_up_no_other_one(aws: AwsDouble) -> None:
    """C97 of the inventory, of which upstream lets none go."""
    scene = NodeScene(aws, desired=3)
    for name, one in zip(("n1", "n2", "n3"), scene.instances, strict=True):
        scene.nodes.add(name, one)
        scene.remove(name, identifier=f"down-{name}")
    change = scene.nodes.change

    def refusing(node: DrainableNode, **more: Any) -> None:
        if node.name == "n2":
            raise GiveUp(doing="tainting", to="n2", answer="403 forbidden", detail=OutcomeDetail.FORBIDDEN)
        change(node, **more)

    scene.nodes.change = refusing  # type: ignore[method-assign]  # one node that nobody may change
    for _ in range(20):
        scene.consumer.poll_once()
        scene.tick(1.5)
    assert sorted(scene.terminated()) == sorted([scene.instances[0], scene.instances[2]])
    assert not scene.marked("n2")
    assert {word_of(one.decision): one.result.value for one in scene.outcomes()}["down-n2"] == "failed"


def test_an_instance_that_is_a_node_after_all_is_not_ended_as_one_that_never_became_one(aws: AwsDouble) -> None:
    """Its fact may be missing because nobody could read it; the pods on it are there all the same."""
    scene = NodeScene(aws)
    scene.nodes.add("strange", scene.instances[0])
    scene.remove("", instance=scene.instances[0], reason=RemovalReason.UNREGISTERED)
    scene.run()
    [outcome] = scene.outcomes()
    assert (outcome.result.value, outcome.detail) == ("refused", OutcomeDetail.MOVED)
    assert "is node 'strange', of which the plan does not know" in outcome.reason
    assert scene.terminated() == []


def test_an_instance_that_became_no_node_is_replaced_where_its_group_has_its_minimum(aws: AwsDouble) -> None:
    scene = NodeScene(aws, least=2, desired=2)
    scene.remove("", instance=scene.instances[0], reason=RemovalReason.UNREGISTERED)
    scene.run()
    [(result, _detail)] = scene.ended()
    assert result == "done"
    assert (scene.terminated(), scene.aws.desired("pool")) == ([scene.instances[0]], 2)
