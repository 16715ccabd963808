"""What the cluster refuses or leaves unanswered: given up, or tried again until the decision expires."""

from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.names import Amounts
from schemas.outcomes import OutcomeDetail, Result
from schemas.units import Bytes, Seconds
from streams.clients.cluster_port import Pod
from streams.consumers.evictor import evictor
from streams.consumers.resizer import resizer
from streams.errors import Unreachable
from tests.support.consumer_scene import START, ConsumerScene, CountingClient, eviction_of, resize_of, scene_at_two


@pytest.fixture
def scene() -> ConsumerScene:
    return scene_at_two()


def test_what_the_cluster_will_never_do_has_failed(scene: ConsumerScene) -> None:
    plan = replace(resize_of(scene.pod("cart")), requests={"cart": Amounts(memory=Bytes(1 << 30))})
    scene.plan(plan)
    resizer(scene.context, scene.client).poll_once()
    (outcome,) = scene.outcomes()
    assert outcome.result is Result.FAILED
    assert outcome.reason.startswith(f"resizing 'shop/{plan.pod.name}' did not work: 422 ")


def test_a_used_up_budget_is_tried_again_after_the_delay_and_then_done(scene: ConsumerScene) -> None:
    pods = [p for p in scene.client.pods() if p.workload.name == "web"]
    for pod in pods[:3]:
        scene.plan(eviction_of(pod, pod.pod.name))
    consumer = evictor(scene.context, scene.client)
    assert consumer.poll_once() == 2
    assert consumer.poll_once() == 0
    assert len(scene.client.acts) == 3
    scene.cluster.advance(scene.cluster.now + timedelta(minutes=1))
    scene.tick(START + timedelta(hours=2, seconds=9))
    assert consumer.poll_once() == 0
    assert len(scene.client.acts) == 3
    scene.tick(START + timedelta(hours=2, seconds=10))
    assert consumer.poll_once() == 1
    assert [o.result for o in scene.outcomes()] == [Result.DONE] * 3


def test_trying_again_ends_with_the_decision_and_the_outcome_says_what_was_answered(scene: ConsumerScene) -> None:
    pods = [p for p in scene.client.pods() if p.workload.name == "web"]
    for pod in pods[:3]:
        scene.plan(eviction_of(pod, pod.pod.name))
    consumer = evictor(scene.context, scene.client)
    consumer.poll_once()
    scene.tick(START + timedelta(hours=3))
    consumer.poll_once()
    last = scene.outcomes()[-1]
    assert last.result is Result.EXPIRED
    assert "6 pods must stay ready" in last.reason


class SilentClient(CountingClient):
    """The simulated cluster; while `silent` it does not answer, and each question is counted."""

    silent = True
    asked = 0

    def pod(self, namespace: str, name: str) -> Pod | None:
        self.asked += 1
        if self.silent:
            raise Unreachable(doing="reading pod", to=name, answer="timed out", after=Seconds(10.0))
        return super().pod(namespace, name)


def test_a_cluster_that_does_not_answer_is_asked_once_and_everything_waits(scene: ConsumerScene) -> None:
    for pod in [p for p in scene.client.pods() if p.workload.name == "reports"]:
        scene.plan(eviction_of(pod, pod.pod.name))
    client = SilentClient(scene.cluster)
    consumer = evictor(scene.context, client)
    assert [consumer.poll_once() for _ in range(5)] == [0] * 5
    assert client.asked == 1
    scene.tick(START + timedelta(hours=2, seconds=10))
    consumer.poll_once()
    assert client.asked == 2
    client.silent = False
    scene.tick(START + timedelta(hours=2, seconds=20))
    assert consumer.poll_once() == 3
    assert [o.result for o in scene.outcomes()] == [Result.DONE] * 3


def test_while_a_cluster_does_not_answer_what_was_certainly_not_done_expires_and_the_rest_waits(scene: ConsumerScene) -> None:
    client = SilentClient(scene.cluster)
    consumer = evictor(scene.context, client)
    consumer.poll_once()
    for pod in [p for p in scene.client.pods() if p.workload.name == "reports"]:
        scene.plan(eviction_of(pod, pod.pod.name))
    consumer.poll_once()
    scene.tick(START + timedelta(hours=3))
    assert consumer.poll_once() == 2
    assert {o.result for o in scene.outcomes()} == {Result.EXPIRED}
    assert consumer.poll_once() == 0
    client.silent = False
    scene.tick(START + timedelta(hours=3, minutes=1))
    assert consumer.poll_once() == 1
    assert [o.result for o in scene.outcomes()] == [Result.EXPIRED] * 3
    assert all(o.reason.endswith("did not work: timed out") for o in scene.outcomes())


def test_what_a_budget_refused_to_the_end_says_so_to_programs_too(scene: ConsumerScene) -> None:
    pods = [p for p in scene.client.pods() if p.workload.name == "web"]
    for pod in pods[:3]:
        scene.plan(eviction_of(pod, pod.pod.name))
    consumer = evictor(scene.context, scene.client)
    consumer.poll_once()
    scene.tick(START + timedelta(hours=3))
    consumer.poll_once()
    accepted = (Result.DONE, OutcomeDetail.APPLIED)
    found = [(o.result, o.detail) for o in scene.outcomes()]
    assert found == [accepted, accepted, (Result.EXPIRED, OutcomeDetail.BUDGET)]
