"""A fault of our own is no answer of the cluster: no outcome comes of it, it is said aloud, and some in a row end it."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from schemas.outcomes import Result
from streams import own_faults
from streams.consumers.evictor import evictor
from streams.consumers.executing.executor import Executor
from streams.consumers.resizer import resizer
from streams.consumers.webhook.controller_lookups import ControllerLookups
from streams.consumers.webhook.webhook_consumer import ReviewEndpoint
from streams.own_faults import MOST_IN_A_ROW, OwnFaults, TooManyFaultsError
from tests.streams.consumers.replicas.test_killed_autoscalers import Site
from tests.support import admission_manifests
from tests.support.admission_scene import AdmissionScene
from tests.support.consumer_scene import ConsumerScene, eviction_of, resize_of, scene_at_two
from tests.support.metrics_api_scene import question, scene_in_a_folder, selector
from tests.support.review_server import ask, connect, serving

PLANS = {"resizer": (resizer, resize_of, "resize"), "evictor": (evictor, eviction_of, "evict")}
FAULTS = [
    TypeError("no number"),
    KeyError("cpu"),
    AttributeError("no such thing"),
    AssertionError(),
    ZeroDivisionError("of ours"),
]


def raising(fault: Exception) -> Callable[..., Any]:
    def broken(*_: object, **__: object) -> None:
        raise fault

    return broken


@pytest.fixture
def scene() -> ConsumerScene:
    return scene_at_two()


def begun(scene: ConsumerScene, name: str, *, at_once: int = 1) -> Executor:
    """A consumer with so many plans."""
    make, plan_of, _ = PLANS[name]
    for number in range(at_once):
        scene.plan(plan_of(scene.pod(), f"updater/0/1/plan/{number}"))
    return make(scene.context, scene.client)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("name", PLANS)
def test_a_fault_of_ours_leaves_the_plan_open_and_is_said_with_its_traceback(
    scene: ConsumerScene, monkeypatch: pytest.MonkeyPatch, name: str, fault: Exception
) -> None:
    consumer, act, before = begun(scene, name), PLANS[name][2], own_faults.TOTALS[PLANS[name][2]]
    with monkeypatch.context() as broken, capture_logs() as lines:
        broken.setattr(scene.client, act, raising(fault))
        assert consumer.poll_once() == 0
    assert scene.outcomes() == []
    (line,) = [each for each in lines if each["event"] == "a fault of our own"]
    assert (line["log_level"], line["exc_info"], line["where"]) == ("error", fault, act)
    assert own_faults.TOTALS[act] == before + 1
    (reason,) = consumer.reasons()
    assert f"a fault of Ullage's own while carrying out {act}" in reason
    assert type(fault).__name__ in reason
    scene.settle()
    consumer.poll_once()
    assert scene.client.acts
    assert consumer.reasons() == []


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_only_faults_expires_and_says_whose_fault_it_was(
    scene: ConsumerScene, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    consumer = begun(scene, name)
    monkeypatch.setattr(scene.client, "pod", raising(TypeError("no number")))
    assert consumer.poll_once() == 0
    for minutes in (11, 20):  # void, and then no longer followed
        scene.tick(scene.cluster.now + timedelta(minutes=minutes))
        consumer.poll_once()
    (outcome,) = scene.outcomes()
    assert outcome.result is Result.EXPIRED
    assert "a fault of Ullage's own" in outcome.reason


@pytest.mark.parametrize("name", PLANS)
def test_some_in_a_row_end_the_consumer(scene: ConsumerScene, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    consumer = begun(scene, name)
    monkeypatch.setattr(scene.client, PLANS[name][2], raising(TypeError("no number")))
    for count in range(1, MOST_IN_A_ROW):
        consumer.poll_once()
        scene.tick(scene.cluster.now + timedelta(seconds=11 * count))
    with pytest.raises(TooManyFaultsError, match=r"5 faults in a row, so the \w+ ends"):
        consumer.poll_once()
    assert scene.outcomes() == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_pass_over_an_ehpa_that_faults_writes_no_outcome_and_some_end_the_consumer(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    site = Site()
    consumer = site.consumer()
    monkeypatch.setattr(consumer._reconciler, "run_pass", raising(fault))
    for _ in range(MOST_IN_A_ROW - 1):
        consumer.poll_once()
        consumer._due = dict.fromkeys(consumer._due, float("-inf"))
    assert any("a fault of Ullage's own while looking at" in reason for reason in consumer.reasons())
    with pytest.raises(TooManyFaultsError):
        consumer.poll_once()
    assert site.events("outcomes") == []


class CountingScene(AdmissionScene):
    """A scene that counts no steps."""

    def step(self, _name: str, _seconds: float) -> None:
        """Nobody asks."""

    def looked_up(self, _result: str) -> None:
        """Nobody asks."""


def test_a_review_that_faults_lets_the_pod_through_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = CountingScene()
    scene.view.catch_up()
    before = own_faults.TOTALS["webhook"]
    with serving(scene.admission, scene) as server:
        to, body = connect(server.port), json.dumps(admission_manifests.review(scene.pod())).encode()
        with monkeypatch.context() as broken:
            broken.setattr(scene.admission, "judge", raising(TypeError("no number")))
            status, answer = ask(to, body)
        assert (status, json.loads(answer)["response"]["allowed"]) == (200, True)
        assert own_faults.TOTALS["webhook"] == before + 1


def test_reviews_that_only_fault_end_the_webhook() -> None:
    scene, faults = CountingScene(), OwnFaults("webhook", 3)
    endpoint = ReviewEndpoint(scene.admission, ControllerLookups.__new__(ControllerLookups), scene, faults=faults)
    for _ in range(3):
        endpoint._faulty(TypeError("no number"), b"{}", 0.0)
    assert faults.too_many
    assert "a fault of Ullage's own while judging a review" in faults.reasons()[0]


def test_a_question_for_a_metric_that_faults_is_counted_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with scene_in_a_folder() as scene, scene.serving() as server:
        scene.view.catch_up()
        asker, path = scene.connect(server), question("x", selector())
        with monkeypatch.context() as broken:
            broken.setattr(scene.served, "answer", raising(TypeError("no number")))
            assert asker.ask(path)[0] == 500
        assert "TypeError: no number" in server.faults.reasons()[0]
        assert scene.connect(server).ask(path)[0] == 404
        assert server.faults.reasons() == []
