"""A resize is done when the kubelet has done it: until then it is followed, and what the kubelet says of it is the outcome."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from schemas.facts.pods import ResizeState
from schemas.names import Amounts
from schemas.outcomes import OutcomeDetail, Result
from schemas.units import Bytes, Cores
from streams.clients.cluster_port import Pod, PodUsage
from streams.clients.kube.pod_objects import PodObject, read_pod
from streams.consumers.executing.executor import LOOKS
from streams.consumers.executing.handler import FOLLOWED
from streams.consumers.resizer import resizer
from streams.errors import GiveUp
from streams.simulated.cluster import SimulatedCluster
from tests.support.consumer_scene import MIB, START, ConsumerScene, CountingClient, resize_of, scene_at_two


@pytest.fixture
def scene() -> ConsumerScene:
    return scene_at_two()


class ReportingClient(CountingClient):
    """The kubelet's conditions are those of the test, from the first request on."""

    state, message = ResizeState.NONE, ""

    def pod(self, namespace: str, name: str) -> Pod | None:
        found = super().pod(namespace, name)
        return found and (replace(found, resize=self.state, resize_message=self.message) if self.acts else found)


def ended(scene: ConsumerScene) -> list[tuple[Result, OutcomeDetail]]:
    return [(outcome.result, outcome.detail) for outcome in scene.outcomes()]


@pytest.mark.parametrize(
    ("state", "detail", "says"),
    [
        (ResizeState.INFEASIBLE, OutcomeDetail.INFEASIBLE, "the node could never hold it: no room"),
        (ResizeState.ERROR, OutcomeDetail.NODE_ERROR, "the kubelet could not do it: no room"),
    ],
)
def test_what_the_kubelet_cannot_do_has_failed_in_its_own_words(
    scene: ConsumerScene, state: ResizeState, detail: OutcomeDetail, says: str
) -> None:
    client = ReportingClient(scene.cluster)
    client.state, client.message = state, "no room"
    consumer = resizer(scene.context, client)
    scene.plan(resize_of(scene.pod()))
    assert consumer.poll_once() == 1
    assert (ended(scene), scene.outcomes()[0].reason) == ([(Result.FAILED, detail)], says)
    assert len(client.acts) == 1


def test_what_the_kubelet_defers_is_followed_beyond_the_plan_and_then_said_to_be_deferred(scene: ConsumerScene) -> None:
    client = ReportingClient(scene.cluster)
    client.state, client.message = ResizeState.DEFERRED, "the node is full"
    consumer, plan = resizer(scene.context, client), resize_of(scene.pod())
    scene.plan(plan)
    consumer.poll_once()
    scene.tick(plan.void_after + FOLLOWED)
    assert consumer.poll_once() == 0
    scene.tick(plan.void_after + FOLLOWED + timedelta(seconds=2))
    assert consumer.poll_once() == 1
    assert ended(scene) == [(Result.EXPIRED, OutcomeDetail.DEFERRED)]
    assert scene.outcomes()[0].reason == "it was accepted; the kubelet defers it: the node is full"


def test_a_pod_whose_resize_waits_is_asked_for_what_was_decided_while_it_waited(scene: ConsumerScene) -> None:
    pod, waiting = scene.pod(), {"metrics": Amounts(Cores(99.0), Bytes(600 * MIB))}
    scene.client.resize(pod, requests=waiting, limits={})
    scene.settle()
    now = scene.pod()
    assert (now.resize, now.asked) == (ResizeState.INFEASIBLE, waiting)
    scene.plan(resize_of(now, "blind"))
    scene.plan(replace(resize_of(now, "knowing"), asked=now.asked))
    consumer = resizer(scene.context, scene.client)
    consumer.poll_once()
    scene.settle()
    consumer.poll_once()
    assert ended(scene) == [(Result.REFUSED, OutcomeDetail.MOVED), (Result.DONE, OutcomeDetail.APPLIED)]
    assert scene.outcomes()[0].reason.startswith("it moved: the pod asks for ")
    assert scene.pod().asked == {}


