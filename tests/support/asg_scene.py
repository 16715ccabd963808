"""A scene for the asg consumer: moto's AWS, a cluster's nodes in memory, a log in memory, and a time that moves by hand.

`NodesInMemory` stands for `NodeDrainClient`; the tests of the control plane put the real one through the same steps.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import msgspec

from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleUpPlanned, SizeCorrectionPlanned
from schemas.names import PodName
from schemas.outcomes import ActionFinished, OutcomeDetail
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Seconds
from schemas.well_known_labels import TO_BE_DELETED
from streams.clients.kube.event_recorder import ObjectEvent
from streams.clients.kube.json_objects import Json
from streams.clients.kube.node_drain_client import DrainableNode, NodePod
from streams.codec.event_codec import Codec
from streams.consumers.executing.executor import Executor
from streams.consumers.nodes import removal_marks
from streams.consumers.nodes.asg_consumer import asg_consumer
from streams.consumers.nodes.buffer_status import BufferMeta, BufferObject
from streams.consumers.nodes.node_removal import NodeWorld, RemovalOptions
from streams.errors import GiveUp, TryAgain
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, Topics
from tests.support import ticks
from tests.support.attested_plans import of_a_turn, with_attestations
from tests.support.aws_double import ZONES, AwsDouble

CLUSTER = "real"
START = datetime(2026, 11, 22, 8, tzinfo=UTC)


class Killed(BaseException):
    """The process ended here."""


class NodesInMemory:
    """Nodes and pods; a pod that is evicted leaves, and is gone with `finish`."""

    def __init__(self) -> None:
        self.nodes: dict[str, DrainableNode] = {}
        self.held: dict[str, list[NodePod]] = {}
        self.protected: set[str] = set()
        """Names of pods whose disruption budget has no room."""
        self.stubborn: set[str] = set()
        """Names of pods that leave and never are gone."""
        self.evictions: list[tuple[str, float]] = []
        self.waiting: dict[str, str] = {}
        """Uids of pods without a node, by namespace and name."""

    def add(self, name: str, instance: str, *pods: NodePod, **more: Any) -> DrainableNode:
        node = DrainableNode(name, f"uid-{name}", "1", f"aws:///{ZONES[0]}/{instance}", **more)
        self.nodes[name], self.held[name] = node, list(pods)
        return node

    def finish(self) -> None:
        for name, pods in self.held.items():
            self.held[name] = [pod for pod in pods if not pod.leaving or pod.pod.name in self.stubborn]

    def node(self, name: str) -> DrainableNode | None:
        return self.nodes.get(name)

    def of_instance(self, instance: str) -> str | None:
        return next((node.name for node in self.nodes.values() if node.provider_id.endswith(f"/{instance}")), None)

    def labelled(self, label: str) -> list[DrainableNode]:
        return [node for node in self.nodes.values() if label in node.labels]

    def change(self, node: DrainableNode, *, metadata: Json, spec: Json) -> None:
        now = self.nodes[node.name]
        if now.version != node.version:
            raise TryAgain(doing="changing node", to=node.name, answer="409 it moved", after=Seconds(1.0))
        self.nodes[node.name] = replace(
            now,
            version=str(int(now.version) + 1),
            labels=_merged(now.labels, metadata.get("labels")),
            annotations=_merged(now.annotations, metadata.get("annotations")),
            taints=tuple(spec["taints"] or ()) if "taints" in spec else now.taints,
            unschedulable=bool(spec["unschedulable"]) if "unschedulable" in spec else now.unschedulable,
        )

    def pods(self, node: str) -> list[NodePod]:
        return list(self.held.get(node, ()))

    def pod_uid(self, namespace: str, name: str) -> str | None:
        return self.waiting.get(f"{namespace}/{name}")

    def evict(self, pod: PodName, grace: Seconds) -> None:
        if pod.name in self.protected:
            said = "429 Cannot evict pod as it would violate the pod's disruption budget."
            raise TryAgain(doing="evicting", to=pod.name, answer=said, after=Seconds(10.0), detail=OutcomeDetail.BUDGET)
        for name, pods in self.held.items():
            for place, one in enumerate(pods):
                if one.pod == pod:
                    self.evictions.append((pod.name, float(grace)))
                    self.held[name][place] = replace(one, leaving=True)
                    return
        raise GiveUp(doing="evicting", to=pod.name, answer="404 not found", detail=OutcomeDetail.NOT_FOUND)


class BuffersInMemory:
    """CapacityBuffers behind the calls of their client; a write is refused unless it names the version that was read."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], BufferObject] = {}

    def put(self, name: str, uid: str = "u1", status: dict[str, object] | None = None) -> None:
        meta = BufferMeta(name, "shop", uid, str(len(self.objects)), 3)
        self.objects["shop", name] = BufferObject(meta, status or {})

    def buffer(self, namespace: str, name: str) -> BufferObject | None:
        return self.objects.get((namespace, name))

    def write(self, read: BufferObject, status: dict[str, Any]) -> None:
        about = read.metadata
        now = self.objects[about.namespace, about.name]
        if now.metadata.resource_version != about.resource_version:
            raise TryAgain(doing="writing", to=about.name, answer="409 conflict", after=Seconds(1.0))
        merged = {name: field for name, field in {**now.status, **status}.items() if field is not None}
        meta = msgspec.structs.replace(about, resource_version=f"{about.resource_version}+")
        self.objects[about.namespace, about.name] = BufferObject(meta, merged)


