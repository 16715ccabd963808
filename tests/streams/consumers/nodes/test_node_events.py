"""The Events about nodes: upstream's reasons with the decision's id, on the pods and nodes that the actions were about."""

import pytest
from kubernetes import client as official

from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.node_updates import NodeScalingHalted, ScaleRefused
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.event_recorder import EventRecorder, ObjectEvent
from streams.errors import GiveUp, Unreachable
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


def warned(scene: NodeScene) -> list[tuple[str, str, bool]]:
    return [(event.subject.name, event.reason, event.warning) for event in scene.events]


def test_a_growth_is_told_of_its_group_and_of_the_pods_that_it_is_for_and_that_are_there_still(scene: NodeScene) -> None:
    scene.grow(2, 4)
    scene.run()
    assert warned(scene) == [("cluster-autoscaler-status", "ScaledUpGroup", False)]  # the pod is gone
    assert (scene.events[0].subject.namespace, scene.events[0].subject.object_kind) == ("kube-system", "ConfigMap")
    scene.events.clear()
    scene.nodes.waiting["shop/a"] = "uid-9"
    scene.grow(4, 5, "again")
    scene.run(rounds=4)
    scene.consumer.poll_once()
    assert told(scene)[1:] == [(SubjectKind.POD, "a", "uid-9", "TriggeredScaleUp")]
    assert scene.events[1].message == "pod triggered scale-up of group pool from 4 to 5 nodes; decision test/0/1/plan/again"


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


def helpless(scene: NodeScene, identifier: str, *, code: str = "NoGroupFits", cluster: str = "real", count: int = 3) -> None:
    subject = Subject.of_object(cluster, "ReplicaSet", "shop", "a", "1")
    reason = "no node group's new node would take these pods: NodeResourcesFit"
    refused = ScaleRefused(identifier, scene.at, cluster, subject, code, reason, count, {}, example="shop/a")
    scene.publish(refused, "node-updates")


def test_a_pod_for_which_no_group_grows_is_told_so_once_and_as_it_happens(scene: NodeScene) -> None:
    """Not what was decided before this process could act, not of another cluster, not of a pod that is gone."""
    scene.nodes.waiting["shop/a"] = "uid-9"
    helpless(scene, "before")
    scene.consumer.poll_once()
    helpless(scene, "now")
    helpless(scene, "elsewhere", cluster="other")
    helpless(scene, "node", code="recent")
    scene.consumer.poll_once()
    scene.consumer.poll_once()
    assert told(scene) == [(SubjectKind.POD, "a", "uid-9", "NotTriggerScaleUp")]
    assert scene.events[0].message == (
        "pod didn't trigger scale-up (as 2 pods like it): no node group's new node would take these pods: NodeResourcesFit; "
        "decision now"
    )
    del scene.nodes.waiting["shop/a"]
    helpless(scene, "gone")
    scene.consumer.poll_once()
    assert len(scene.events) == 1


