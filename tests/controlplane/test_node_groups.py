"""Node groups on a real control plane with kwok's nodes and moto's AWS: a group grows for waiting pods, and nodes go one by one.

What a cloud does in between is played here: an instance becomes a Node object, and a Node whose instance ended is deleted. The
consumer dies at another call in each round.
"""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleUpPlanned
from schemas.names import PodName
from schemas.outcomes import ActionFinished
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.codec.event_codec import Codec
from streams.consumers.nodes import removal_marks
from streams.consumers.nodes.asg_consumer import asg_consumer
from streams.consumers.nodes.buffer_status import CapacityBufferClient
from streams.consumers.nodes.node_removal import NodeWorld, RemovalOptions
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.world import World
from tests.support import ticks
from tests.support.asg_scene import Killed, Mortal
from tests.support.attested_plans import of_a_turn, with_attestations
from tests.support.aws_double import ZONES, AwsDouble, aws, aws_server

__all__ = ["aws", "aws_server"]
CLUSTER = "real"


class GroupScene:
    """A group `pool`, the cloud between it and the cluster, and a log in memory in mode apply."""

    def __init__(self, plane: Plane, world: World, aws: AwsDouble) -> None:
        self.world, self.aws = world, aws
        self.client, self.buffers = NodeDrainClient(Api(plane.api_client())), CapacityBufferClient(Api(plane.api_client()))
        self.topics, self.log = Topics(partitions=1), MemoryLog()
        self.codec = Codec(self.topics)
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), 1)
        self.calls, self.fuse, self.after = 0, None, True
        self.nodes: dict[str, str] = {}
        self.deaths = 0
        self._ahead = timedelta()
        self.tick()
        self.publish(ControlChanged(datetime.now(UTC), CLUSTER, Mode.APPLY), "control")

    def tick(self) -> None:
        """Event time runs ahead, so that no pause between two tries is waited for."""
        self._ahead += timedelta(seconds=10)
        self.at = datetime.now(UTC) + self._ahead
        ticks.append(self.log, self.topics, int(self.at.timestamp() * 1000))

    def publish(self, event: Event, topic: str) -> None:
        record = self.codec.encode(of_a_turn(event), topic=topic, key=CLUSTER, partition=0, source="/test")
        self.log.append(with_attestations([record], self.topics))

    def cloud(self) -> None:
        """New instances become nodes, and nodes whose instances ended are deleted."""
        present = self.aws.instances("pool")
        for instance in present:
            if instance not in self.nodes:
                labels = {"pool": self.world.namespace}
                (name,) = self.world.add_nodes(1, cpu="1", labels=labels)
                self.world.ask.patch(f"/api/v1/nodes/{name}", {"spec": {"providerID": f"aws:///{ZONES[0]}/{instance}"}})
                self.nodes[instance] = name
        for instance in set(self.nodes) - set(present):
            name = self.nodes.pop(instance)
            self.world.ask.delete(f"/api/v1/nodes/{name}")
            self.world._nodes.remove(name)

    def act(self, rounds: int = 120) -> ActionFinished:
        """Processes follow one another, each dying at another call, until there is one more outcome."""
        before = len(self.outcomes())
        for fuse in itertools.islice(itertools.cycle(range(1, 14)), rounds):
            context = LogContext(self.log, self.topics, Codec(self.topics), CLUSTER)
            parts = (Mortal(part, self) for part in (self.aws.client(), self.client, self.buffers))
            world = NodeWorld(*parts, lambda: datetime.now(UTC))  # type: ignore[arg-type]
            self.calls, self.fuse, self.after = 0, fuse, bool(fuse % 2)
            try:
                asg_consumer(context, world, RemovalOptions(delay=Seconds(0.0))).poll_once()
            except Killed:
                self.deaths += 1
            self.tick()
            if len(self.outcomes()) > before:
                return self.outcomes()[-1]
        pytest.fail(f"no outcome after {rounds} processes")

    def grow(self, before: int, after: int) -> ActionFinished:
        end = self.at + timedelta(hours=5)
        self.publish(
            ScaleUpPlanned(f"up-{after}", self.at, end, CLUSTER, "pool", before, after, 2, (), "least-waste", {}), "node-updates"
        )
        return self.act()

    def remove(self, instance: str, identifier: str = "down", within: timedelta = timedelta(hours=5)) -> ActionFinished:
        name = self.nodes[instance]
        node = self.world.ask.get(f"/api/v1/nodes/{name}")
        plan = NodeRemovalPlanned(
            f"{identifier}-{instance}",
            self.at,
            self.at + within,
            CLUSTER,
            name,
            node["metadata"]["uid"],
            node["spec"]["providerID"],
            instance,
            "pool",
            RemovalReason.UNNEEDED,
            tuple(pod.pod for pod in self.client.pods(name) if not pod.stays),
            (),
            Seconds(5.0),
            Seconds(60.0),
            {},
        )
        self.publish(plan, "node-updates")
        return self.act()

    def outcomes(self) -> list[ActionFinished]:
        records = self.log.poll({(self.topics.wire("outcomes"), 0): 0})
        return [event for record in records if isinstance(event := self.codec.decode(record), ActionFinished)]

    def marked(self, name: str) -> bool:
        node = self.world.ask.get(f"/api/v1/nodes/{name}")
        taints = {taint["key"] for taint in node["spec"].get("taints", ())}
        return bool(node["spec"].get("unschedulable") or taints or removal_marks.MARK in node["metadata"]["labels"])

    def pods_by_node(self) -> dict[str, list[PodName]]:
        found: dict[str, list[PodName]] = {}
        for pod in self.world.pods("web"):
            meta = pod["metadata"]
            found.setdefault(pod["spec"].get("nodeName", ""), []).append(PodName(meta["namespace"], meta["name"], meta["uid"]))
        return found


