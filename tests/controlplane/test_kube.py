"""The kube source against a real API server: what it tells, what a broken watch does to that, and what a restart finds."""

from datetime import UTC, datetime

import pytest

from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import PodChanged, PodDeleted, ResizeState
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import ReplicaControllerChanged
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts
from schemas.policies.vpa import VpaRemoved
from schemas.units import Cores
from streams.clients.kube.cluster_client import KubernetesClient
from tests.controlplane import kwok_stages
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.watched_namespace import WatchedScene, gone, repeats, runs, uid_of
from tests.controlplane.world import World, make_nodes


@pytest.fixture
def scene(plane: Plane, world: World) -> WatchedScene:
    return WatchedScene(plane, world)


def test_a_deployments_pods_are_published_with_their_workload_in_both_topics(scene: WatchedScene, world: World) -> None:
    with scene.watching():
        (pod,) = world.deployment("web", {"app": {"requests": {"cpu": "250m"}}})
        wait_for(lambda: runs(scene, uid_of(pod)), what="it is published as running")
    published = scene.pods(uid_of(pod))
    assert {event.workload for event in published} == {scene.workload("Deployment", "web")}
    newest = published[-1]
    assert isinstance(newest, PodChanged)
    assert (newest.qos, newest.containers[0].requests.cpu) == ("Burstable", 0.25)
    copies = [event for event in scene.events("pod-changes-by-cluster") if getattr(event, "pod", None) == newest.pod]
    assert copies == published
    assert repeats(scene) == []


def test_a_resize_is_published_once_when_asked_for_and_once_when_in_force(
    scene: WatchedScene, world: World, client: KubernetesClient
) -> None:
    with scene.watching():
        (pod,) = world.deployment("web", {"app": {"requests": {"cpu": "100m"}}}, annotations={kwok_stages.RESIZE: "Slow"})
        uid = uid_of(pod)
        wait_for(lambda: runs(scene, uid))
        read = client.pod(scene.namespace, pod["metadata"]["name"])
        assert read is not None
        client.resize(read, requests={"app": Amounts(cpu=Cores(0.2))}, limits={})

        def done() -> bool:
            newest = scene.pods(uid)[-1]
            return isinstance(newest, PodChanged) and newest.containers[0].requests.cpu == 0.2

        wait_for(done, what="the resize is published as in force")
    published = [event for event in scene.pods(uid) if isinstance(event, PodChanged)]
    assert [event.resize for event in published[-2:]] == [ResizeState.IN_PROGRESS, ResizeState.NONE]
    assert [event.containers[0].requests.cpu for event in published[-2:]] == [0.1, 0.2]
    assert repeats(scene) == []


def test_a_pod_that_runs_on_while_it_is_being_deleted_is_told_as_leaving(scene: WatchedScene, world: World) -> None:
    """A finalizer holds it, as a long grace period would."""
    with scene.watching():
        (pod,) = world.deployment("web")
        uid, path = uid_of(pod), world.path("pods", pod["metadata"]["name"])
        wait_for(lambda: runs(scene, uid))
        world.ask.patch(path, {"metadata": {"finalizers": ["example.com/held"]}})
        world.ask.delete(path)

        def leaves() -> bool:
            newest = scene.pods(uid)[-1]
            return isinstance(newest, PodChanged) and newest.leaving

        wait_for(leaves, what="it is published as leaving")
        world.ask.patch(path, {"metadata": {"finalizers": None}}, kind="merge")
        wait_for(lambda: gone(scene, uid), what="it is published as gone")
    assert repeats(scene) == []


def test_sidecars_and_what_a_pod_requests_itself_are_told(scene: WatchedScene, world: World) -> None:
    """Both as a real API server hands them back; the HPA reckons utilisation by them."""
    amounts = {"requests": {"cpu": "100m"}}
    spec = {
        "containers": [{"name": "app", "image": "i", "resources": amounts}],
        "initContainers": [
            {"name": "migrate", "image": "i", "resources": amounts},
            {"name": "mesh", "image": "i", "resources": amounts, "restartPolicy": "Always"},
        ],
        "resources": {"requests": {"cpu": "500m"}},
    }
    with scene.watching():
        made = world.ask.post(world.path("pods"), {"metadata": {"name": "whole"}, "spec": spec})
        wait_for(lambda: scene.pods(uid_of(made)), what="it is published")
    newest = scene.pods(uid_of(made))[-1]
    assert isinstance(newest, PodChanged)
    assert [(each.name, each.sidecar) for each in newest.init_containers] == [("migrate", False), ("mesh", True)]
    assert [each.name for each in newest.running_together] == ["app", "mesh"]
    assert newest.requests.cpu == 0.5


