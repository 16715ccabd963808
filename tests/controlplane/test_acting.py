"""The resizer and the evictor on a real API server: what they ask for, what stands in their way, and what they say of it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.catalogue import Event
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.names import Amounts, PodName, Workload
from schemas.outcomes import ActionFinished, OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Bytes, Cores
from streams.clients.kube.cluster_client import KubernetesClient
from streams.codec.event_codec import Codec
from streams.consumers.evictor import evictor
from streams.consumers.executing.executor import Executor
from streams.consumers.resizer import resizer
from streams.errors import TryAgain
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.controlplane import kwok_stages
from tests.controlplane.api_requests import wait_for
from tests.controlplane.world import World
from tests.support import ticks
from tests.support.attested_plans import of_a_turn, with_attestations

CLUSTER, MIB = "real", 1 << 20
BEFORE = Amounts(Cores(0.1), Bytes(64 * MIB))
AFTER = Amounts(Cores(0.2), Bytes(96 * MIB))


class ActingScene:
    """A log in memory in mode apply, with the real time as event time, beside a real cluster."""

    def __init__(self, world: World) -> None:
        self.world, self.topics = world, Topics(partitions=1)
        self.log, self.codec = MemoryLog(), Codec(self.topics)
        self.context = LogContext(self.log, self.topics, self.codec, CLUSTER)
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), 1)
        self.ahead = timedelta()
        self.tick()
        self.publish(ControlChanged(datetime.now(UTC), CLUSTER, Mode.APPLY), "control")

    def tick(self, ahead: timedelta = timedelta()) -> None:
        number = int((datetime.now(UTC) + ahead).timestamp() * 1000)
        ticks.append(self.log, self.topics, number)

    def later(self, consumer: Executor) -> int:
        """Two seconds on, what the consumer finishes."""
        self.ahead += timedelta(seconds=2)
        self.tick(self.ahead)
        return consumer.poll_once()

    def publish(self, event: Event, topic: str) -> None:
        record = self.codec.encode(of_a_turn(event), topic=topic, key=CLUSTER, partition=0, source="/test")
        self.log.append(with_attestations([record], self.topics))

    def resize(self, pod: Any, identifier: str = "r", *, requests: Mapping[str, Amounts], limits: Any = None) -> None:
        at = datetime.now(UTC)
        expect = dict.fromkeys(requests, BEFORE)
        self.publish(
            ResizePlanned(
                identifier, at, at + timedelta(minutes=5), self.workload(), name_of(pod), requests, limits or {}, expect, {}
            ),
            "pod-updates",
        )

    def evict(self, pod: Any, identifier: str = "e") -> None:
        at = datetime.now(UTC)
        plan = EvictionPlanned(identifier, at, at + timedelta(minutes=5), self.workload(), name_of(pod), {"app": BEFORE}, {})
        self.publish(plan, "pod-updates")

    def workload(self) -> Workload:
        return Workload(CLUSTER, self.world.namespace, "Deployment", "web")

    def ended(self) -> list[tuple[Result, OutcomeDetail]]:
        return [(outcome.result, outcome.detail) for outcome in self.outcomes()]

    def outcomes(self) -> Sequence[ActionFinished]:
        records = self.log.poll({(self.topics.wire("outcomes"), 0): 0})
        return [event for record in records if isinstance(event := self.codec.decode(record), ActionFinished)]


def name_of(pod: Any) -> PodName:
    return PodName(pod["metadata"]["namespace"], pod["metadata"]["name"], pod["metadata"]["uid"])


@pytest.fixture
def scene(world: World) -> ActingScene:
    return ActingScene(world)


@pytest.mark.parametrize("changed", [("zebra", "app", "mid"), ("mid", "zebra")])
def test_a_resize_keeps_the_order_of_the_containers(
    scene: ActingScene, client: KubernetesClient, changed: tuple[str, ...]
) -> None:
    small = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    (pod,) = scene.world.deployment("web", {"zebra": small, "app": small, "mid": small})
    scene.resize(pod, requests=dict.fromkeys(changed, AFTER))
    consumer = resizer(scene.context, client)
    assert consumer.poll_once() == 0
    wait_for(lambda: scene.later(consumer), what="the kubelet has put the new amounts into force")
    assert scene.ended() == [(Result.DONE, OutcomeDetail.APPLIED)]
    found = scene.world.ask.get(scene.world.path("pods", pod["metadata"]["name"]))["spec"]["containers"]
    asked = {each["name"]: each["resources"]["requests"]["cpu"] for each in found}
    assert asked == {name: "200m" if name in changed else "100m" for name in ("zebra", "app", "mid")}
    assert [each["name"] for each in found] == ["zebra", "app", "mid"]


def test_a_resize_that_no_node_could_hold_is_infeasible_for_programs(scene: ActingScene, client: KubernetesClient) -> None:
    (pod,) = scene.world.deployment("web")
    scene.resize(pod, requests={"app": Amounts(cpu=Cores(9.0))})
    resizer(scene.context, client).poll_once()
    assert scene.ended() == [(Result.FAILED, OutcomeDetail.INFEASIBLE)]


@pytest.mark.parametrize(
    ("word", "ended"),
    [
        ("Infeasible", (Result.FAILED, OutcomeDetail.INFEASIBLE)),
        ("Deferred", (Result.EXPIRED, OutcomeDetail.DEFERRED)),
        ("Slow", (Result.DONE, OutcomeDetail.APPLIED)),
    ],
)
def test_what_the_kubelet_says_of_a_resize_is_its_outcome(
    scene: ActingScene, client: KubernetesClient, word: str, ended: tuple[Result, OutcomeDetail]
) -> None:
    (pod,) = scene.world.deployment("web", annotations={kwok_stages.RESIZE: word})
    scene.resize(pod, requests={"app": AFTER})
    consumer = resizer(scene.context, client)
    consumer.poll_once()  # the kubelet may have answered by the time of the first look
    states = lambda: [c["type"] for c in scene.world.status_of(pod["metadata"]["name"])["conditions"] if "Resize" in c["type"]]  # noqa: E731
    wait_for(states, what="the kubelet has said something")
    if word == "Deferred":
        scene.ahead = timedelta(minutes=10)
    wait_for(lambda: scene.ended() or scene.later(consumer), what="the resize ended")
    assert scene.ended() == [ended]


def test_an_eviction_that_a_budget_refuses_is_done_once_the_budget_has_room(scene: ActingScene, client: KubernetesClient) -> None:
    first, _ = scene.world.deployment("web", replicas=2)
    scene.world.budget("web", minAvailable=2)
    scene.evict(first)
    consumer = evictor(scene.context, client)
    assert [consumer.poll_once(), consumer.poll_once()] == [0, 0]
    scene.world.ask.patch(scene.world.path("poddisruptionbudgets", "web"), {"spec": {"minAvailable": 1}}, kind="merge")
    path = scene.world.path("poddisruptionbudgets", "web")
    wait_for(lambda: scene.world.ask.get(path)["status"]["disruptionsAllowed"] == 1, what="the budget has room")
    assert consumer.poll_once() == 0
    scene.tick(timedelta(seconds=11))
    assert consumer.poll_once() == 1
    assert scene.ended() == [(Result.DONE, OutcomeDetail.APPLIED)]
    gone = lambda: first["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in scene.world.pods("web")}  # noqa: E731
    wait_for(gone, what="the pod is gone")


def test_an_eviction_that_a_budget_refuses_to_the_end_of_its_plan_expires(scene: ActingScene, client: KubernetesClient) -> None:
    (pod,) = scene.world.deployment("web")
    scene.world.budget("web", minAvailable=1)
    scene.evict(pod)
    consumer = evictor(scene.context, client)
    assert consumer.poll_once() == 0
    scene.tick(timedelta(minutes=6))
    assert consumer.poll_once() == 1
    assert scene.ended() == [(Result.EXPIRED, OutcomeDetail.BUDGET)]


def test_a_pod_of_two_budgets_cannot_be_evicted_and_is_not_tried_again(scene: ActingScene, client: KubernetesClient) -> None:
    (pod,) = scene.world.deployment("web")
    scene.world.budget("web", maxUnavailable=1)
    budgets = scene.world.path("poddisruptionbudgets")
    whole = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
    scene.world.ask.post(budgets, {"metadata": {"name": "second"}, "spec": whole})
    scene.evict(pod)
    assert evictor(scene.context, client).poll_once() == 1
    assert scene.ended() == [(Result.FAILED, OutcomeDetail.SEVERAL_BUDGETS)]


def test_an_eviction_of_a_pod_that_is_gone_is_done_and_its_successor_stays(scene: ActingScene, client: KubernetesClient) -> None:
    (pod,) = scene.world.deployment("web")
    scene.world.ask.delete(scene.world.path("pods", pod["metadata"]["name"]))
    (successor,) = scene.world.running("web", 1)
    scene.evict(pod)
    assert evictor(scene.context, client).poll_once() == 1
    assert scene.ended() == [(Result.DONE, OutcomeDetail.ALREADY_DONE)]
    assert scene.world.running("web", 1)[0]["metadata"]["uid"] == successor["metadata"]["uid"]


def test_a_resize_on_a_pod_that_changed_since_it_was_read_changes_nothing(scene: ActingScene, client: KubernetesClient) -> None:
    (pod,) = scene.world.deployment("web")
    read = client.pod(scene.world.namespace, pod["metadata"]["name"])
    assert read is not None
    client.resize(read, requests={"app": AFTER}, limits={})
    with pytest.raises(TryAgain, match="409"):
        client.resize(read, requests={"app": BEFORE}, limits={})
    now = client.pod(scene.world.namespace, pod["metadata"]["name"])
    assert now is not None
    assert now.asked_requests == {"app": AFTER}
