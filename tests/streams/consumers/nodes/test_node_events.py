"""The Events about nodes: upstream's reasons with the decision's id, on the pods and nodes that the actions were about."""

import pytest
from kubernetes import client as official

from schemas.decision_subjects import Subject, SubjectKind
from streams.clients.kube.api import Api
from streams.clients.kube.event_recorder import EventRecorder, ObjectEvent
from streams.simulated.api_server import SimulatedServer
from tests.support.asg_scene import START, NodeScene, pod
from tests.support.aws_double import AwsDouble, aws, aws_server
from tests.support.consumer_scene import scene_at_two

__all__ = ["aws", "aws_server"]


@pytest.fixture
def scene(aws: AwsDouble) -> NodeScene:
    """Two nodes; the first has one pod."""
    made = NodeScene(aws)
    made.nodes.add("one", made.instances[0], pod("a"))
    made.nodes.add("two", made.instances[1])
    return made


def told(scene: NodeScene) -> list[tuple[SubjectKind, str, str, str]]:
    return [(event.subject.kind, event.subject.name, event.subject.uid, event.reason) for event in scene.events]


def test_a_growth_is_told_of_the_pods_that_it_is_for_and_that_are_there_still(scene: NodeScene) -> None:
    scene.grow(2, 4)
    scene.run()
    assert scene.events == []  # the pod is gone
    scene.nodes.waiting["shop/a"] = "uid-9"
    scene.grow(4, 5, "again")
    scene.run(rounds=4)
    scene.consumer.poll_once()
    assert told(scene) == [(SubjectKind.POD, "a", "uid-9", "TriggeredScaleUp")]
    assert scene.events[0].message == "pod triggered scale-up of group pool from 4 to 5 nodes; decision test/0/1/plan/again"


def test_a_removal_is_told_of_its_pods_and_of_the_node(scene: NodeScene) -> None:
    scene.remove("one", evict=scene.nodes.held["one"])
    scene.run()
    (evicted,) = [uid for kind, _, uid, _ in told(scene) if kind is SubjectKind.POD]
    assert told(scene) == [(SubjectKind.POD, "a", evicted, "ScaleDown"), (SubjectKind.NODE, "one", "uid-one", "ScaleDown")]
    assert all(event.message.endswith("; decision test/0/1/plan/down") for event in scene.events)


def test_an_empty_node_and_one_that_could_not_be_emptied_are_told_apart(scene: NodeScene) -> None:
    scene.remove("two")
    scene.run()
    assert told(scene) == [(SubjectKind.NODE, "two", "uid-two", "ScaleDownEmpty")]
    scene.events.clear()
    scene.nodes.protected.add("a")
    scene.remove("one", evict=scene.nodes.held["one"], identifier="held")
    for _ in range(60):
        scene.consumer.poll_once()
        scene.tick(5.0)
    assert told(scene) == [(SubjectKind.NODE, "one", "uid-one", "ScaleDownFailed")]
    assert "there still are pod" in scene.events[0].message


def test_an_event_about_a_node_is_in_the_namespace_where_kubectl_looks_for_it() -> None:
    with SimulatedServer(scene_at_two().cluster) as server:
        api = Api(official.ApiClient(official.Configuration(host=server.url, retries=False)))
        node = Subject.of_node("real", "one", "uid-one")
        EventRecorder(api, "ullage-asg", lambda: START).record(ObjectEvent(node, "ScaleDown", "it goes", "down"))
        (written,) = server.paths.events
    assert written["metadata"]["namespace"] == "default"
    assert written["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "namespace": "", "name": "one", "uid": "uid-one"}
