"""What AWS announces by a queue (moto's SQS) becomes facts about instances of ours, and leaves the queue once the log has it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog.testing

from agents.processes.source_asg import selection
from agents.settings.consumer_settings import AwsSettings
from schemas.facts.nodes import InstanceInterruptionNoticed, InterruptionKind
from streams.clients.aws import interruption_notices
from streams.clients.aws.interruption_notices import InterruptionNotice, QueueMessage
from streams.sources.asg.asg_source import GroupSelection
from tests.streams.sources.asg.test_asg_source import OURS, SourceScene
from tests.support.aws_double import AwsDouble, aws, aws_server

__all__ = ["aws", "aws_server"]
MOST_OF_A_MESSAGE = 256 << 10
"""Bytes that SQS takes."""
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


def test_after_losses_the_queue_waits_until_all_is_compared_again(scene: SourceScene, monkeypatch: pytest.MonkeyPatch) -> None:
    (one, _) = scene.aws.instances("pool")
    send(scene, event(SPOT, {"instance-id": one}))
    monkeypatch.setattr(scene.source._outbox, "report_losses", lambda: True)
    assert not scene.source.poll(scene.at)
    assert left(scene) == 1
    monkeypatch.undo()
    assert notices(scene.poll()) == [(one, InterruptionKind.SPOT)]


def test_a_notice_that_no_reader_would_take_is_said_and_left_out_and_the_others_go_on(
    scene: SourceScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = scene.aws.instances("pool")
    send(scene, event(SPOT, {"instance-id": one}), event(SPOT, {"instance-id": two}))
    read = interruption_notices.read_notice
    early = datetime(1000, 1, 1, tzinfo=UTC)

    def spoilt(message: QueueMessage) -> InterruptionNotice | None:
        notice = read(message)
        return notice if notice is None or notice.instances == (two,) else replace(notice, noticed=early)

    monkeypatch.setattr(interruption_notices, "read_notice", spoilt)
    assert notices(scene.poll()) == [(two, InterruptionKind.SPOT)]
    assert "too large to be kept" in scene.source._logged["notices"]
    assert left(scene) == 0


def unhurried(scene: SourceScene) -> None:
    """Let the queue show no message twice, however slow this machine is."""
    scene.aws.sdk("sqs").set_queue_attributes(QueueUrl=scene.selection.notices, Attributes={"VisibilityTimeout": "600"})


def foreign(detail: Mapping[str, Any]) -> str:
    return json.dumps({"detail-type": SPOT, "account": "999999999999", "region": "us-east-1", "detail": detail})


def test_hostile_messages_are_named_once_and_removed_and_the_source_goes_on(aws: AwsDouble) -> None:
    ours = AwsSettings(discovery=("asg:tag=k8s.io/cluster-autoscaler/enabled",), interruption_queue=aws.queue())
    scene = SourceScene(aws, selection(ours))
    one, two = aws.group("pool", desired=2, tags=OURS)
    unhurried(scene)
    scene.poll()
    deep = "[" * 10_000 + "]" * 10_000
    bad = [
        "x" * MOST_OF_A_MESSAGE,
        event(SPOT, {"instance-id": "i-" + "0" * (MOST_OF_A_MESSAGE - 140)}),
        f'{{"detail-type": "{SPOT}", "time": {deep}, "detail": {{"instance-id": "{one}"}}}}',
        f'{{"detail-type": "{SPOT}", "unread": {deep}, "detail": {{"instance-id": "{one}"}}}}',
        foreign({"instance-id": "i-0123456789abcdef0"}),
        event("EC2 Instance State-change Notification", {"instance-id": one}),
        event("\u001b[2J" + "k" * 10_000, {"instance-id": one}),
        event(SPOT, {"instance-id": "../../pods"}),
        event(SPOT, {"instance-id": 4}),
        event(SPOT, {"instance-id": [one]}),
        event("AWS Health Event", {"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": 7}),
    ]
    late = {"detail-type": SPOT, "time": "9999-12-31T23:59:59Z", "detail": {"instance-id": one}}
    number = {"detail-type": SPOT, "time": "1767600000", "version": 0, "detail": {"instance-id": two}}
    with structlog.testing.capture_logs() as lines:
        send(scene, *bad, json.dumps(late), json.dumps(number))
        found = scene.poll()
        send(scene, event("EC2 Instance Rebalance Recommendation", {"instance-id": two}))
        after = scene.poll()
    told = {each.instance: each.noticed for each in found if isinstance(each, InstanceInterruptionNoticed)}
    assert told == {one: None, two: None}  # a time that nobody can use takes nothing from a notice
    assert notices(after) == [(two, InterruptionKind.REBALANCE)]
    assert left(scene) == 0
    reasons = [line["reason"] for line in lines]
    nobody_s = 2  # well-formed messages about instances of others are what other clusters' nodes bring
    assert len(reasons) == len(set(reasons)) == len(bad) - nobody_s
    assert max(map(len, reasons)) <= 500
    for said in ("malformed", "nested too deeply", "'EC2 Instance State-change Notification'", "'../../pods'", "got `int`"):
        assert any(said in reason for reason in reasons), said


def test_a_flood_of_notices_is_read_in_two_looks_each_once(scene: SourceScene) -> None:
    """Moto's queue takes time that grows with the square of what waits in it, so this flood is one of 110."""
    ids = scene.aws.instances("pool")
    entries = [{"Id": str(n), "MessageBody": event(SPOT, {"instance-id": ids[n % 2]})} for n in range(110)]
    unhurried(scene)
    for start in range(0, len(entries), 10):
        scene.aws.sdk("sqs").send_message_batch(QueueUrl=scene.selection.notices, Entries=entries[start : start + 10])
    told: list[InstanceInterruptionNoticed] = []
    sizes = []
    for _ in range(2):
        found = [each for each in scene.poll() if isinstance(each, InstanceInterruptionNoticed)]
        told += found
        sizes.append((len(found), scene.settled))
    assert sizes == [(100, False), (10, True)]  # the groups are looked at in between
    assert len({each.notice for each in told}) == len(entries)
    assert left(scene) == 0