@pytest.mark.parametrize("since", ["void", "paused"])
def test_what_the_kubelet_does_after_the_plan_is_void_or_under_a_pause_is_done(scene: ConsumerScene, since: str) -> None:
    consumer, plan = resizer(scene.context, scene.client), resize_of(scene.pod())
    scene.plan(plan)
    assert consumer.poll_once() == 0
    if since == "paused":
        scene.control(paused=True)
        scene.tick(START + timedelta(hours=2, seconds=4))
    else:
        scene.tick(plan.void_after + timedelta(seconds=4))
    assert consumer.poll_once() == 0
    scene.cluster.advance(START + timedelta(hours=2, minutes=1))
    scene.tick(plan.void_after + timedelta(minutes=2))
    assert consumer.poll_once() == 1
    assert ended(scene) == [(Result.DONE, OutcomeDetail.APPLIED)]


def test_a_pod_that_was_moved_on_by_somebody_else_meanwhile_is_no_longer_followed(scene: ConsumerScene) -> None:
    consumer, pod = resizer(scene.context, scene.client), scene.pod()
    scene.plan(resize_of(pod))
    consumer.poll_once()
    scene.client.resize(scene.pod(), requests={"metrics": Amounts(cpu=Cores(0.7))}, limits={})
    scene.settle()
    assert consumer.poll_once() == 1
    assert ended(scene) == [(Result.REFUSED, OutcomeDetail.MOVED)]


class LookedAt(ReportingClient):
    """Remembers the pods that were asked for."""

    def __init__(self, scene: ConsumerScene) -> None:
        super().__init__(scene.cluster)
        self.asked: list[str] = []

    def pod(self, namespace: str, name: str) -> Pod | None:
        self.asked.append(name)
        return super().pod(namespace, name)


