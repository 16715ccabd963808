"""CapacityBuffers on a real API server: from the object to a plan for a group, and to the status that the server shows."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.catalogue import Event
from schemas.decisions.node_updates import BufferStatusPlanned
from schemas.facts.nodes import CapacityBufferGone, CapacityBufferSeen
from schemas.outcomes import ActionFinished
from schemas.policies.control import ControlChanged, Mode
from streams.clients.kube.api import Api
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.consumers.nodes.asg_consumer import asg_consumer
from streams.consumers.nodes.buffer_status import CapacityBufferClient
from streams.consumers.nodes.node_removal import NodeWorld
from tests.controlplane import capacity_buffer_type
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.watched_nodes import WatchedNodes
from tests.controlplane.world import World
from tests.support import ticks
from tests.support.node_scene import CLUSTER, ScalerRun, group

BUFFERS = "/apis/autoscaling.x-k8s.io/v1beta1"
TEMPLATE = {"metadata": {"labels": {"app": "spare"}}, "spec": {"nodeSelector": {"group": "a"}, "containers": []}}


def template(cpu: str) -> dict[str, Any]:
    container = {"name": "app", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": "small"}, "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "containers": [container]}}}


class BufferScene(WatchedNodes):
    """A log in memory, the kube source that writes into it, and the real stage and consumer that are fed from it."""

    def __init__(self, plane: Plane, world: World) -> None:
        super().__init__(plane, world)
        self.run, self.taken, self.carried = ScalerRun(group("a")), 0, 0
        api = Api(plane.api_client())
        world_of_nodes = NodeWorld(None, NodeDrainClient(api), CapacityBufferClient(api), self.now)  # type: ignore[arg-type]  # no AWS is asked
        self.consumer = asg_consumer(self.context, world_of_nodes)
        self.publish(ControlChanged(self.now(), CLUSTER, Mode.APPLY), "control")

    def events(self, topic: str) -> list[Event]:
        records = self.log.poll({(self.topics.wire(topic), 0): 0}, limit=1_000_000)
        return [self.codec.decode(record) for record in records]

    def turn(self) -> None:
        """The stage takes in what came, and the consumer carries out what it decided."""
        facts = self.events("scheduling-changes")
        self.run.step(*facts[self.taken :])
        self.taken = len(facts)
        plans = self.run.of(BufferStatusPlanned)
        for plan in plans[self.carried :]:
            at = datetime.now(UTC)
            self.publish(_at(plan, at), "node-updates")
        self.carried = len(plans)
        ticks.append(self.log, self.topics, int(time.time() * 1000))
        self.consumer.poll_once()
        outcomes = [event for event in self.events("outcomes") if isinstance(event, ActionFinished)]
        self.run.step(*outcomes)

    def status(self) -> Any:
        self.turn()
        return self.plane.ask.get(f"{BUFFERS}/namespaces/{self.world.namespace}/capacitybuffers/room").get("status", {})


def _at(plan: BufferStatusPlanned, at: datetime) -> BufferStatusPlanned:
    """The stage's time is made up, the consumer's is real."""
    return replace(plan, at=at, expires=at + timedelta(minutes=2), because={})


@pytest.fixture
def installed(plane: Plane) -> Iterator[None]:
    capacity_buffer_type.install(plane)
    yield
    capacity_buffer_type.remove(plane)


def test_a_deployment_that_never_had_a_pod_shows_by_its_template_what_room_it_needs(
    plane: Plane,
    world: World,
    installed: None,  # noqa: ARG001  # the type
) -> None:
    scene, path = BufferScene(plane, world), f"{BUFFERS}/namespaces/{world.namespace}/capacitybuffers"
    pod = {"metadata": {"labels": {"app": "idle"}}, "spec": template("1500m")["template"]["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "idle"}}, "template": pod}
    plane.ask.post(world.path("deployments"), {"metadata": {"name": "idle"}, "spec": spec})
    with scene.watching():
        kind = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer"}
        like = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "idle"}, "replicas": 3}
        plane.ask.post(path, {**kind, "metadata": {"name": "room"}, "spec": like})
        wait_for(lambda: scene.status().get("replicas") == 3, what="its status says for how many pods there is room")
        wait_for(lambda: scene.turn() or scene.run.grown, what="the group grows")
        assert scene.run.grown == [("a", 0, 2)]
        plane.ask.delete(f"{path}/room")


def test_without_the_type_the_source_sees_everything_that_there_is(plane: Plane, world: World) -> None:
    with BufferScene(plane, world).watching() as threads:
        assert "scheduling-changes" in threads.sync_status.synced_topics()


def test_a_buffer_lets_a_group_grow_and_its_status_says_for_how_many_pods(
    plane: Plane,
    world: World,
    installed: None,  # noqa: ARG001  # the type
) -> None:
    scene, path = BufferScene(plane, world), f"{BUFFERS}/namespaces/{world.namespace}/capacitybuffers"
    with scene.watching():
        kind = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer"}
        plane.ask.post(path, {**kind, "metadata": {"name": "room"}, "spec": {"podTemplateRef": {"name": "small"}, "replicas": 5}})
        wait_for(lambda: scene.status().get("conditions"), what="its status says what is missing")
        ready = {one["type"]: one for one in scene.status()["conditions"]}["ReadyForProvisioning"]
        assert (ready["status"], ready["message"]) == (
            "False",
            f"there is no PodTemplate 'small' in namespace '{world.namespace}'",
        )
        assert scene.run.grown == []
        plane.ask.post(world.path("podtemplates"), template("1500m"))
        wait_for(lambda: scene.status().get("replicas") == 5, what="its status says for how many pods there is room")
        wait_for(lambda: scene.turn() or scene.run.grown, what="the group grows")
        assert scene.run.grown == [("a", 0, 3)]
        status = scene.status()
        assert (status["podTemplateRef"], status["podTemplateGeneration"]) == ({"name": "small"}, 1)
        assert {one["type"]: one["status"] for one in status["conditions"]} == {
            "ReadyForProvisioning": "True",
            "LimitedByQuotas": "False",
            "Provisioning": "True",
        }
        written = len(scene.run.of(BufferStatusPlanned))
        for _ in range(50):
            scene.turn()
        assert len(scene.run.of(BufferStatusPlanned)) == written, "what the server shows is what was decided"
        quota = {"metadata": {"name": "tight"}, "spec": {"hard": {"requests.cpu": "4"}}}
        plane.ask.post(world.path("resourcequotas"), quota)
        wait_for(lambda: scene.status().get("replicas") == 2, what="the quota has room for two of five")
        [limited] = [one for one in scene.status()["conditions"] if one["type"] == "LimitedByQuotas"]
        assert (limited["status"], limited["message"]) == ("True", "room for 2 of 5, by ResourceQuota 'tight'")
        plane.ask.delete(f"{path}/room")
        wait_for(lambda: any(isinstance(one, CapacityBufferGone) for one in scene.events("scheduling-changes")))
    assert any(
        isinstance(one, CapacityBufferSeen) and one.shown and one.shown.ready for one in scene.events("scheduling-changes")
    )
