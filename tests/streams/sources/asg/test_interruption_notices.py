"""What AWS announces by a queue (moto's SQS) becomes facts about instances of ours, and leaves the queue once the log has it."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.facts.node_groups import InstanceInterruptionNoticed, InterruptionKind
from streams.clients.aws import interruption_notices
from streams.clients.aws.interruption_notices import QueueMessage
from streams.sources.asg.asg_source import GroupSelection
from tests.streams.sources.asg.test_asg_source import OURS, SourceScene
from tests.support.aws_double import AwsDouble, aws, aws_server

__all__ = ["aws", "aws_server"]
SPOT = "EC2 Spot Instance Interruption Warning"


def event(kind: str, detail: Mapping[str, Any]) -> str:
    return json.dumps({"detail-type": kind, "source": "aws.ec2", "time": "2026-01-05T08:00:00Z", "detail": detail})


@pytest.fixture
def scene(aws: AwsDouble) -> SourceScene:
    made = SourceScene(aws, GroupSelection(tags=OURS, notices=aws.queue()))
    made.aws.group("pool", desired=2, tags=OURS)
    made.poll()
    return made


def send(scene: SourceScene, *bodies: str) -> None:
    for body in bodies:
        scene.aws.sdk("sqs").send_message(QueueUrl=scene.selection.notices, MessageBody=body)


def left(scene: SourceScene) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = scene.aws.sdk("sqs").get_queue_attributes(QueueUrl=scene.selection.notices, AttributeNames=names)["Attributes"]
    return sum(int(found[name]) for name in names)


def notices(events: list[Any]) -> list[tuple[str, InterruptionKind]]:
    return [(one.instance, one.kind) for one in events if isinstance(one, InstanceInterruptionNoticed)]


def test_notices_about_instances_of_ours_become_facts_and_the_queue_is_empty(scene: SourceScene) -> None:
    one, two = scene.aws.instances("pool")
    health = {"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": [{"entityValue": two}]}
    send(
        scene,
        event(SPOT, {"instance-id": one, "instance-action": "terminate"}),
        event("EC2 Instance Rebalance Recommendation", {"instance-id": two}),
        event("AWS Health Event", health),
        event(SPOT, {"instance-id": "i-of-somebody-else"}),
        event("EC2 Instance State-change Notification", {"instance-id": one, "state": "running"}),
        "this is no event",
    )
    found = scene.poll()
    wanted = [(one, InterruptionKind.SPOT), (two, InterruptionKind.REBALANCE), (two, InterruptionKind.MAINTENANCE)]
    assert sorted(notices(found)) == sorted(wanted)
    assert next(one.noticed for one in found if isinstance(one, InstanceInterruptionNoticed)) == datetime(
        2026, 1, 5, 8, tzinfo=UTC
    )
    assert left(scene) == 0
    assert notices(scene.poll()) == []


def test_a_queue_that_may_not_be_read_leaves_everything_else_alone(aws: AwsDouble) -> None:
    scene = SourceScene(aws, GroupSelection(tags=OURS, notices=f"{aws.url}/123456789012/no-such-queue"))
    scene.aws.group("pool", desired=1, tags=OURS)
    assert [type(one).__name__ for one in scene.poll()] == ["NodeGroupSeen", "NodeInstanceSeen"]
    assert scene.reports()[-1] == ("node-group-changes",)


def test_while_the_log_is_away_a_notice_stays_in_the_queue(scene: SourceScene, monkeypatch: pytest.MonkeyPatch) -> None:
    (one, _) = scene.aws.instances("pool")
    send(scene, event(SPOT, {"instance-id": one}))
    monkeypatch.setattr(scene.source._outbox, "flush", lambda: False)
    scene.source.poll(scene.at)
    assert left(scene) == 1
    monkeypatch.undo()
    assert notices(scene.poll()) == [(one, InterruptionKind.SPOT)]


@pytest.mark.parametrize(
    "body",
    [
        event(SPOT, {}),
        event(SPOT, {"instance-id": "none"}),
        event(
            "AWS Health Event",
            {"service": "RDS", "eventTypeCategory": "scheduledChange", "affectedEntities": [{"entityValue": "i-1"}]},
        ),
        "{}",
    ],
)
def test_what_announces_nothing_is_none(body: str) -> None:
    assert interruption_notices.read_notice(QueueMessage("m", "r", body)) is None


@pytest.mark.parametrize("body", ["", "[]", '{"detail": 3}', '{"detail": {"instance-id": 4}}', "{" * 5000, '{"a":' + "[" * 5000])
def test_nonsense_is_a_value_error(body: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        interruption_notices.read_notice(QueueMessage("m", "r", body))
