"""Five groups on the real scheduler, kwok's nodes and moto's AWS: one has no capacity for an hour, the others grow and shrink.

Both sources, the stage and the consumer are the real ones. Time is the stage's own: ten seconds pass in each step, whatever it
takes, and AWS dates its activities by it. What a cloud does in between is played here: an instance becomes a Node object, and a
Node whose instance ended is deleted.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agents.processes.source_asg import node_template
from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeScalingHalted, ScaleRefused
from schemas.decisions.plan_attestations import PLANS
from schemas.decisions.scale_refusal_codes import PODS_WAIT, RefusalCode
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.capacity_buffer_client import CapacityBufferClient
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.consumers.nodes.asg_consumer import asg_consumer
from streams.consumers.nodes.node_removal import RemovalOptions
from streams.consumers.nodes.node_world import NodeWorld
from streams.sources.asg.asg_source import AsgSource, GroupSelection
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.watched_nodes import WatchedNodes
from tests.controlplane.world import World
from tests.support import ticks
from tests.support.aws_double import ZONES, AwsDouble, aws, aws_server
from tests.support.node_scene import CLUSTER, ScalerRun

__all__ = ["aws", "aws_server"]
STEP = 10
"""Seconds that pass in one step."""
SHORT, OTHERS = "g0", ("g1", "g2", "g3", "g4")
NO_CAPACITY = (
    f"We currently do not have sufficient m5.large capacity in the Availability Zone you requested ({ZONES[0]}). "
    "Launching EC2 instance failed."
)
ENABLED, LABEL = "k8s.io/cluster-autoscaler/enabled", "k8s.io/cluster-autoscaler/node-template/label/pool"
FACTS = ("scheduling-changes", "node-group-changes", "outcomes")


class FiveGroups(WatchedNodes):
    """Groups, the cloud between them and the cluster, a log in memory, and everything that reads and writes it."""

    def __init__(self, plane: Plane, world: World, aws: AwsDouble) -> None:
        super().__init__(plane, world)
        self.aws = aws
        self.run = ScalerRun(tick=STEP * 1000)
        self.run.now = int(datetime.now(UTC).timestamp() * 1000)
        self.taken, self.carried = dict.fromkeys(FACTS, 0), 0
        self.nodes: dict[str, str] = {}
        self.sizes: dict[str, list[int]] = {name: [] for name in (SHORT, *OTHERS)}
        """How many nodes each group wanted after each step."""
        self.source = AsgSource(aws.client(), self.context, GroupSelection(tags={ENABLED: ""}), node_template)
        api = Api(plane.api_client())
        nodes = NodeWorld(aws.client(), NodeDrainClient(api), CapacityBufferClient(api), self.now)
        self.consumer = asg_consumer(self.context, nodes, RemovalOptions(delay=Seconds(0.0)))
        self.publish(ControlChanged(self.now(), CLUSTER, Mode.APPLY), "control")

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.run.now / 1000, UTC)

    @property
    def ahead(self) -> timedelta:
        return self.now() - datetime.now(UTC)

    def pool(self, group: str) -> str:
        return f"{self.world.namespace}-{group}"

    def open(self) -> None:
        """The groups, and a Deployment for each, of pods that only its nodes take, one a node."""
        templates = {name: self.aws.template(f"of-{name}", name) for name in ("m5.large", "c5.large")}
        for group in (SHORT, *OTHERS):
            template = templates["m5.large" if group == SHORT else "c5.large"]  # a lack of capacity is one of the type
            self.aws.group(group, most=6, tags={ENABLED: "", LABEL: self.pool(group)}, template=template)
            selector = {"nodeSelector": {"pool": self.pool(group)}}
            self.world.deployment(group, {"app": {"requests": {"cpu": "1200m"}}}, replicas=0, spec=selector, wait=False)

    def scale(self, replicas: int, *groups: str) -> None:
        for group in groups:
            self.world.ask.patch(self.world.path("deployments", group), {"spec": {"replicas": replicas}})
        wait_for(lambda: all(len(self.pods(group)) == replicas for group in groups), what=f"{replicas} pods of each of {groups}")
        wait_for(lambda: all(map(_looked_at, [pod for group in groups for pod in self.pods(group)])), what="the scheduler's look")

    def pods(self, group: str) -> list[Any]:
        return [pod for pod in self.world.pods(group) if "deletionTimestamp" not in pod["metadata"]]

    def _placed(self) -> bool:
        """Whether the scheduler has used the nodes that there are."""
        for group in self.sizes:
            pods, nodes = self.pods(group), sum(there in self.nodes for there in self.aws.instances(group))
            if sum("nodeName" in pod["spec"] for pod in pods) < min(len(pods), nodes):
                return False
        return True

    def served(self, replicas: int, *groups: str) -> bool:
        """Whether each has so many pods, all at work, and as many nodes."""
        for group in groups:
            pods = self.pods(group)
            if len(pods) != replicas or any(pod["status"].get("phase") != "Running" for pod in pods):
                return False
            if self.aws.desired(group) != replicas:
                return False
        return True

    def step(self) -> None:
        """Ten seconds pass."""
        self._cloud()
        self.source.poll(self.now())
        events: list[Event] = []
        for topic in FACTS:
            records = self.log.poll({(self.topics.wire(topic), 0): self.taken[topic]}, limit=1_000_000)
            self.taken[topic] += len(records)
            events += [self.codec.decode(record) for record in records]
        self.run.step(*events)
        for decision in self.run.decided[self.carried :]:
            if isinstance(decision, PLANS):
                self.publish(decision, "node-updates")
        self.carried = len(self.run.decided)
        ticks.append(self.log, self.topics, self.run.now)
        self.consumer.poll_once()
        for group, sizes in self.sizes.items():
            sizes.append(self.aws.desired(group))

    def _cloud(self) -> None:
        present = {instance: group for group in self.sizes for instance in self.aws.instances(group)}
        before = set(self.nodes)
        for instance, group in present.items():
            if instance not in self.nodes:
                (name,) = self.world.add_nodes(1, cpu="2", memory="4Gi", labels={"pool": self.pool(group)})
                self.world.ask.patch(f"/api/v1/nodes/{name}", {"spec": {"providerID": f"aws:///{ZONES[0]}/{instance}"}})
                self.nodes[instance] = name
        if set(present) - before:
            wait_for(self._placed, what="pods are on the new nodes")
        for instance in set(self.nodes) - set(present):
            name = self.nodes.pop(instance)
            self.world.ask.delete(f"/api/v1/nodes/{name}")
            self.world._nodes.remove(name)

    def until(self, replicas: int, *groups: str, within: float) -> None:
        """Let time pass until the groups serve so many pods."""
        for _ in range(int(within / STEP)):
            self.step()
            if self.served(replicas, *groups):
                return
        sizes = {group: wanted[-1] for group, wanted in self.sizes.items()}
        pytest.fail(f"{groups} do not serve {replicas} pods each after {within:.0f} s: they want {sizes}")


def _looked_at(pod: Any) -> bool:
    return "nodeName" in pod["spec"] or any(
        condition["type"] == "PodScheduled" for condition in pod["status"].get("conditions", ())
    )


def test_a_shortage_of_an_hour_in_one_of_five_groups_stops_none_of_the_others(
    plane: Plane, world: World, aws: AwsDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = FiveGroups(plane, world, aws)
    monkeypatch.setattr(aws, "fail", lambda group, message: AwsDouble.fail(aws, group, message, ago=-scene.ahead))
    scene.open()
    aws.lack_capacity(SHORT, NO_CAPACITY)
    with scene.watching():
        began = scene.run.now
        scene.scale(3, SHORT)
        for _ in range(2):
            scene.scale(2, *OTHERS)
            scene.until(2, *OTHERS, within=900.0)
            scene.scale(1, *OTHERS)
            scene.until(1, *OTHERS, within=2400.0)
        while scene.run.now < began + 3_600_000:
            scene.step()
        assert max(scene.sizes[SHORT]) == 3, "three pods want three nodes, however often that failed"
        assert aws.instances(SHORT) == []
        assert scene.served(1, *OTHERS)
        troubles = {(one.group, one.code) for one in scene.run.of(NodeScalingHalted) if one.code}
        assert {group for group, _code in troubles} == {SHORT}
        assert (SHORT, "BackedOff") in troubles
        waiting = [one for one in scene.run.of(ScaleRefused) if one.subject.name.startswith(SHORT) and one.code in PODS_WAIT]
        assert {one.code for one in waiting} == {RefusalCode.NO_GROUP_MAY_GROW}
        aws.deliver(SHORT)
        scene.until(3, SHORT, within=3600.0)
