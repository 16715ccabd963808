"""The asg consumer writes the status of CapacityBuffers as upstream does, and leaves other objects and conditions alone."""

from datetime import timedelta
from typing import Any

import pytest

from schemas.decisions.node_updates import BufferStatusPlanned
from schemas.outcomes import OutcomeDetail, Result
from tests.support.asg_scene import CLUSTER, NodeScene
from tests.support.aws_double import AwsDouble, aws, aws_server

__all__ = ["aws", "aws_server"]


@pytest.fixture
def scene(aws: AwsDouble) -> NodeScene:
    return NodeScene(aws)


def plan(scene: NodeScene, number: int = 1, **changed: Any) -> BufferStatusPlanned:
    fields: dict[str, Any] = {"ready": True, "replicas": 3, "template": "small", "template_generation": 2, "message": "ready"}
    ends = scene.at + timedelta(minutes=2)
    return BufferStatusPlanned(
        f"buffer-{number}", scene.at, ends, CLUSTER, "shop", "room", "u1", because={}, **{**fields, **changed}
    )


def carry_out(scene: NodeScene, decision: BufferStatusPlanned) -> tuple[Result, OutcomeDetail]:
    scene.publish(decision, "node-updates")
    scene.tick()
    scene.consumer.poll_once()
    outcome = scene.outcomes()[-1]
    return outcome.result, outcome.detail


def conditions(scene: NodeScene) -> dict[str, dict[str, Any]]:
    status: Any = scene.buffers.objects["shop", "room"].status
    return {one["type"]: one for one in status["conditions"]}


def test_a_status_is_written_and_seen_and_found_the_next_time(scene: NodeScene) -> None:
    scene.buffers.put("room")
    assert carry_out(scene, plan(scene)) == (Result.DONE, OutcomeDetail.APPLIED)
    status = scene.buffers.objects["shop", "room"].status
    assert (status["replicas"], status["podTemplateRef"], status["podTemplateGeneration"]) == (3, {"name": "small"}, 2)
    assert status["provisioningStrategy"] == "buffer.x-k8s.io/active-capacity"
    assert {name: (one["status"], one["reason"]) for name, one in conditions(scene).items()} == {
        "ReadyForProvisioning": ("True", "AttributesSetSuccessfully"),
        "LimitedByQuotas": ("False", "ResourceQuotasAllocated"),
        "Provisioning": ("True", "FakePodsInjected"),
    }
    assert carry_out(scene, plan(scene, 2)) == (Result.DONE, OutcomeDetail.ALREADY_DONE)


def test_quotas_that_leave_room_for_fewer_pods_are_named(scene: NodeScene) -> None:
    scene.buffers.put("room")
    why = "room for 1 of 3, by ResourceQuota 'tight'"
    assert carry_out(scene, plan(scene, replicas=1, limited=why)) == (Result.DONE, OutcomeDetail.APPLIED)
    limited = conditions(scene)["LimitedByQuotas"]
    assert (limited["status"], limited["message"]) == ("True", why)


def test_what_is_not_ready_says_why_and_has_no_replicas(scene: NodeScene) -> None:
    scene.buffers.put("room", status={"replicas": 9})
    why = "there is no PodTemplate 'small' in namespace 'shop'"
    missing = plan(scene, ready=False, replicas=None, template_generation=None, message=why)
    assert carry_out(scene, missing) == (Result.DONE, OutcomeDetail.APPLIED)
    assert "replicas" not in scene.buffers.objects["shop", "room"].status
    ready = conditions(scene)["ReadyForProvisioning"]
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "error", why)


def test_conditions_of_others_stay_and_a_condition_keeps_its_time_while_it_holds(scene: NodeScene) -> None:
    old = "2026-01-01T00:00:00Z"
    other = {"type": "SomebodyElses", "status": "False", "reason": "x", "message": "", "lastTransitionTime": old}
    ready = {"type": "ReadyForProvisioning", "status": "True", "reason": "x", "message": "", "lastTransitionTime": old}
    scene.buffers.put("room", status={"conditions": [other, ready]})
    carry_out(scene, plan(scene))
    assert conditions(scene)["SomebodyElses"] == other
    assert conditions(scene)["ReadyForProvisioning"]["lastTransitionTime"] == old
    assert conditions(scene)["Provisioning"]["lastTransitionTime"] != old


@pytest.mark.parametrize("uid", ["u2", None])
def test_another_buffer_of_that_name_and_none_are_left_alone(scene: NodeScene, uid: str | None) -> None:
    if uid is not None:
        scene.buffers.put("room", uid)
    assert carry_out(scene, plan(scene)) == (Result.REFUSED, OutcomeDetail.MOVED)
    assert all(not one.status for one in scene.buffers.objects.values())
