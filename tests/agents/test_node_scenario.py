"""A day of a small cluster, from its objects to the scaler's plans and back: it grows for what waits and shrinks when load goes.

Pods, nodes and controllers go through the real kube source into the log; the world below stands in for AWS and scheduler.
"""

from datetime import timedelta
from typing import Any

from agents.engine.turn import Recorded, Turn
from agents.logic.nodes.scaler.scaler_stage import Scaler
from agents.logic.nodes.scaler_settings import ScalerSettings
from schemas import times
from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.facts.nodes import NodeGroupSeen, NodeInstanceGone, NodeInstanceSeen, NodeTemplateSeen
from schemas.facts.sources import SourceReported
from schemas.names import Place
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from streams.clients.kube.scheduling_objects import DetailedNodeObject, ScheduledPodObject
from streams.clients.kube.watched_objects import ControllerObject
from streams.codec.event_codec import Codec
from tests.support.kube_objects import CREATED, decoded, meta, owner
from tests.support.kube_scene import KubeScene

CORES, BOOT = 4, timedelta(seconds=60)
SIZE = {"cpu": 1000 * CORES, "memory": 16 << 30, "pods": 110}
CLUSTER = "real"


class SmallCluster:
    """One group of nodes of four cores, a ReplicaSet whose pods ask for nearly one each, and the clock."""

    def __init__(self) -> None:
        self.scene = KubeScene(nodes=True)
        self.codec = Codec(self.scene.topics)
        settings = ScalerSettings(unneeded_time=60.0, delay_after_add=30.0, skip_custom_controllers=True)  # type: ignore[arg-type]  # units
        self.stage = Scaler(settings, 0, lambda _cluster: True)
        self.desired, self.made = 0, 0
        self.booting: dict[str, Any] = {}
        self.nodes: set[str] = set()
        self.pods: dict[str, str] = {}
        self.named = 0
        self.read = {"scheduling-changes": 0, "cluster-changes": 0}
        self.news: list[Event] = []
        self.plans: list[ScaleUpPlanned | NodeRemovalPlanned] = []
        self.scene.see("replicasets", decoded(ControllerObject, {"metadata": meta("web"), "spec": {"replicas": 9}}))
        self.scene.sync()
        sees = ("node-group-changes",)
        self.tell(ControlChanged(self.scene.at, CLUSTER, Mode.APPLY, budget=1.0))  # type: ignore[arg-type]  # a unit
        self.tell(SourceReported(self.scene.at, CLUSTER, "asg", sees, 1e9))  # type: ignore[arg-type]  # a unit
        self.tell(self.group())

    def tell(self, *events: Event) -> None:
        self.news += events

    def group(self) -> NodeGroupSeen:
        template = NodeTemplateSeen({}, (), SIZE, SIZE)
        return NodeGroupSeen(self.scene.at, CLUSTER, "a", 0, 10, self.desired, template)

    # The objects

    def pod(self, name: str, node: str) -> ScheduledPodObject:
        container = {"name": "app", "resources": {"requests": {"cpu": "950m", "memory": "1Gi"}}}
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"phase": "Running"} if node else {"phase": "Pending", "conditions": [waits]}
        spec = {"containers": [container], **({"nodeName": node} if node else {})}
        return decoded(ScheduledPodObject, {"metadata": meta(name, owner("ReplicaSet", "web")), "spec": spec, "status": status})

    def node(self, name: str) -> DetailedNodeObject:
        amounts = {"cpu": str(CORES), "memory": "16Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        metadata = {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED, "labels": {"kubernetes.io/hostname": name}}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
        return decoded(DetailedNodeObject, {"metadata": metadata, "spec": {"providerID": f"aws:///z/{name}"}, "status": status})

    def scale_to(self, replicas: int) -> None:
        while len(self.pods) < replicas:
            self.named += 1
            self.put(f"web-{self.named}", "")
        for name in sorted(self.pods)[replicas:]:
            self.take(name)

    def put(self, name: str, node: str) -> None:
        self.pods[name] = node
        self.scene.see("pods", self.pod(name, node))

    def take(self, name: str) -> None:
        self.scene.lose("pods", self.pod(name, self.pods.pop(name)))

    # What happens in it

    def schedule(self) -> None:
        """First fit, as long as a node has a core left."""
        for name in [name for name, node in self.pods.items() if not node]:
            room = [node for node in sorted(self.nodes) if sum(on == node for on in self.pods.values()) < CORES]
            if room:
                self.put(name, room[0])

    def boot(self) -> None:
        for name in [name for name, at in self.booting.items() if at <= self.scene.at]:
            del self.booting[name]
            self.nodes.add(name)
            self.scene.see("nodes", self.node(name))

    def grow(self, plan: ScaleUpPlanned) -> None:
        assert plan.before == self.desired
        for _ in range(plan.after - self.desired):
            self.made += 1
            name = f"i-{self.made}"
            self.booting[name] = self.scene.at + BOOT
            self.tell(NodeInstanceSeen(self.scene.at, CLUSTER, "a", name, f"aws:///z/{name}", "z", "Pending"))
        self.desired = plan.after
        self.finished(plan, Action.SCALE_UP)

    def remove(self, plan: NodeRemovalPlanned) -> None:
        on = sorted(name for name, node in self.pods.items() if node == plan.node)
        assert sorted(pod.name for pod in plan.evict) == on
        for name in on:
            self.take(name)
            self.named += 1
            self.put(f"web-{self.named}", "")
        self.nodes.remove(plan.instance)
        self.desired -= 1
        self.tell(NodeInstanceGone(self.scene.at, CLUSTER, "a", plan.instance))
        self.scene.lose("nodes", self.node(plan.node))
        self.finished(plan, Action.REMOVE_NODE)

    def finished(self, plan: ScaleUpPlanned | NodeRemovalPlanned, action: Action) -> None:
        self.tell(self.group())
        self.tell(ActionFinished(f"{plan.id}/x", self.scene.at, plan.id, action, Result.DONE, "", plan.subject))

    def pass_time(self, seconds: int) -> None:
        """Turns of a second, in each of which plans of the one before are carried out."""
        for _ in range(seconds):
            self.scene.later(timedelta(seconds=1))
            self.boot()
            self.schedule()
            inputs: dict[str, list[Recorded]] = {}
            for event, topic in (*((event, _topic(event)) for event in self.news), *self._published()):
                inputs.setdefault(topic, []).append(Recorded(event, Place(topic, 0, len(self.plans))))
            self.news = []
            for decided in self.stage.step(Turn(times.to_ms(self.scene.at), inputs)):
                if isinstance(decided.event, ScaleUpPlanned):
                    self.plans.append(decided.event)
                    self.grow(decided.event)
                elif isinstance(decided.event, NodeRemovalPlanned):
                    self.plans.append(decided.event)
                    self.remove(decided.event)

    def _published(self) -> list[tuple[Event, str]]:
        """What the kube source published since the last turn."""
        found: list[tuple[Event, str]] = []
        for topic, partition in (("cluster-changes", 0), ("scheduling-changes", self.scene.topics.partition_of(CLUSTER))):
            wire = self.scene.topics.wire(topic)
            records = self.scene.log.poll({(wire, partition): self.read[topic]}, limit=10_000)
            found += [(self.codec.decode(record), topic) for record in records]
            self.read[topic] += len(records)
        return found


def _topic(event: Event) -> str:
    special = {ControlChanged: "control", ActionFinished: "outcomes", SourceReported: "cluster-changes"}
    return special.get(type(event), "node-group-changes")


def test_a_cluster_grows_for_what_waits_and_shrinks_when_load_goes() -> None:
    world = SmallCluster()
    world.pass_time(40)
    assert world.plans == []
    world.scale_to(10)
    world.pass_time(5)
    [grown] = world.plans
    assert isinstance(grown, ScaleUpPlanned)
    assert (grown.group, grown.before, grown.after) == ("a", 0, 3)  # four pods of a core to a node
    world.pass_time(70)
    assert all(world.pods.values())
    assert len(world.nodes) == world.desired == 3
    world.scale_to(3)
    world.pass_time(300)
    gone = [plan.instance for plan in world.plans if isinstance(plan, NodeRemovalPlanned)]
    assert len(gone) == len(set(gone)) == 2
    assert len(world.nodes) == world.desired == 1
    assert len(world.pods) == 3
    assert all(world.pods.values())
    world.scale_to(8)
    world.pass_time(80)
    assert len(world.nodes) == world.desired == 2
    assert all(world.pods.values())
