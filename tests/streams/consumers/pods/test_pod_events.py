"""The Events that consumers write: upstream's reasons with the decision's id, once for each action, and never in its way."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client as official

from schemas.decision_subjects import Subject
from schemas.outcomes import OutcomeDetail
from streams.clients.kube.api import Api
from streams.clients.kube.event_recorder import EventRecorder, record_eviction
from streams.consumers.evictor import Evictions, evictor
from streams.consumers.resizer import Resizes
from streams.errors import TryAgain, UnderWay
from streams.simulated.api_server import SimulatedServer
from tests.support.consumer_scene import eviction_of, open_permit, resize_of, scene_at_two

VPA = Subject.of_object("demo", "VerticalPodAutoscaler", "shop", "metrics", "uid-vpa")


class Events(list[Any]):
    def record(self, event: Any) -> None:
        self.append((event.subject.name, event.reason, event.message))


def test_an_eviction_is_told_of_the_pod_and_of_its_vpa() -> None:
    scene, events = scene_at_two(), Events()
    plan = replace(eviction_of(scene.pod()), vpa=VPA)
    Evictions(scene.client, open_permit(), record=events.record).act(plan)
    name, said = plan.pod.name, "was evicted to apply recommended requests; decision updater/0/1/evict/x"
    assert events == [(name, "EvictedByVPA", f"Pod {said}"), ("metrics", "EvictedPod", f"Pod {name} {said}")]


def test_a_resize_is_told_of_the_pod_with_its_new_requests_but_not_one_that_was_there_already() -> None:
    scene, events = scene_at_two(), Events()
    plan = resize_of(scene.pod())
    resizes = Resizes(scene.client, open_permit(), events.record)
    assert resizes.act(plan) is None
    with pytest.raises(UnderWay):
        resizes.act(plan)
    [(name, reason, message)] = events
    assert (name, reason) == (plan.pod.name, "InPlaceResizedByVPA")
    assert message.startswith("Pod was resized in place to requests ")
    assert message.endswith("; decision updater/0/1/resize/x")


def test_a_refused_eviction_is_no_event() -> None:
    scene, events = scene_at_two(), Events()
    scene.plan(eviction_of(scene.pod()))
    evictor(scene.context, scene.client, lambda: "no webhook", record=events.record).poll_once()
    assert [each.detail for each in scene.outcomes()] == [OutcomeDetail.NO_WEBHOOK]
    assert events == []


def test_an_event_that_cannot_be_written_changes_nothing_about_the_action() -> None:
    def refuse(_event: Any) -> None:
        raise TryAgain(doing="writing", to="it", answer="no", after=1.0)  # type: ignore[arg-type]  # seconds

    scene = scene_at_two()
    assert Evictions(scene.client, open_permit(), record=refuse).act(eviction_of(scene.pod())) is None


def test_an_event_is_about_the_pod_and_has_a_name_that_follows_from_the_decision() -> None:
    scene = scene_at_two()
    plan = eviction_of(scene.pod())
    with SimulatedServer(scene.cluster) as server:
        api = Api(official.ApiClient(official.Configuration(host=server.url, retries=False)))
        recorder = EventRecorder(api, "ullage-evictor", lambda: datetime(2026, 3, 1, tzinfo=UTC))
        Evictions(scene.client, open_permit(), record=recorder.record).act(plan)
        for other in ("updater/0/1/evict/x", "updater/0/2/evict/x"):
            record_eviction(recorder.record, replace(plan, id=other))
        written: list[Any] = list(server.paths.events)
    first, again, other = [each["metadata"]["name"] for each in written]
    assert first == again != other
    assert first.startswith(f"{plan.pod.name}.")
    assert written[0]["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": plan.pod.namespace,
        "name": plan.pod.name,
        "uid": plan.pod.uid,
    }
    assert (written[0]["source"], written[0]["firstTimestamp"]) == ({"component": "ullage-evictor"}, "2026-03-01T00:00:00Z")