def test_many_deferred_resizes_hold_up_no_new_one_and_cost_a_bounded_number_of_looks(scene: ConsumerScene) -> None:
    client = LookedAt(scene)
    client.state = ResizeState.DEFERRED
    consumer, all_pods = resizer(scene.context, client), scene.client.pods()
    # another request than the limit would change the class of those that have both the same, which the API server refuses
    pods = [pod for pod in all_pods if any(c.requests != c.limits for c in pod.containers)]
    for number, pod in enumerate(pods[:-1]):
        amounts = {c.name: Amounts(cpu=Cores(0.3)) for c in pod.containers}
        scene.plan(replace(resize_of(pod, str(number)), requests=amounts))
    consumer.poll_once()
    assert len(client.acts) == len(pods) - 1 > 3 * LOOKS
    newest = replace(resize_of(pods[-1], "new"), requests={c.name: Amounts() for c in pods[-1].containers})
    scene.plan(newest)
    scene.tick(START + timedelta(hours=2, seconds=4))
    client.asked.clear()
    consumer.poll_once()
    assert client.asked[0] == pods[-1].pod.name
    assert len(client.asked) == 1 + LOOKS
    for _ in range(len(pods) // LOOKS):
        consumer.poll_once()
    assert set(client.asked) == {pod.pod.name for pod in pods}


def test_what_is_deferred_for_long_is_looked_at_less_and_less_often(scene: ConsumerScene) -> None:
    client = LookedAt(scene)
    client.state = ResizeState.DEFERRED
    consumer = resizer(scene.context, client)
    scene.plan(resize_of(scene.pod()))
    looks = []
    for second in range(0, 600, 2):
        client.asked.clear()
        scene.tick(START + timedelta(hours=2, seconds=second))
        consumer.poll_once()
        looks.append(len(client.asked))
    assert sum(looks[:15]) > 10  # each two seconds of the first thirty
    assert sum(looks[-30:]) <= 2  # of the last minute: after nine minutes each 54 seconds


def limited(scene: ConsumerScene, memory: int) -> Pod:
    """The pod, whose limit was raised so far that it can be lowered."""
    pod = scene.pod()
    high = {"metrics": Amounts(Cores(2.0), Bytes(4096 * MIB))}
    scene.client.resize(pod, requests={}, limits=high)
    scene.settle()
    scene.client.acts.clear()
    pod = scene.pod()
    lower = {"metrics": Amounts(memory=Bytes(memory))}
    scene.plan(replace(resize_of(pod), requests=dict(lower), limits=lower))
    return pod


class MeasuredClient(CountingClient):
    used: Mapping[str, Amounts] | None = None

    def pod_usage(self, namespace: str, name: str) -> PodUsage | None:
        if self.used is None:
            raise GiveUp(doing="reading usage of", to=name, answer="404 page not found")
        found = super().pod_usage(namespace, name)
        return found and replace(found, containers=self.used)


@pytest.mark.parametrize(
    ("used", "acts"),
    [({"metrics": Amounts(memory=Bytes(301 * MIB))}, 0), ({"metrics": Amounts(memory=Bytes(300 * MIB))}, 1), (None, 1), ({}, 1)],
    ids=["above", "just below", "nobody measures", "not this container"],
)
def test_no_memory_limit_is_lowered_below_use(scene: ConsumerScene, used: Mapping[str, Amounts] | None, acts: int) -> None:
    pod = limited(scene, 300 * MIB)
    client = MeasuredClient(scene.cluster)
    client.used = used
    resizer(scene.context, client).poll_once()
    assert client.acts == [f"resize {pod.pod.name}"] * acts
    if not acts:
        reason = "container 'metrics' uses 301.0 MiB of memory, and its limit would be lowered to 300.0 MiB"
        assert [(o.result, o.detail, o.reason) for o in scene.outcomes()] == [(Result.REFUSED, OutcomeDetail.BELOW_USE, reason)]


class RestartingClient(MeasuredClient):
    """Each container starts anew when its memory changes."""

    def pod(self, namespace: str, name: str) -> Pod | None:
        found = super().pod(namespace, name)
        return found and replace(found, containers=tuple(replace(c, restarts_on=("memory",)) for c in found.containers))


def test_a_container_that_the_resize_restarts_may_get_less_than_it_uses_now(scene: ConsumerScene) -> None:
    pod = limited(scene, 300 * MIB)
    client = RestartingClient(scene.cluster)
    client.used = {"metrics": Amounts(memory=Bytes(301 * MIB))}
    resizer(scene.context, client).poll_once()
    assert client.acts == [f"resize {pod.pod.name}"]


def test_what_the_kubelet_said_of_an_earlier_request_is_no_answer_to_the_newest() -> None:
    def resized(generation: int) -> ResizeState:
        condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "observedGeneration": 2}
        body = {
            "metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": generation},
            "spec": {"containers": []},
            "status": {"conditions": [condition]},
        }
        return read_pod("c", msgspec.convert(body, PodObject)).resize

    assert (resized(2), resized(3)) == (ResizeState.INFEASIBLE, ResizeState.IN_PROGRESS)


class LateNewsClient(CountingClient):
    """The kubelet is done with a resize right after somebody has looked twice whether it is."""

    looks = 0

    def __init__(self, world: SimulatedCluster) -> None:
        super().__init__(world)
        self.world = world

    def pod(self, namespace: str, name: str) -> Pod | None:
        found = super().pod(namespace, name)
        self.looks += bool(self.acts)
        if self.looks > 1:
            self.world.advance(START + timedelta(hours=2, minutes=1))
        return found


def test_a_later_plan_for_a_pod_waits_until_the_earlier_one_has_its_outcome(scene: ConsumerScene) -> None:
    client = LateNewsClient(scene.cluster)
    consumer, first = resizer(scene.context, client), resize_of(scene.pod())
    scene.plan(first)
    consumer.poll_once()
    more = {name: Amounts(cpu=Cores(0.9)) for name in first.requests}
    scene.plan(replace(first, id="updater/0/2/resize/x", requests=more, expect=first.requests))
    scene.tick(START + timedelta(hours=2, seconds=3))
    assert (consumer.poll_once(), len(client.acts)) == (0, 1)
    scene.tick(START + timedelta(hours=2, seconds=6))
    assert (consumer.poll_once(), consumer.poll_once(), len(client.acts)) == (1, 0, 2)
    assert [(o.decision, o.result) for o in scene.outcomes()] == [(first.id, Result.DONE)]
