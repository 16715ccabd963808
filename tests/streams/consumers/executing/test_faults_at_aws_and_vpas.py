"""A fault of ours while a node group grows, or while a VPA's status is written, is no verdict of AWS or of the cluster."""

import pytest
from structlog.testing import capture_logs

from streams.clients.kube.vpa_status_client import VpaStatusClient
from streams.own_faults import MOST_IN_A_ROW, TooManyFaultsError
from tests.support.asg_scene import NodeScene
from tests.support.aws_double import AwsDouble, aws, aws_server
from tests.support.status_scene import StatusScene, said, vpa
from tests.support.vpa_server import VpaServer

__all__ = ["aws", "aws_server"]
FAULTS = [TypeError("no number"), KeyError("cpu"), AttributeError("no such thing"), ValueError("of ours")]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_fault_in_a_call_of_aws_is_said_with_its_traceback_and_ends_the_consumer(
    aws: AwsDouble, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    scene = NodeScene(aws)
    client = aws.client()

    def broken(**_: object) -> None:
        raise fault

    monkeypatch.setattr(aws, "client", lambda: client)
    monkeypatch.setattr(client._clients["autoscaling"], "describe_auto_scaling_groups", broken)
    scene.restarted()
    scene.grow(2, 4)
    with capture_logs() as lines:
        for _ in range(MOST_IN_A_ROW - 1):
            assert scene.consumer.poll_once() == 0
            scene.tick(11.0)
        with pytest.raises(TooManyFaultsError):
            scene.consumer.poll_once()
    assert scene.outcomes() == []
    said_of_faults = [line for line in lines if line["event"] == "a fault of our own"]
    assert [(line["log_level"], line["exc_info"]) for line in said_of_faults] == [("error", fault)] * MOST_IN_A_ROW


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("method", ["write", "all"])
def test_a_fault_while_a_status_is_written_ends_the_consumer_and_no_outcome_tells_of_it(
    monkeypatch: pytest.MonkeyPatch, fault: Exception, method: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise fault

    with VpaServer() as server:
        server.make("web/api")
        scene = StatusScene(server.url)
        scene.tick()
        scene.say(vpa(), said())
        with monkeypatch.context() as broken_client:
            broken_client.setattr(VpaStatusClient, method, broken)
            with pytest.raises(type(fault)):
                scene.consumer().poll_once()
        assert scene.outcomes() == []
        assert scene.consumer().poll_once() == 1