@pytest.mark.parametrize(
    "time", ["soon", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-05:00", "2026-99-01T00:00:00Z", 7, None, []]
)
def test_a_time_that_is_none_takes_nothing_from_a_notice(time: object) -> None:
    body = json.dumps({"detail-type": SPOT, "time": time, "detail": {"instance-id": "i-1"}})
    found = interruption_notices.read_notice(QueueMessage("m", "r", body))
    assert found == InterruptionNotice(InterruptionKind.SPOT, ("i-1",), None)


@pytest.mark.parametrize(
    "body",
    [
        event("AWS Health Event", {"service": "RDS", "eventTypeCategory": "scheduledChange", "affectedEntities": []}),
        event("AWS Health Event", {"service": "EC2", "eventTypeCategory": "issue", "affectedEntities": [{"entityValue": "i-1"}]}),
    ],
)
def test_health_of_something_else_announces_nothing(body: str) -> None:
    assert interruption_notices.read_notice(QueueMessage("m", "r", body)) is None


def test_an_instance_that_a_message_names_a_thousand_times_is_noticed_once() -> None:
    detail = {"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": [{"entityValue": "i-1"}] * 1000}
    found = interruption_notices.read_notice(QueueMessage("m", "r", event("AWS Health Event", detail)))
    assert found is not None
    assert found.instances == ("i-1",)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"detail": 3}',
        '{"detail": {"instance-id": 4}}',
        event(SPOT, {}),
        event(SPOT, {"instance-id": "none"}),
        "{" * 5000,
        '{"a":' + "[" * 5000,
    ],
)
def test_nonsense_is_a_value_error(body: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        interruption_notices.read_notice(QueueMessage("m", "r", body))
