"""A fault of ours in a source is no fact about the cluster: nothing is said to be gone or failed, and the source ends by it."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from streams.clients.prometheus import Prometheus
from streams.sources.kube.publish.pod_publisher import PodPublisher
from streams.sources.kube.watch.reflector import Reflector
from streams.sources.kube.watch_threads import watches
from tests.streams.sources.asg.test_asg_source import OURS, SourceScene
from tests.support.aws_double import AwsDouble, aws, aws_server
from tests.support.canned_http_server import answering
from tests.support.kube_objects import pod
from tests.support.kube_scene import KubeScene
from tests.support.load_scene import LoadScene, ehpa, flat
from tests.support.load_scene import at as load_at
from tests.support.usage_scene import UsageScene, at

__all__ = ["aws", "aws_server"]
FAULTS = [TypeError("no number"), KeyError("cpu"), ValueError("of ours"), RecursionError()]
each_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)


def raising(fault: Exception) -> Callable[..., Any]:
    def broken(*_: object, **__: object) -> None:
        raise fault

    return broken


@each_fault
def test_usage(fault: Exception) -> None:
    scene = UsageScene(asks=raising(fault))
    with pytest.raises(type(fault)):
        scene.source().scrape(at(0))
    assert (scene.scrapes(), scene.reports()) == ([], [])


@each_fault
@pytest.mark.parametrize("method", ["query", "query_range"])
def test_load(fault: Exception, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = LoadScene()
    scene.say(ehpa("web", query="one"), ehpa("cart", query="two"))
    monkeypatch.setattr(Prometheus, method, raising(fault))
    with answering(flat("7.5")) as server, pytest.raises(type(fault)):
        scene.source(server.url).scrape(load_at(0))
    assert (scene.failures(), scene.sees()) == ([], [])


@each_fault
def test_groups_of_nodes(aws: AwsDouble, fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    aws.group("pool", desired=1, tags=OURS)
    client = aws.client()
    monkeypatch.setattr(aws, "client", lambda: client)
    scene = SourceScene(aws)
    assert scene.poll()
    monkeypatch.setattr(client._clients["autoscaling"], "describe_auto_scaling_groups", raising(fault))
    with pytest.raises(type(fault)):
        scene.poll()
    monkeypatch.undo()
    assert not [event for event in scene.poll() if "Gone" in type(event).__name__]


@each_fault
def test_objects_of_the_cluster(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = KubeScene()
    scene.sync()
    before = [len(scene.events(topic)) for topic in ("pod-changes-by-cluster", "policies", "cluster-changes", "dead-letters")]
    monkeypatch.setattr(PodPublisher, "upsert", raising(fault))
    with capture_logs() as lines, nullcontext() if isinstance(fault, ValueError) else pytest.raises(type(fault)):
        scene.see("pods", pod("web-1"))
    if isinstance(fault, ValueError):  # which may come of an object that somebody wrote
        assert [line["exc_info"] for line in lines if line["event"] == "an object cannot be read"] == [fault]
    after = [len(scene.events(topic)) for topic in ("pod-changes-by-cluster", "policies", "cluster-changes", "dead-letters")]
    assert after == before


@each_fault
def test_a_list_of_the_cluster(fault: Exception) -> None:
    told: list[object] = []
    watch = next(watch for watch in watches() if watch.kind == "pods")
    list_watch: Any = SimpleNamespace(list_pages=raising(fault), watch=raising(fault))
    with pytest.raises(type(fault)):
        Reflector(list_watch, watch, told.extend).step()
    assert told == []