def test_a_daemon_sets_wanted_pods_are_told_from_its_status(scene: WatchedScene, world: World) -> None:
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "app", "image": "i"}]}}
    with scene.watching(lease="webhook"):
        path = world.path("pods").replace("/api/v1/", "/apis/apps/v1/").replace("/pods", "/daemonsets")
        world.ask.post(
            path, {"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template}}
        )
        world.ask.patch(
            f"{path}/agent/status",
            {"status": {"desiredNumberScheduled": 3, "currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}},
            kind="merge",
        )

        def told() -> bool:
            found = [each for each in scene.events("pod-changes-by-cluster") if isinstance(each, ReplicaControllerChanged)]
            return any((each.kind, each.name, each.replicas) == ("DaemonSet", "agent", 3) for each in found)

        wait_for(told, what="the DaemonSet is told with the pods it wants")


def test_streams_that_end_every_second_lose_nothing_and_repeat_nothing(scene: WatchedScene, world: World) -> None:
    with scene.watching(stream_timeout=1.0):
        uids = [uid_of(world.deployment(f"web-{i}")[0]) for i in range(8)]
        world.ask.delete(world.path("deployments", "web-0"))
        wait_for(lambda: all(runs(scene, uid) for uid in uids[1:]) and gone(scene, uids[0]), what="everything is published")
    assert repeats(scene) == []


@pytest.mark.parametrize("kill", [False, True])
def test_after_a_restart_of_the_server_the_rest_is_published_and_nothing_twice(
    plane: Plane, scene: WatchedScene, world: World, kill: bool
) -> None:
    with scene.watching() as threads:
        uids = [uid_of(world.deployment(f"web-{i}")[0]) for i in range(2)]
        wait_for(lambda: all(runs(scene, uid) for uid in uids))
        plane.restart_apiserver(kill=kill)
        world.ask.delete(world.path("deployments", "web-0"))
        uids.append(uid_of(world.deployment("web-2")[0]))
        wait_for(lambda: gone(scene, uids[0]) and runs(scene, uids[1]) and runs(scene, uids[2]), timeout=40.0)
        wait_for(lambda: not threads.sync_status.reasons(), timeout=40.0, what="everything is in sight again")
    assert repeats(scene) == []


def test_a_version_that_expired_is_listed_anew_and_only_what_changed_is_published(
    plane: Plane, scene: WatchedScene, world: World
) -> None:
    with scene.watching() as threads:
        uids = [uid_of(world.deployment(f"web-{i}")[0]) for i in range(2)]
        world.vpa("web", "web-1")
        wait_for(lambda: all(runs(scene, uid) for uid in uids) and scene.vpas("web"))
        plane.expire_versions()
        world.ask.delete(world.path("deployments", "web-0"))
        wait_for(lambda: gone(scene, uids[0]), timeout=40.0)
        wait_for(lambda: not threads.sync_status.reasons(), timeout=40.0, what="everything is in sight again")
    assert repeats(scene) == []
    assert len(scene.vpas("web")) == 1


def test_what_went_while_the_source_was_away_is_published_as_gone_and_the_rest_not_again(
    scene: WatchedScene, world: World
) -> None:
    with scene.watching():
        old = uid_of(world.deployment("web")[0])
        kept = uid_of(world.deployment("kept")[0])
        world.vpa("web", "web")
        world.vpa("kept", "kept")
        wait_for(lambda: runs(scene, old) and runs(scene, kept) and scene.vpas("web") and scene.vpas("kept"))
    before = len(scene.pods(kept))
    world.ask.delete(world.path("deployments", "web"))
    world.ask.delete(world.path("vpas", "web"))
    wait_for(lambda: not world.pods("web"), timeout=30.0, what="the old pods are gone")
    new = uid_of(world.deployment("web")[0])
    with scene.watching():
        wait_for(lambda: gone(scene, old) and runs(scene, new))
        wait_for(lambda: isinstance(scene.vpas("web")[-1], VpaRemoved))
    assert len(scene.pods(kept)) == before
    assert len(scene.vpas("kept")) == 1
    assert [type(event) for event in scene.pods(old)].count(PodDeleted) == 1
    assert repeats(scene) == []


def test_an_oom_kill_is_published_once_over_restarts_of_the_source_and_with_the_request_of_its_time(
    scene: WatchedScene, world: World
) -> None:
    (pod,) = world.deployment("web", {"app": {"requests": {"memory": "64Mi"}}})
    at = datetime(2026, 11, 21, 12, 0, 5, tzinfo=UTC)
    with scene.watching():
        wait_for(lambda: runs(scene, uid_of(pod)))
        world.oom_kill(pod["metadata"]["name"], "app", at=at)
        wait_for(lambda: scene.events("oom-events"))
    with scene.watching():
        pass
    (kill,) = scene.events("oom-events")
    assert isinstance(kill, ContainerOOMKilled)
    assert (kill.at, kill.container, kill.restarts, kill.memory_request) == (at, "app", 1, 64 << 20)
    assert kill.workload == scene.workload("Deployment", "web")


def test_an_eviction_for_want_of_memory_is_a_kill_with_what_was_used(scene: WatchedScene, world: World) -> None:
    (pod,) = world.deployment("web", {"app": {"requests": {"memory": "64Mi"}}})
    annotations = {
        "offending_containers": "app",
        "offending_containers_usage": "1024Ki",
        "starved_resource": "memory",
    }
    about = {"kind": "Pod", "namespace": scene.namespace, "name": pod["metadata"]["name"], "uid": uid_of(pod)}
    event = {"metadata": {"name": "e1", "annotations": annotations}, "involvedObject": about, "reason": "Evicted"}
    with scene.watching():
        made = world.ask.post(world.path("events"), event)
        wait_for(lambda: scene.events("oom-events"))
    (kill,) = scene.events("oom-events")
    assert isinstance(kill, ContainerOOMKilled)
    assert (kill.memory_used, kill.memory_request) == (1048576, 64 << 20)
    assert kill.at == datetime.fromisoformat(made["metadata"]["creationTimestamp"])


def test_nodes_are_published_with_what_they_have_and_when_they_go(scene: WatchedScene, world: World) -> None:
    with scene.watching():
        name = f"node-of-{scene.namespace}"
        make_nodes(world.ask, [name], cpu="8", memory="32Gi", labels={})

        def of_node() -> list[NodeChanged | NodeRemoved]:
            facts = scene.events("cluster-changes", 0)
            return [event for event in facts if isinstance(event, (NodeChanged, NodeRemoved)) and event.node == name]

        def ready() -> bool:
            return any(isinstance(event, NodeChanged) and event.ready and event.allocatable.cpu == 8.0 for event in of_node())

        wait_for(ready)
        world.ask.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
        wait_for(lambda: any(isinstance(event, NodeChanged) and not event.schedulable for event in of_node()))
        world.ask.delete(f"/api/v1/nodes/{name}")
        wait_for(lambda: isinstance(of_node()[-1], NodeRemoved))
    assert repeats(scene) == []


def test_the_source_reports_what_it_sees_and_that_it_sees_nothing_while_the_server_is_away(
    plane: Plane, scene: WatchedScene
) -> None:
    def newest() -> SourceReported:
        return [event for event in scene.events("cluster-changes", 1) if isinstance(event, SourceReported)][-1]

    everything = ("cluster-changes", "oom-events", "pod-changes", "pod-changes-by-cluster", "policies")
    with scene.watching():
        wait_for(lambda: newest().sees == everything, what="everything is vouched for")
        assert (newest().source, newest().period) == ("kube", 1.0)
        plane.stop_apiserver()
        wait_for(lambda: newest().sees == (), what="nothing is vouched for")
        plane.start_apiserver()
        wait_for(lambda: newest().sees == everything, timeout=40.0, what="everything is vouched for again")
