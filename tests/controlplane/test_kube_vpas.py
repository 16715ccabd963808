"""VPAs and their targets on a real API server: as they are published, come and go, and are seeded."""

from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.facts.usage import CheckpointSeen, SavedHistogram
from schemas.policies.vpa import Operator, Requirement, VpaChanged
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.watched_namespace import WatchedScene, runs, uid_of
from tests.controlplane.world import World


@pytest.fixture
def scene(plane: Plane, world: World) -> WatchedScene:
    return WatchedScene(plane, world)


def test_a_vpa_is_unsupported_until_its_target_is_there_and_again_when_it_is_gone(scene: WatchedScene, world: World) -> None:
    with scene.watching():
        world.vpa("web", "web")
        wait_for(lambda: scene.vpas("web"), what="it is published without a target")
        world.deployment("web")
        wait_for(lambda: len(scene.vpas("web")) == 2, what="it is published with its target")
        world.ask.delete(world.path("deployments", "web"))
        wait_for(lambda: len(scene.vpas("web")) == 3, what="it is published without a target again")
    first, second, third = scene.vpas("web")
    assert isinstance(first, VpaChanged)
    assert isinstance(second, VpaChanged)
    assert isinstance(third, VpaChanged)
    missing = f"Cannot read targetRef. Reason: Deployment {scene.namespace}/web was not found"
    assert (first.selector, first.unsupported) == (None, missing)
    assert (second.selector, second.unsupported) == ((Requirement("app", Operator.IN, ("web",)),), "")
    assert third.unsupported == missing
    copies = [event for event in scene.events("policies", 1) if isinstance(event, VpaChanged) and event.name == "web"]
    assert copies == [first, second, third]


def test_two_vpas_on_one_workload_are_both_told_with_its_selector(scene: WatchedScene, world: World) -> None:
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


def test_a_vpa_on_a_replica_set_of_a_deployment_is_unsupported(scene: WatchedScene, world: World) -> None:
    (pod,) = world.deployment("web")
    owner = pod["metadata"]["ownerReferences"][0]["name"]
    world.vpa("inner", owner, kind="ReplicaSet")
    with scene.watching():
        wait_for(lambda: scene.vpas("inner"))
    (published,) = scene.vpas("inner")
    assert isinstance(published, VpaChanged)
    assert published.selector is None
    assert published.unsupported == (
        f"The target ReplicaSet {scene.namespace}/{owner} has a parent controller, Deployment {scene.namespace}/web, "
        "but it should point to a topmost well-known or scalable controller"
    )


def test_a_vpa_that_upstream_would_refuse_is_published_with_value_and_place(scene: WatchedScene, world: World) -> None:
    world.deployment("web")
    world.vpa("odd", "web", spec={"updatePolicy": {"updateMode": "Recreate", "minReplicas": 0}})
    with scene.watching():
        wait_for(lambda: scene.vpas("odd"))
    (published,) = scene.vpas("odd")
    assert isinstance(published, VpaChanged)
    assert published.unsupported == "The spec cannot be carried out: spec.updatePolicy.minReplicas is 0; it must be at least 1"


def test_a_status_that_is_written_to_a_vpa_is_no_change_of_it(scene: WatchedScene, world: World) -> None:
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


def test_a_checkpoint_seeds_the_workload_of_its_vpa_once(scene: WatchedScene, world: World) -> None:
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
        wait_for(lambda: any(isinstance(event, CheckpointSeen) for event in scene.events("pod-changes")))
    (seen,) = [event for event in scene.events("pod-changes") if isinstance(event, CheckpointSeen)]
    midnight = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
    assert (seen.workload, seen.vpa, seen.container) == (scene.workload("Deployment", "web"), "web", "app")
    assert (seen.first, seen.last, seen.count) == (midnight, midnight + 180.0, 4)
    assert seen.cpu == SavedHistogram(midnight, 0.4, {"36": 3333, "8": 10000})


def test_a_custom_controller_with_a_scale_is_the_workload_and_gives_the_selector(scene: WatchedScene, world: World) -> None:
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
    published = scene.vpas("big")[-1]
    assert isinstance(published, VpaChanged)
    assert published.unsupported == ""
    assert published.selector == (Requirement("app", Operator.IN, ("big",)), Requirement("tier", Operator.NOT_IN, ("old",)))


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