@pytest.fixture
def scene(plane: Plane, world: World, aws: AwsDouble) -> GroupScene:
    return GroupScene(plane, world, aws)


def web(scene: GroupScene, replicas: int) -> None:
    """Pods that only the group's nodes take, one a node."""
    selector: dict[str, Any] = {"nodeSelector": {"pool": scene.world.namespace}}
    scene.world.deployment("web", {"app": {"requests": {"cpu": "600m"}}}, replicas=replicas, spec=selector, wait=False)


def test_a_group_grows_for_waiting_pods_and_its_nodes_go_one_by_one(scene: GroupScene) -> None:
    scene.aws.group("pool", least=0, most=5)
    web(scene, 3)
    wait_for(lambda: len(scene.pods_by_node().get("", ())) == 3, what="three pods wait")
    grown = scene.grow(0, 3)
    assert (grown.result.value, scene.aws.desired("pool")) == ("done", 3)
    scene.cloud()
    scene.world.running("web", 3)
    scene.world.ask.patch(scene.world.path("deployments", "web"), {"spec": {"replicas": 1}})
    (kept,) = scene.world.running("web", 1)
    wait_for(lambda: len(scene.world.pods("web")) == 1, what="two pods are gone")
    busy = kept["spec"]["nodeName"]
    empty = [instance for instance, name in scene.nodes.items() if name != busy]
    for instance in empty:
        ended = scene.remove(instance)
        assert ended.result.value == "done"
        assert instance not in scene.aws.instances("pool")
        scene.cloud()
    ended = [call["InstanceId"] for call in scene.aws.calls("TerminateInstanceInAutoScalingGroup")]
    assert (ended, scene.aws.desired("pool")) == (empty, 1)
    assert not scene.marked(busy)
    assert [pod["metadata"]["uid"] for pod in scene.world.running("web", 1)] == [kept["metadata"]["uid"]]
    assert scene.deaths > 5


def test_a_node_with_pods_is_drained_and_what_a_budget_protects_keeps_its_node(scene: GroupScene) -> None:
    first, _ = scene.aws.group("pool", least=0, most=5, desired=2)
    scene.cloud()
    web(scene, 2)
    scene.world.running("web", 2)
    scene.world.budget("web", minAvailable=2)
    on_first = scene.nodes[first]
    drained = scene.pods_by_node()[on_first]
    refused = scene.remove(first, "early", within=timedelta(seconds=100))
    assert refused.result.value == "expired"
    assert not scene.marked(on_first)
    assert scene.pods_by_node()[on_first] == drained
    scene.world.ask.patch(scene.world.path("poddisruptionbudgets", "web"), {"spec": {"minAvailable": 1}}, kind="merge")
    path = scene.world.path("poddisruptionbudgets", "web")
    wait_for(lambda: scene.world.ask.get(path)["status"]["disruptionsAllowed"] == 1, what="the budget has room")
    assert scene.remove(first).result.value == "done"
    assert scene.aws.desired("pool") == 1
    assert drained[0].uid not in {pod.uid for pods in scene.pods_by_node().values() for pod in pods}
