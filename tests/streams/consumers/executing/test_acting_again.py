"""What the cluster refuses or leaves unanswered: given up, or tried again until the decision expires."""

from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.names import Amounts
from schemas.outcomes import Result
from schemas.units import Bytes, Seconds
from streams.clients.cluster_port import Pod
from streams.consumers.pods.evictor import evictor
from streams.consumers.pods.resizer import resizer
from streams.errors import Unreachable
from tests.support.consumer_desk import START, CountingClient, Desk, desk_at_two, eviction_of, resize_of


@pytest.fixture
def desk() -> Desk:
    return desk_at_two()


def test_what_the_cluster_will_never_do_has_failed(desk: Desk) -> None:
    plan = replace(resize_of(desk.pod("cart")), requests={"cart": Amounts(memory=Bytes(1 << 30))})
    desk.plan(plan)
    resizer(desk.post, desk.client).poll_once()
    (outcome,) = desk.outcomes()
    assert outcome.result is Result.FAILED
    assert outcome.reason.startswith(f"resizing 'shop/{plan.pod.name}' did not work: 422 ")


def test_a_used_up_budget_is_tried_again_after_the_delay_and_then_done(desk: Desk) -> None:
    pods = [p for p in desk.client.pods() if p.workload.name == "web"]
    for pod in pods[:3]:
        desk.plan(eviction_of(pod, pod.pod.name))
    consumer = evictor(desk.post, desk.client)
    assert consumer.poll_once() == 2
    assert consumer.poll_once() == 0
    assert len(desk.client.acts) == 3
    desk.cluster.advance(desk.cluster.now + timedelta(minutes=1))
    desk.tick(START + timedelta(hours=2, seconds=9))
    assert consumer.poll_once() == 0
    assert len(desk.client.acts) == 3
    desk.tick(START + timedelta(hours=2, seconds=10))
    assert consumer.poll_once() == 1
    assert [o.result for o in desk.outcomes()] == [Result.DONE] * 3


def test_trying_again_ends_with_the_decision_and_the_outcome_says_what_was_answered(desk: Desk) -> None:
    pods = [p for p in desk.client.pods() if p.workload.name == "web"]
    for pod in pods[:3]:
        desk.plan(eviction_of(pod, pod.pod.name))
    consumer = evictor(desk.post, desk.client)
    consumer.poll_once()
    desk.tick(START + timedelta(hours=3))
    consumer.poll_once()
    last = desk.outcomes()[-1]
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


def test_a_cluster_that_does_not_answer_is_asked_once_and_everything_waits(desk: Desk) -> None:
    for pod in [p for p in desk.client.pods() if p.workload.name == "reports"]:
        desk.plan(eviction_of(pod, pod.pod.name))
    client = SilentClient(desk.cluster)
    consumer = evictor(desk.post, client)
    assert [consumer.poll_once() for _ in range(5)] == [0] * 5
    assert client.asked == 1
    desk.tick(START + timedelta(hours=2, seconds=10))
    consumer.poll_once()
    assert client.asked == 2
    client.silent = False
    desk.tick(START + timedelta(hours=2, seconds=20))
    assert consumer.poll_once() == 3
    assert [o.result for o in desk.outcomes()] == [Result.DONE] * 3


def test_while_a_cluster_does_not_answer_decisions_still_expire_and_say_so(desk: Desk) -> None:
    for pod in [p for p in desk.client.pods() if p.workload.name == "reports"]:
        desk.plan(eviction_of(pod, pod.pod.name))
    consumer = evictor(desk.post, SilentClient(desk.cluster))
    consumer.poll_once()
    desk.tick(START + timedelta(hours=3))
    assert consumer.poll_once() == 3
    assert {o.result for o in desk.outcomes()} == {Result.EXPIRED}
    assert all(o.reason.endswith("did not work: timed out") for o in desk.outcomes())
