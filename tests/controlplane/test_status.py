"""The status of VPA objects on a real API server: as `kubectl get vpa` shows it, and through all that may come in between."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest

from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.usage import CheckpointSeen, SavedHistogram
from schemas.names import Workload
from schemas.outcomes import Result
from schemas.policies.vpa import VpaChanged, VpaRemoved
from streams.clients.kube import vpa_status_client
from streams.clients.kube.api import Api
from streams.clients.kube.vpa_objects import write
from tests.controlplane.plane import Plane
from tests.controlplane.world import World
from tests.support.status_scene import START, StagedConsumer, StatusScene, said
from tests.support.status_scene import vpa as plain


@dataclass
class Scene:
    """A namespace, a log in memory, and the consumer between them."""

    plane: Plane
    world: World
    status: StatusScene
    consumer: StagedConsumer

    def found(self, name: str = "web") -> Any:
        return self.world.ask.get(self.world.path("vpas", name))

    def told(self, name: str = "web", **changed: object) -> VpaChanged:
        """What a source tells of the object as it is now."""
        about = self.found(name)["metadata"]
        seen = replace(
            plain(name, target="web"),
            namespace=self.world.namespace,
            uid=about["uid"],
            generation=about["generation"],
            resource_version=about["resourceVersion"],
            created=datetime.fromisoformat(about["creationTimestamp"]),
        )
        return replace(seen, **changed)  # type: ignore[arg-type]  # a test may say anything

    def said(self, turn: int = START, cpu: float = 100) -> RequestsRecommended:
        workload = Workload("demo", self.world.namespace, "Deployment", "web")
        return replace(said(cpu=cpu), id=f"recommender/0/{turn}/requests/{workload.key}", workload=workload)

    def conditions(self, name: str = "web") -> dict[str, str]:
        return {each["type"]: each["status"] for each in self.found(name).get("status", {}).get("conditions", [])}

    def target(self, name: str = "web") -> str:
        """The CPU that is recommended."""
        recommendation = self.found(name)["status"]["recommendation"]
        return str(recommendation["containerRecommendations"][0]["target"]["cpu"])


@pytest.fixture
def scene(plane: Plane, world: World) -> Iterator[Scene]:
    api = plane.api_client()
    status = StatusScene(api=api)
    status.tick()
    yield Scene(plane, world, status, status.consumer())
    api.close()


def test_kubectl_shows_what_was_recommended(scene: Scene) -> None:
    scene.world.vpa("web", "web", spec={"updatePolicy": {"updateMode": "Off"}})
    scene.status.say(scene.told(), scene.said())
    assert scene.consumer.poll_once() == 1
    command = ["kubectl", "--kubeconfig", str(scene.plane.kubeconfig), "-n", scene.world.namespace, "get", "vpa", "web"]
    head, row = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    assert head.split() == ["NAME", "MODE", "CPU", "MEM", "PROVIDED", "AGE"]
    assert row.split()[:5] == ["web", "Off", "100m", "500Mi", "True"]
    assert scene.found()["status"]["observedGeneration"] == scene.found()["metadata"]["generation"]


def test_nothing_new_leaves_the_object_in_its_version_also_after_a_restart(scene: Scene) -> None:
    scene.world.vpa("web", "web")
    scene.status.say(scene.told(), scene.said())
    scene.consumer.poll_once()
    version = scene.found()["metadata"]["resourceVersion"]
    scene.status.say(scene.told(), scene.said(turn=START + 1))
    assert scene.consumer.poll_once() == 0
    assert scene.status.consumer().poll_once() == 0
    assert scene.found()["metadata"]["resourceVersion"] == version


def test_no_pods_and_a_target_that_cannot_be_served_are_said(scene: Scene) -> None:
    scene.world.vpa("web", "web")
    scene.status.say(scene.told())
    scene.consumer.poll_once()
    assert scene.conditions() == {"NoPodsMatched": "True", "RecommendationProvided": "False"}
    scene.status.say(scene.told(unsupported="there is no Deployment 'web'"))
    scene.consumer.poll_once()
    assert scene.conditions() == {"ConfigUnsupported": "True", "NoPodsMatched": "True", "RecommendationProvided": "False"}
    scene.status.say(scene.told(), scene.said())
    scene.consumer.poll_once()
    assert scene.conditions() == {"RecommendationProvided": "True"}


def test_a_second_writer_in_between_keeps_its_condition(scene: Scene) -> None:
    scene.world.vpa("web", "web")
    scene.status.say(scene.told(), scene.said())
    scene.consumer.poll_once()
    theirs = [{"type": "Theirs", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    scene.world.ask.patch(f"{scene.world.path('vpas', 'web')}/status", {"status": {"conditions": theirs}}, kind="merge")
    scene.status.say(scene.said(turn=START + 1, cpu=200))
    assert scene.consumer.poll_once() == 1
    assert scene.conditions() == {"RecommendationProvided": "True", "Theirs": "True"}
    assert scene.target() == "200m"


def test_an_object_deleted_and_made_again_is_written_anew_and_not_before_it_is_published(scene: Scene) -> None:
    scene.world.vpa("web", "web")
    old = scene.told()
    scene.status.say(old, scene.said())
    scene.consumer.poll_once()
    scene.world.ask.delete(scene.world.path("vpas", "web"))
    scene.status.say(scene.said(turn=START + 1, cpu=200))
    assert scene.consumer.poll_once() == 0
    scene.world.vpa("web", "web")
    scene.status.say(scene.said(turn=START + 2, cpu=300))
    assert scene.consumer.poll_once() == 0
    assert scene.conditions() == {}
    scene.status.say(VpaRemoved(old.at, "demo", scene.world.namespace, "web"), scene.told())
    assert scene.consumer.poll_once() == 1
    assert scene.target() == "300m"


def test_an_object_that_goes_to_another_recommender_is_left_alone(scene: Scene) -> None:
    scene.world.vpa("web", "web")
    scene.status.say(scene.told(), scene.said())
    scene.consumer.poll_once()
    scene.world.ask.patch(scene.world.path("vpas", "web"), {"spec": {"recommenders": [{"name": "other"}]}}, kind="merge")
    scene.status.say(scene.said(turn=START + 1, cpu=200))  # the log does not hold it yet
    assert scene.consumer.poll_once() == 0
    scene.status.say(scene.told(recommenders=("other",)), scene.said(turn=START + 2, cpu=300))
    assert scene.consumer.poll_once() == 0
    assert scene.target() == "100m"
    scene.world.ask.patch(scene.world.path("vpas", "web"), {"spec": {"recommenders": None}}, kind="merge")
    scene.status.say(scene.told())
    assert scene.consumer.poll_once() == 1
    assert scene.target() == "300m"
    assert scene.found()["status"]["observedGeneration"] == 3


def test_a_restart_of_the_api_server_delays_a_write_and_loses_none(scene: Scene) -> None:
    scene.world.vpa("web", "web")
    scene.status.say(scene.told(), scene.said())
    scene.consumer.poll_once()
    scene.plane.stop_apiserver(kill=True)
    try:
        scene.status.say(scene.said(turn=START + 1, cpu=200))
        assert scene.consumer.poll_once() == 0
    finally:
        scene.plane.start_apiserver()
    scene.status.real += 11
    assert scene.consumer.poll_once() == 1
    assert scene.target() == "200m"
    assert [outcome.result for outcome in scene.status.outcomes()] == [Result.DONE] * 2


def test_of_two_vpas_on_one_workload_the_younger_names_the_older(scene: Scene) -> None:
    scene.world.vpa("web", "web")
    scene.world.vpa("another", "web")
    first = scene.told()
    scene.status.say(first, scene.told("another", created=first.created.replace(year=2099)), scene.said())
    assert scene.consumer.poll_once() == 2
    assert scene.conditions("another")["ConfigUnsupported"] == "True"
    assert f"'{scene.world.namespace}/web'" in scene.found("another")["status"]["conditions"][0]["message"]
    assert scene.target() == "100m"


def test_a_checkpoint_is_made_and_replaced_as_a_whole(scene: Scene) -> None:
    workload = Workload("demo", scene.world.namespace, "Deployment", "web")
    cpu, memory = SavedHistogram(1767225600.0, 0.5, {"8": 10000, "36": 3333}), SavedHistogram(-62135596800.0, 0.0, {})
    kept = CheckpointSeen(plain().at, workload, "web", "app", "v3", 1767225600.0, 1767229200.0, 4, cpu, memory)
    api = Api(scene.status.api or scene.plane.api_client())
    write(api, kept)
    write(api, replace(kept, count=5, cpu=replace(cpu, weights={"9": 10000})))
    path = f"/apis/autoscaling.k8s.io/v1/namespaces/{scene.world.namespace}/verticalpodautoscalercheckpoints/web-app"
    made = scene.world.ask.get(path)
    assert made["spec"] == {"vpaObjectName": "web", "containerName": "app"}
    assert made["status"] == {
        "version": "v3",
        "lastUpdateTime": "2026-01-01T00:00:00Z",
        "firstSampleStart": "2026-01-01T00:00:00Z",
        "lastSampleStart": "2026-01-01T01:00:00Z",
        "totalSamplesCount": 5,
        "cpuHistogram": {"referenceTimestamp": "2026-01-01T00:00:00Z", "totalWeight": 0.5, "bucketWeights": {"9": 10000}},
        "memoryHistogram": {"totalWeight": 0, "bucketWeights": {}},
    }


def test_objects_are_listed_page_by_page_of_the_namespaces_that_are_asked_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"v{number}" for number in range(5)]
    for name in names:
        scene.world.vpa(name, name)
    monkeypatch.setattr(vpa_status_client, "PAGE", 2)
    api = Api(scene.plane.api_client())
    found = [each.name for each in vpa_status_client.VpaStatusClient(api, (scene.world.namespace, "default")).all()]
    assert found == [f"{scene.world.namespace}/{name}" for name in names]
    assert {each.name for each in vpa_status_client.VpaStatusClient(api).all()} >= set(found)
