"""Groups on the real scheduler, kwok's nodes and moto's AWS, for tests that let them grow and shrink.

Both sources, the stage and the consumer are the real ones. Time is the stage's own: ten seconds pass in each step, whatever it
takes, and AWS dates its activities by it. What a cloud does in between is played here: an instance becomes a Node object, and a
Node whose instance ended is deleted.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agents.processes.source_asg import node_template
from schemas.catalogue import Event
from schemas.decisions.plan_attestations import PLANS
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.consumers.nodes.asg_consumer import asg_consumer
from streams.consumers.nodes.buffer_status import CapacityBufferClient
from streams.consumers.nodes.node_removal import NodeWorld, RemovalOptions
from streams.sources.asg.asg_source import AsgSource, GroupSelection
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.watched_nodes import WatchedNodes
from tests.controlplane.world import World
from tests.support import ticks
from tests.support.aws_double import ZONES, AwsDouble
from tests.support.node_scene import CLUSTER, ScalerRun

STEP = 10
"""Seconds that pass in one step."""
ENABLED, LABEL = "k8s.io/cluster-autoscaler/enabled", "k8s.io/cluster-autoscaler/node-template/label/pool"
DEVICE, DRIVER = "nvidia.com/gpu", 60_000
"""The resource of a device, and the milliseconds after which its driver is at work on a new node."""
CORES, DEVICES = {"m5.large": 2, "c5.large": 2, "c5.xlarge": 4, "p3.8xlarge": 32}, {"p3.8xlarge": 4}
FACTS = ("scheduling-changes", "node-group-changes", "outcomes")


class GroupScene(WatchedNodes):
    """Groups, the cloud between them and the cluster, a log in memory, and everything that reads and writes it."""

    def __init__(self, plane: Plane, world: World, aws: AwsDouble, groups: tuple[str, ...], **fits: int) -> None:
        """`fits`: by the type of an instance, with `_` for its dot, how many pods of its group a node takes; else one."""
        super().__init__(plane, world)
        self.aws, self.fits = aws, {name.replace("_", "."): number for name, number in fits.items()}
        self.run = ScalerRun(tick=STEP * 1000)
        self.run.now = int(datetime.now(UTC).timestamp() * 1000)
        self.taken, self.carried = dict.fromkeys(FACTS, 0), 0
        self.nodes: dict[str, str] = {}
        self.joined: dict[str, int] = {}
        """When each node came, while it may still lack its devices."""
        self.sizes: dict[str, list[int]] = {name: [] for name in groups}
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

    def group(self, name: str, requests: Mapping[str, str], **more: Any) -> None:
        """A group, and a Deployment without replicas whose pods only its nodes take."""
        self.aws.group(name, most=6, tags={ENABLED: "", LABEL: self.pool(name)}, **more)
        spec = {"nodeSelector": {"pool": self.pool(name)}}
        amounts = {"requests": requests, "limits": {key: text for key, text in requests.items() if "/" in key}}
        self.world.deployment(name, {"app": amounts}, replicas=0, spec=spec, wait=False)

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
            pods, room = self.pods(group), sum(self._room(group, there) for there in self.aws.instances(group))
            if sum("nodeName" in pod["spec"] for pod in pods) < min(len(pods), room):
                return False
        return True

    def _room(self, group: str, instance: str) -> int:
        instance_type = self.aws.type_of(group, instance)
        waits = instance_type in DEVICES and self.nodes.get(instance) in self.joined
        return 0 if instance not in self.nodes or waits else self.fits.get(instance_type, 1)

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
                cpu = str(CORES[self.aws.type_of(group, instance)])
                (name,) = self.world.add_nodes(1, cpu=cpu, memory="4Gi", labels={"pool": self.pool(group)})
                self.world.ask.patch(f"/api/v1/nodes/{name}", {"spec": {"providerID": f"aws:///{ZONES[0]}/{instance}"}})
                self.nodes[instance] = name
                self.joined[name] = self.run.now
        drivers = self._devices({self.nodes[one]: self.aws.type_of(group, one) for one, group in present.items()})
        if drivers or set(present) - before:
            wait_for(self._placed, what="pods are on the new nodes")
        for instance in set(self.nodes) - set(present):
            name = self.nodes.pop(instance)
            self.world.ask.delete(f"/api/v1/nodes/{name}")
            self.world._nodes.remove(name)

    def _devices(self, types: Mapping[str, str]) -> list[str]:
        """The nodes whose drivers are at work from now on, which takes its time on a new one."""
        ready = [name for name, began in self.joined.items() if name in types and began + DRIVER <= self.run.now]
        for name in ready:
            del self.joined[name]
            if (instance_type := types[name]) in DEVICES:
                amounts = {DEVICE: str(DEVICES[instance_type])}
                status = {"capacity": amounts, "allocatable": amounts}
                self.world.ask.patch(f"/api/v1/nodes/{name}/status", {"status": status})
        return ready

    def until_placed(self, group: str, replicas: int, *, within: float) -> None:
        """Let time pass until so many pods of a group run and, for none, until it has no node."""
        for _ in range(int(within / STEP)):
            self.step()
            pods = self.pods(group)
            running = sum(pod["status"].get("phase") == "Running" for pod in pods)
            if running == len(pods) == replicas and (replicas or not self.aws.instances(group)):
                return
        pytest.fail(f"'{group}' does not serve {replicas} pods after {within:.0f} s: it wants {self.sizes[group][-1]} nodes")

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