class NodeScene:
    """Mode apply, one group `pool`, and as many nodes as it has instances."""

    def __init__(self, aws: AwsDouble, *, least: int = 0, desired: int = 2, options: RemovalOptions | None = None) -> None:
        self.aws, self.nodes, self.buffers, self.at = aws, NodesInMemory(), BuffersInMemory(), START
        self.options = options or RemovalOptions()
        self.topics, self.log = Topics(partitions=1), MemoryLog()
        self.codec = Codec(self.topics)
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), 1)
        self.instances = aws.group("pool", least=least, desired=desired)
        self.events: list[ObjectEvent] = []
        self.fuse: int | None = None
        self.after = False
        self.calls = 0
        self.tick()
        self.control(Mode.APPLY)
        self.consumer = self.restarted()

    def restarted(self) -> Executor:
        context = LogContext(self.log, self.topics, Codec(self.topics), CLUSTER)
        parts = (Mortal(self.aws.client(), self), Mortal(self.nodes, self), self.buffers)
        world = NodeWorld(*parts, lambda: self.at, self.events.append)  # type: ignore[arg-type]
        self.consumer = asg_consumer(context, world, self.options)
        return self.consumer

    def control(self, mode: Mode, *, paused: bool = False) -> None:
        self.publish(ControlChanged(self.at, CLUSTER, mode, paused=paused), "control")

    def publish(self, event: Event, topic: str) -> None:
        record = self.codec.encode(of_a_turn(event), topic=topic, key=CLUSTER, partition=0, source="/test")
        self.log.append(with_attestations([record], self.topics))

    def tick(self, seconds: float = 0.0) -> None:
        self.at += timedelta(seconds=seconds)
        ticks.append(self.log, self.topics, int(self.at.timestamp() * 1000))

    def run(self, rounds: int = 40, seconds: float = 1.5) -> None:
        """Let time pass, with pods that end when they were asked to, until nothing is pending or so many rounds have gone by."""
        for _ in range(rounds):
            if self.outcomes():
                return
            self.consumer.poll_once()
            self.nodes.finish()
            self.tick(seconds)

    def grow(self, before: int, after: int, identifier: str = "up") -> None:
        end = self.at + timedelta(minutes=5)
        plan = ScaleUpPlanned(identifier, self.at, end, CLUSTER, "pool", before, after, 3, ("shop/a",), "least-waste", {})
        self.publish(plan, "node-updates")

    def correct(self, before: int, after: int, identifier: str = "correct") -> None:
        end = self.at + timedelta(minutes=5)
        self.publish(SizeCorrectionPlanned(identifier, self.at, end, CLUSTER, "pool", before, after, {}), "node-updates")

    def remove(self, node: str, *, identifier: str = "down", evict: Collection[NodePod] = (), **more: Any) -> NodeRemovalPlanned:
        known = self.nodes.nodes.get(node)
        instance = more.pop("instance", "") or (known.provider_id.rpartition("/")[2] if known else "")
        plan = NodeRemovalPlanned(
            identifier,
            self.at,
            self.at + timedelta(minutes=20),
            CLUSTER,
            node,
            known.uid if known else "",
            f"aws:///{ZONES[0]}/{instance}",
            instance,
            more.pop("group", "pool"),
            more.pop("reason", RemovalReason.UNNEEDED),
            tuple(pod.pod for pod in evict),
            tuple(pod.pod for pod in more.pop("daemons", ())),
            Seconds(more.pop("grace", 60.0)),
            Seconds(more.pop("drain", 120.0)),
            {},
        )
        self.publish(plan, "node-updates")
        return plan

    def outcomes(self) -> list[ActionFinished]:
        records = self.log.poll({(self.topics.wire("outcomes"), 0): 0})
        return [event for record in records if isinstance(event := self.codec.decode(record), ActionFinished)]

    def ended(self) -> list[tuple[str, OutcomeDetail]]:
        return [(outcome.result.value, outcome.detail) for outcome in self.outcomes()]

    def marked(self, name: str) -> bool:
        node = self.nodes.nodes[name]
        keys = {taint["key"] for taint in node.taints}
        return node.unschedulable or bool(keys & {TO_BE_DELETED, removal_marks.MARK}) or removal_marks.MARK in node.labels

    def terminated(self) -> list[str]:
        return [call["InstanceId"] for call in self.aws.calls("TerminateInstanceInAutoScalingGroup")]


class Fused(Protocol):
    """What counts the calls of a process; at call number `fuse` the process ends, before the call or after it."""

    calls: int
    fuse: int | None
    after: bool


class Mortal:
    """Passes calls on; the fuse says at which of them the process ends."""

    def __init__(self, target: Any, scene: "Fused") -> None:
        self._target, self._scene = target, scene

    def __getattr__(self, name: str) -> Any:
        found, scene = getattr(self._target, name), self._scene

        def call(*arguments: Any, **more: Any) -> Any:
            scene.calls += 1
            dies = scene.fuse == scene.calls
            if dies and not scene.after:
                raise Killed
            answer = found(*arguments, **more)
            if dies:
                raise Killed
            return answer

        return call


def pod(name: str, **more: Any) -> NodePod:
    return NodePod(PodName("shop", name, f"uid-{name}"), **more)


def _merged(before: Any, change: Any) -> dict[str, str]:
    merged = {**before, **(change or {})}
    return {key: value for key, value in merged.items() if value is not None}