def test_a_size_that_aws_refuses_is_told_of_its_group(scene: NodeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise GiveUp(doing="setting the size of group", to="pool", answer="ValidationError: no")

    monkeypatch.setattr(type(scene.aws.client()), "raise_desired", refuses)
    monkeypatch.setattr(type(scene.aws.client()), "give_up_missing", refuses)
    scene.grow(2, 4)
    scene.consumer.poll_once()
    assert warned(scene) == [("cluster-autoscaler-status", "FailedToScaleUpGroup", True)]
    assert "ValidationError: no" in scene.events[0].message


def test_an_instance_that_became_no_node_is_told_of_its_group(scene: NodeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **_named: object) -> None:
        raise GiveUp(doing="ending instance", to="i-1", answer="ValidationError: no")

    del scene.nodes.nodes["two"]
    with monkeypatch.context() as refused:
        refused.setattr(type(scene.aws.client()), "terminate", refuses)
        scene.remove("", instance=scene.instances[1], identifier="first")
        scene.consumer.poll_once()
        assert warned(scene) == [("cluster-autoscaler-status", "DeleteUnregisteredFailed", True)]
    scene.events.clear()
    scene.remove("", instance=scene.instances[1], identifier="second")
    scene.consumer.poll_once()
    assert warned(scene) == [("cluster-autoscaler-status", "DeleteUnregistered", False)]


@pytest.mark.parametrize(
    ("code", "reason"), [("NotDelivered", "ScaleUpTimedOut"), ("BackedOff", "ScaleUpFailed"), ("halted", "ClusterUnhealthy")]
)
def test_a_group_that_is_out_is_told_of_under_upstreams_reason(scene: NodeScene, code: str, reason: str) -> None:
    scene.consumer.poll_once()
    group = "" if code == "halted" else "pool"
    scene.publish(NodeScalingHalted("h", scene.at, "real", group, code, "why it is out", {}), "node-updates")
    scene.publish(NodeScalingHalted("over", scene.at, "real", group, "", "it is over", {}), "node-updates")
    scene.consumer.poll_once()
    assert warned(scene) == [("cluster-autoscaler-status", reason, True)]
    assert scene.events[0].message == f"{'group pool: ' if group else ''}why it is out; decision h"


def test_limits_and_priorities_are_told_of_the_objects_where_people_look(scene: NodeScene) -> None:
    scene.consumer.poll_once()
    whole = Subject.of_object("real", "Cluster", "", "real")
    priorities = Subject.of_object("real", "ConfigMap", "kube-system", "cluster-autoscaler-priority-expander")
    for subject, code in (
        (whole, "MaxNodesTotalReached"),
        (whole, "limited"),
        (priorities, "PriorityConfigMapInvalid"),
        (priorities, "PriorityConfigMapNotMatchedGroup"),
        (priorities, "PriorityConfigMapNoGroupMatched"),
    ):
        scene.publish(ScaleRefused(f"r-{code}", scene.at, "real", subject, code, "why", 1, {}), "node-updates")
    scene.consumer.poll_once()
    assert warned(scene) == [
        ("cluster-autoscaler-status", "MaxNodesTotalReached", True),
        ("cluster-autoscaler-priority-expander", "PriorityConfigMapInvalid", True),
        ("cluster-autoscaler-priority-expander", "PriorityConfigMapNotMatchedGroup", True),
        ("cluster-autoscaler-priority-expander", "PriorityConfigMapNoGroupMatched", True),
    ]


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("EffectiveHorizontalPodAutoscaler", "autoscaling.crane.io/v1alpha1"),
        ("ConfigMap", "v1"),
        ("VerticalPodAutoscaler", "autoscaling.k8s.io/v1"),
    ],
)
def test_an_event_names_the_api_of_its_object_and_whether_it_warns(kind: str, version: str) -> None:
    with SimulatedServer(scene_at_two().cluster) as server:
        api = Api(official.ApiClient(official.Configuration(host=server.url, retries=False)))
        recorder = EventRecorder(api, "ullage-test", lambda: START)
        recorder.record(ObjectEvent(Subject.of_object("real", kind, "shop", "web", "u"), "Failed", "no", "d", warning=True))
        (written,) = server.paths.events
    about = written["involvedObject"]
    assert (about["apiVersion"], about["kind"], written["type"]) == (version, kind, "Warning")


def test_an_event_that_the_cluster_does_not_take_stops_nothing(scene: NodeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_namespace: str, _name: str) -> str | None:
        raise Unreachable(doing="reading", to="the cluster", answer="nobody answers", after=Seconds(1.0))

    scene.consumer.poll_once()
    monkeypatch.setattr(scene.nodes, "pod_uid", away)
    helpless(scene, "now")
    assert scene.consumer.poll_once() == 0
    assert scene.events == []


def test_an_event_about_a_node_is_in_the_namespace_where_kubectl_looks_for_it() -> None:
    with SimulatedServer(scene_at_two().cluster) as server:
        api = Api(official.ApiClient(official.Configuration(host=server.url, retries=False)))
        node = Subject.of_node("real", "one", "uid-one")
        EventRecorder(api, "ullage-asg", lambda: START).record(ObjectEvent(node, "ScaleDown", "it goes", "down"))
        (written,) = server.paths.events
    assert written["metadata"]["namespace"] == "default"
    assert written["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "namespace": "", "name": "one", "uid": "uid-one"}
