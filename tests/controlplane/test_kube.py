"""The kube source against a real API server: what it tells, what a broken watch does to that, and what a restart finds."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agents.settings import ClusterSettings, connected
from schemas.catalogue import Event
from schemas.facts import (
    CheckpointSeen,
    ContainerOOMKilled,
    NodeChanged,
    NodeRemoved,
    PodChanged,
    PodDeleted,
    PodPhase,
    ResizeState,
    SavedHistogram,
    SourceReported,
)
from schemas.names import Amounts, PodName, Workload
from schemas.policies import Operator, Requirement, VpaChanged, VpaRemoved
from schemas.units import Cores, Seconds
from streams.clients.api import Api
from streams.clients.kubernetes import KubernetesClient
from streams.clients.watching import Watching
from streams.codec import Codec, tick_number
from streams.log.memory import MemoryLog
from streams.sources.kube.source import Desk
from streams.sources.kube.watchers import Watchers
from streams.topics import TOPICS, Topics
from tests.controlplane import stages
from tests.controlplane.asking import Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.world import World, make_nodes

PARTITIONS = 2


def now() -> datetime:
    return datetime.now(UTC)


class Scene:
    """One log, and a source that watches one namespace of the plane into it."""

    def __init__(self, plane: Plane, world: World) -> None:
        self.plane, self.namespace = plane, world.namespace
        self.topics, self.log = Topics(partitions=PARTITIONS), MemoryLog()
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), PARTITIONS)

    @contextmanager
    def watching(self, *, patience: float = 5.0) -> Iterator[Watchers]:
        """The source at work; everything that is there was seen when the block begins."""
        stop, api = threading.Event(), Api(connected.connection(ClusterSettings(kubeconfig=self.plane.kubeconfig)))
        desk = Desk("real", self.log, self.topics, Codec(self.topics), now, (self.namespace,), timedelta(seconds=1))
        watchers = Watchers(api, desk, watching=Watching(api, patience=Seconds(patience)))
        thread = threading.Thread(target=watchers.run, args=(stop,), daemon=True)
        thread.start()
        try:
            wait_for(lambda: not watchers.sights.reasons(), what="everything is in sight")
            yield watchers
        finally:
            stop.set()
            thread.join(10.0)

    def said(self, topic: str, partition: int | None = None) -> list[Event]:
        """What stands in a topic, in the order of its partitions; of broadcasts, one partition is enough."""
        found = []
        for p in range(PARTITIONS) if partition is None else [partition]:
            at = (self.topics.wire(topic), p)
            records = self.log.poll({at: 0}, limit=1_000_000)
            found += [Codec(self.topics).decode(record) for record in records if tick_number(record) is None]
        return found

    def pods(self, uid: str) -> list[PodChanged | PodDeleted]:
        found = self.said("pod-changes")
        return [event for event in found if isinstance(event, (PodChanged, PodDeleted)) and event.pod.uid == uid]

    def vpas(self, name: str) -> list[VpaChanged | VpaRemoved]:
        return [event for event in self.said("policies", 0) if isinstance(event, (VpaChanged, VpaRemoved)) and event.name == name]

    def workload(self, kind: str, name: str) -> Workload:
        return Workload("real", self.namespace, kind, name)


@pytest.fixture
def scene(plane: Plane, world: World) -> Scene:
    return Scene(plane, world)


def repeats(scene: Scene) -> list[Event]:
    """Facts that say of a pod, VPA or node what was said of it just before."""
    last: dict[str, Event] = {}
    found = []
    for event in [*scene.said("pod-changes-by-cluster"), *scene.said("policies", 0), *scene.said("cluster-changes", 0)]:
        name = (
            event.pod.uid if isinstance(event, (PodChanged, PodDeleted)) else getattr(event, "name", getattr(event, "node", ""))
        )
        if name and name in last and replace(last[name], at=event.at) == event:
            found.append(event)
        last[name] = event
    return found


def uid_of(pod: Any) -> str:
    return str(pod["metadata"]["uid"])


def runs(scene: Scene, uid: str) -> bool:
    """Whether the newest word of a pod is that it runs, ready."""
    told = scene.pods(uid)
    newest = told[-1] if told else None
    return isinstance(newest, PodChanged) and newest.phase is PodPhase.RUNNING and newest.containers[0].ready


def gone(scene: Scene, uid: str) -> bool:
    return bool(scene.pods(uid)) and isinstance(scene.pods(uid)[-1], PodDeleted)


def test_a_deployments_pods_are_told_with_their_workload_in_both_topics(scene: Scene, world: World) -> None:
    with scene.watching():
        (pod,) = world.deployment("web", {"app": {"requests": {"cpu": "250m"}}})
        wait_for(lambda: runs(scene, uid_of(pod)), what="it is told to run")
    told = scene.pods(uid_of(pod))
    assert {event.workload for event in told} == {scene.workload("Deployment", "web")}
    newest = told[-1]
    assert isinstance(newest, PodChanged)
    assert (newest.qos, newest.containers[0].requests.cpu) == ("Burstable", 0.25)
    copies = [event for event in scene.said("pod-changes-by-cluster") if getattr(event, "pod", None) == newest.pod]
    assert copies == told
    assert repeats(scene) == []


def test_a_resize_is_told_once_when_asked_for_and_once_when_in_force(
    scene: Scene, world: World, client: KubernetesClient
) -> None:
    with scene.watching():
        (pod,) = world.deployment("web", {"app": {"requests": {"cpu": "100m"}}}, annotations={stages.RESIZE: "Slow"})
        uid = uid_of(pod)
        wait_for(lambda: runs(scene, uid))
        name = PodName(scene.namespace, pod["metadata"]["name"], uid)
        client.resize(name, requests={"app": Amounts(cpu=Cores(0.2))}, limits={})

        def done() -> bool:
            newest = scene.pods(uid)[-1]
            return isinstance(newest, PodChanged) and newest.containers[0].requests.cpu == 0.2

        wait_for(done, what="the resize is told to be in force")
    told = [event for event in scene.pods(uid) if isinstance(event, PodChanged)]
    assert [event.resize for event in told[-2:]] == [ResizeState.IN_PROGRESS, ResizeState.NONE]
    assert [event.containers[0].requests.cpu for event in told[-2:]] == [0.1, 0.2]
    assert repeats(scene) == []


def test_streams_that_end_every_second_lose_nothing_and_repeat_nothing(scene: Scene, world: World) -> None:
    with scene.watching(patience=1.0):
        uids = [uid_of(world.deployment(f"web-{i}")[0]) for i in range(8)]
        world.ask.delete(world.path("deployments", "web-0"))
        wait_for(lambda: all(runs(scene, uid) for uid in uids[1:]) and gone(scene, uids[0]), what="all is told")
    assert repeats(scene) == []


@pytest.mark.parametrize("kill", [False, True])
def test_after_a_restart_of_the_server_the_rest_is_told_and_nothing_twice(
    plane: Plane, scene: Scene, world: World, kill: bool
) -> None:
    with scene.watching() as watchers:
        uids = [uid_of(world.deployment(f"web-{i}")[0]) for i in range(2)]
        wait_for(lambda: all(runs(scene, uid) for uid in uids))
        plane.restart_apiserver(kill=kill)
        world.ask.delete(world.path("deployments", "web-0"))
        uids.append(uid_of(world.deployment("web-2")[0]))
        wait_for(lambda: gone(scene, uids[0]) and runs(scene, uids[1]) and runs(scene, uids[2]), timeout=40.0)
        wait_for(lambda: not watchers.sights.reasons(), timeout=40.0, what="everything is in sight again")
    assert repeats(scene) == []


def test_a_version_that_expired_is_listed_anew_and_only_what_changed_is_told(plane: Plane, scene: Scene, world: World) -> None:
    with scene.watching() as watchers:
        uids = [uid_of(world.deployment(f"web-{i}")[0]) for i in range(2)]
        world.vpa("web", "web-1")
        wait_for(lambda: all(runs(scene, uid) for uid in uids) and scene.vpas("web"))
        plane.expire_versions()
        world.ask.delete(world.path("deployments", "web-0"))
        wait_for(lambda: gone(scene, uids[0]), timeout=40.0)
        wait_for(lambda: not watchers.sights.reasons(), timeout=40.0, what="everything is in sight again")
    assert repeats(scene) == []
    assert len(scene.vpas("web")) == 1


def test_what_went_while_the_source_was_away_is_told_as_gone_and_the_rest_not_again(scene: Scene, world: World) -> None:
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


def test_a_vpa_is_unsupported_until_its_target_is_there_and_again_when_it_is_gone(scene: Scene, world: World) -> None:
    with scene.watching():
        world.vpa("web", "web")
        wait_for(lambda: scene.vpas("web"), what="it is told without a target")
        world.deployment("web")
        wait_for(lambda: len(scene.vpas("web")) == 2, what="it is told with its target")
        world.ask.delete(world.path("deployments", "web"))
        wait_for(lambda: len(scene.vpas("web")) == 3, what="it is told without a target again")
    first, second, third = scene.vpas("web")
    assert isinstance(first, VpaChanged)
    assert isinstance(second, VpaChanged)
    assert isinstance(third, VpaChanged)
    missing = f"Cannot read targetRef. Reason: Deployment {scene.namespace}/web was not found"
    assert (first.selector, first.unsupported) == (None, missing)
    assert (second.selector, second.unsupported) == ((Requirement("app", Operator.IN, ("web",)),), "")
    assert third.unsupported == missing
    copies = [event for event in scene.said("policies", 1) if isinstance(event, VpaChanged) and event.name == "web"]
    assert copies == [first, second, third]


def test_two_vpas_on_one_workload_are_both_told_with_its_selector(scene: Scene, world: World) -> None:
    world.deployment("web")
    world.vpa("one", "web")
    world.vpa("two", "web")
    with scene.watching():
        wait_for(lambda: scene.vpas("one") and scene.vpas("two"))
    one, two = scene.vpas("one")[-1], scene.vpas("two")[-1]
    assert isinstance(one, VpaChanged)
    assert isinstance(two, VpaChanged)
    assert one.selector == two.selector == (Requirement("app", Operator.IN, ("web",)),)
    assert one.unsupported == two.unsupported == ""


def test_a_vpa_on_a_replica_set_of_a_deployment_is_unsupported(scene: Scene, world: World) -> None:
    (pod,) = world.deployment("web")
    owner = pod["metadata"]["ownerReferences"][0]["name"]
    world.vpa("inner", owner, kind="ReplicaSet")
    with scene.watching():
        wait_for(lambda: scene.vpas("inner"))
    (told,) = scene.vpas("inner")
    assert isinstance(told, VpaChanged)
    assert told.selector is None
    assert told.unsupported == (
        f"The target ReplicaSet {scene.namespace}/{owner} has a parent controller, Deployment {scene.namespace}/web, "
        "but it should point to a topmost well-known or scalable controller"
    )


def test_a_vpa_that_upstream_would_refuse_is_told_with_value_and_place(scene: Scene, world: World) -> None:
    world.deployment("web")
    world.vpa("odd", "web", spec={"updatePolicy": {"updateMode": "Recreate", "minReplicas": 0}})
    with scene.watching():
        wait_for(lambda: scene.vpas("odd"))
    (told,) = scene.vpas("odd")
    assert isinstance(told, VpaChanged)
    assert told.unsupported == "The spec cannot be carried out: spec.updatePolicy.minReplicas is 0; it must be at least 1"


def test_a_status_that_is_written_to_a_vpa_is_no_change_of_it(scene: Scene, world: World) -> None:
    world.deployment("web")
    world.vpa("web", "web")
    with scene.watching():
        wait_for(lambda: scene.vpas("web"))
        recommended = {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "25m"}}]}
        path = f"{world.path('vpas', 'web')}/status"
        world.ask.patch(path, {"status": {"recommendation": recommended}}, kind="merge")
        uid = uid_of(world.deployment("later")[0])
        wait_for(lambda: runs(scene, uid))
    assert len(scene.vpas("web")) == 1


def test_an_oom_kill_is_told_once_over_restarts_of_the_source_and_with_the_request_of_its_time(
    scene: Scene, world: World
) -> None:
    (pod,) = world.deployment("web", {"app": {"requests": {"memory": "64Mi"}}})
    at = datetime(2026, 11, 21, 12, 0, 5, tzinfo=UTC)
    with scene.watching():
        wait_for(lambda: runs(scene, uid_of(pod)))
        world.oom_kill(pod["metadata"]["name"], "app", at=at)
        wait_for(lambda: scene.said("oom-events"))
    with scene.watching():
        pass
    (kill,) = scene.said("oom-events")
    assert isinstance(kill, ContainerOOMKilled)
    assert (kill.at, kill.container, kill.restarts, kill.memory_request) == (at, "app", 1, 64 << 20)
    assert kill.workload == scene.workload("Deployment", "web")


def test_an_eviction_for_want_of_memory_is_a_kill_with_what_was_used(scene: Scene, world: World) -> None:
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
        wait_for(lambda: scene.said("oom-events"))
    (kill,) = scene.said("oom-events")
    assert isinstance(kill, ContainerOOMKilled)
    assert (kill.memory_used, kill.memory_request) == (1048576, 64 << 20)
    assert kill.at == datetime.fromisoformat(made["metadata"]["creationTimestamp"])


def test_nodes_are_told_with_what_they_have_and_when_they_go(scene: Scene, world: World) -> None:
    with scene.watching():
        name = f"node-of-{scene.namespace}"
        make_nodes(world.ask, [name], cpu="8", memory="32Gi", labels={})

        def of_node() -> list[NodeChanged | NodeRemoved]:
            said = scene.said("cluster-changes", 0)
            return [event for event in said if isinstance(event, (NodeChanged, NodeRemoved)) and event.node == name]

        def ready() -> bool:
            return any(isinstance(event, NodeChanged) and event.ready and event.allocatable.cpu == 8.0 for event in of_node())

        wait_for(ready)
        world.ask.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
        wait_for(lambda: any(isinstance(event, NodeChanged) and not event.schedulable for event in of_node()))
        world.ask.delete(f"/api/v1/nodes/{name}")
        wait_for(lambda: isinstance(of_node()[-1], NodeRemoved))
    assert repeats(scene) == []


def test_the_source_says_what_it_sees_and_that_it_sees_nothing_while_the_server_is_away(plane: Plane, scene: Scene) -> None:
    def newest() -> SourceReported:
        return [event for event in scene.said("cluster-changes", 1) if isinstance(event, SourceReported)][-1]

    everything = ("cluster-changes", "oom-events", "pod-changes", "pod-changes-by-cluster", "policies")
    with scene.watching():
        wait_for(lambda: newest().sees == everything, what="everything is vouched for")
        assert (newest().source, newest().period) == ("kube", 1.0)
        plane.stop_apiserver()
        wait_for(lambda: newest().sees == (), what="nothing is vouched for")
        plane.start_apiserver()
        wait_for(lambda: newest().sees == everything, timeout=40.0, what="everything is vouched for again")


def test_a_checkpoint_seeds_the_workload_of_its_vpa_once(scene: Scene, world: World) -> None:
    world.deployment("web")
    world.vpa("web", "web")
    histogram = {"referenceTimestamp": "2026-11-20T00:00:00Z", "totalWeight": 0.4, "bucketWeights": {"8": 10000, "36": 3333}}
    status = {
        "version": "v3",
        "firstSampleStart": "2026-11-20T00:00:00Z",
        "lastSampleStart": "2026-11-20T00:03:00Z",
        "totalSamplesCount": 4,
        "cpuHistogram": histogram,
        "memoryHistogram": {"totalWeight": 0},
    }
    world.ask.post(
        world.path("vpas").replace("verticalpodautoscalers", "verticalpodautoscalercheckpoints"),
        {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscalerCheckpoint",
            "metadata": {"name": "web-app"},
            "spec": {"vpaObjectName": "web", "containerName": "app"},
            "status": status,
        },
    )
    with scene.watching():
        wait_for(lambda: any(isinstance(event, CheckpointSeen) for event in scene.said("pod-changes")))
    (seen,) = [event for event in scene.said("pod-changes") if isinstance(event, CheckpointSeen)]
    midnight = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
    assert (seen.workload, seen.vpa, seen.container) == (scene.workload("Deployment", "web"), "web", "app")
    assert (seen.first, seen.last, seen.count) == (midnight, midnight + 180.0, 4)
    assert seen.cpu == SavedHistogram(midnight, 0.4, {"36": 3333, "8": 10000})


def test_a_custom_controller_with_a_scale_is_the_workload_and_gives_the_selector(scene: Scene, world: World) -> None:
    make_scalable_type(world)
    roots = f"/apis/test.ullage.example/v1/namespaces/{scene.namespace}/rollouts"
    made = wait_for(lambda: _posted(world, roots), timeout=20.0, what="the type is served")
    kinds = "/apis/test.ullage.example/v1"
    wait_for(lambda: any(each["name"] == "rollouts/scale" for each in world.ask.get(kinds)["resources"]), what="it is listed")
    owner = {
        "apiVersion": "test.ullage.example/v1",
        "kind": "Rollout",
        "name": "big",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    template = {"metadata": {"labels": {"app": "big"}}, "spec": {"containers": [{"name": "app", "image": "x"}]}}
    replicas = {"replicas": 1, "selector": {"matchLabels": {"app": "big"}}, "template": template}
    sets = f"/apis/apps/v1/namespaces/{scene.namespace}/replicasets"
    world.ask.patch(f"{roots}/big", {"status": {"selector": "app=big,tier!=old"}}, kind="merge")
    world.vpa("big", "big", kind="Rollout", spec={"targetRef": {**{k: owner[k] for k in ("apiVersion", "kind", "name")}}})
    with scene.watching():
        world.ask.post(sets, {"metadata": {"name": "big-1", "ownerReferences": [owner]}, "spec": replicas})
        (pod,) = world.running("big", 1)
        wait_for(lambda: runs(scene, uid_of(pod)))
        wait_for(lambda: scene.vpas("big"))
    assert {event.workload for event in scene.pods(uid_of(pod))} == {scene.workload("Rollout", "big")}
    told = scene.vpas("big")[-1]
    assert isinstance(told, VpaChanged)
    assert told.unsupported == ""
    assert told.selector == (Requirement("app", Operator.IN, ("big",)), Requirement("tier", Operator.NOT_IN, ("old",)))


def _posted(world: World, path: str) -> Any:
    try:
        body = {"apiVersion": "test.ullage.example/v1", "kind": "Rollout", "metadata": {"name": "big"}, "spec": {"replicas": 1}}
        return world.ask.post(path, body)
    except Refused as error:
        if error.code == 404:
            return None
        raise


def make_scalable_type(world: World) -> None:
    """A custom type with replicas and a scale, as Argo's rollouts have."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
        "subresources": {"scale": scale},
    }
    names = {"plural": "rollouts", "singular": "rollout", "kind": "Rollout"}
    spec = {"group": "test.ullage.example", "scope": "Namespaced", "names": names, "versions": [version]}
    world.ask.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "rollouts.test.ullage.example"},
            "spec": spec,
        },
    )
