"""Facts of a made-up cluster for tests of the scaler, and a run that feeds them turn by turn."""

from collections.abc import Mapping
from typing import Any, TypeVar

from agents.logic.nodes.scaler.scaler_stage import Scaler
from agents.logic.nodes.scaler_settings import ScalerSettings
from schemas.catalogue import Event
from schemas.decisions.node_updates import (
    NodeRemovalPlanned,
    ScaleRefused,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
    SoftTaintPlanned,
)
from schemas.decisions.replica_plans import ReplicasPlanned, ScalingMode
from schemas.facts.nodes import NodeDetailsChanged, NodeGroupSeen, NodeInstanceSeen, NodeTemplateSeen
from schemas.facts.pods import PodPhase
from schemas.facts.scheduled_pods import ControllingOwner, PodPlacementChanged, PodShapeSeen
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import ReplicaControllerChanged
from schemas.names import PodName, Workload
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vpa import TargetRef
from tests.support.cluster_events import GIB, START, turn, when

CLUSTER = "demo"
SIZE = {"cpu": 4000, "memory": 16 * GIB, "pods": 110}
TICK = 500
E = TypeVar("E")


def topic(event: Event) -> str:
    """The input that carries an event, with underscores."""
    kind = type(event).__name__
    if kind in (
        "InstanceInterruptionNoticed",
        "NodeGroupSeen",
        "NodeGroupGone",
        "NodeInstanceSeen",
        "NodeInstanceGone",
        "ScalingActivityFailed",
    ):
        return "node_group_changes"
    special = {
        "ReplicasPlanned": "replica_plans_by_cluster",
        "ReplicasRefused": "replica_plans_by_cluster",
        "SourceReported": "cluster_changes",
        "ControlChanged": "control",
        "ActionFinished": "outcomes",
        "StageRulesChanged": "rules",
        "RequestsRecommended": "recommendations_by_cluster",
        "VerticalPolicyChanged": "policies",
    }
    return special.get(kind, "scheduling_changes")


def group(name: str = "a", least: int = 0, most: int = 10, desired: int = 0, **changed: Any) -> NodeGroupSeen:
    """A group of nodes of 4 cores and 16 GiB in one zone."""
    labels = {"topology.kubernetes.io/zone": f"zone-{name}", "group": name}
    fields: dict[str, Any] = {
        "template": NodeTemplateSeen(labels, (), SIZE, SIZE),
        "zones": (f"zone-{name}",),
        "instance_types": ("m5.xlarge",),
    }
    return NodeGroupSeen(when(START), CLUSTER, name, least, most, desired, **{**fields, **changed})


def instance(name: str, of: str = "a", **changed: Any) -> NodeInstanceSeen:
    """An instance of a group; its node has the same name."""
    fields: dict[str, Any] = {"provider_id": f"aws:///zone-{of}/{name}", "zone": f"zone-{of}", "lifecycle": "InService"}
    return NodeInstanceSeen(when(START), CLUSTER, of, name, **{**fields, **changed})


def node(name: str, of: str = "a", **changed: Any) -> NodeDetailsChanged:
    """The ready node of an instance."""
    fields: dict[str, Any] = {
        "uid": f"uid-{name}",
        "created": when(START - 3_600_000),
        "provider_id": f"aws:///zone-{of}/{name}",
        "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{of}", "group": of},
        "conditions": {"Ready": "True"},
        "allocatable": SIZE,
        "capacity": SIZE,
    }
    return NodeDetailsChanged(when(START), CLUSTER, name, **{**fields, **changed})


def joined(name: str, of: str = "a") -> list[Event]:
    """An instance with its node."""
    return [instance(name, of), node(name, of)]


def shape(name: str = "web", cpu: int = 975, memory: int = GIB, **changed: Any) -> PodShapeSeen:
    """The shape of a ReplicaSet's pods, of which a new node takes four beside its kube-proxy."""
    fields: dict[str, Any] = {
        "namespace": "shop",
        "requests": {"cpu": cpu, "memory": memory},
        "labels": {"app": name},
        "owner": ControllingOwner("ReplicaSet", name, "apps/v1"),
        "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
    }
    return PodShapeSeen(when(START), CLUSTER, name, **{**fields, **changed})


def pod(name: str, of: str = "web", node: str | None = None, created: int = START, **changed: Any) -> PodPlacementChanged:
    """A pod of a shape: on a node, or unschedulable."""
    fields: dict[str, Any] = {
        "phase": PodPhase.PENDING if node is None else PodPhase.RUNNING,
        "created": when(created),
        "node": node,
        "unschedulable": "Unschedulable" if node is None else "",
    }
    return PodPlacementChanged(when(START), CLUSTER, PodName("shop", name, f"uid-{name}"), of, **{**fields, **changed})


def controller(name: str = "web", replicas: int = 3, deployment: str = "") -> ReplicaControllerChanged:
    """The ReplicaSet of a shape's pods, of a Deployment if one is named."""
    owner = ControllingOwner("Deployment", deployment, "apps/v1") if deployment else None
    return ReplicaControllerChanged(when(START), CLUSTER, "shop", "ReplicaSet", name, replicas, owner)


def replicas_planned(
    replicas: int, current: int = 2, name: str = "shop-web", kind: str = "Deployment", **changed: Any
) -> ReplicasPlanned:
    """A plan for a workload of the shop, carried out by an HPA, that runs out after two minutes."""
    fields: dict[str, Any] = {
        "id": f"forecaster/0/{START}/replicas/{CLUSTER}/shop/{kind}/{name}",
        "at": when(START),
        "expires": when(START + 120_000),
        "workload": Workload(CLUSTER, "shop", kind, name),
        "ehpa": f"{CLUSTER}/shop/EffectiveHorizontalPodAutoscaler/{name}",
        "uid": "uid",
        "generation": 1,
        "carried_out_by": ScalingMode.HPA,
        "target_ref": TargetRef(kind, name, "apps/v1"),
        "least": 1,
        "most": 100,
        "proposals": (),
        "stabilized": replicas,
        "because": {},
    }
    return ReplicasPlanned(current=current, replicas=replicas, **{**fields, **changed})


class ScalerRun:
    """A scaler that is fed turn by turn, with sources that say that they are at work."""

    def __init__(
        self, *first: Event, settings: Mapping[str, Any] | None = None, mode: Mode = Mode.APPLY, tick: int = TICK
    ) -> None:
        self.stage = Scaler(ScalerSettings(**(settings or {})), 0, lambda _cluster: True)
        self.now, self.tick = START, tick
        self.decided: list[Any] = []
        self.step(
            ControlChanged(when(START), CLUSTER, mode, budget=1.0),  # type: ignore[arg-type]  # a unit
            SourceReported(when(START), CLUSTER, "kube", ("scheduling-changes",), 1e9),  # type: ignore[arg-type]  # a unit
            SourceReported(when(START), CLUSTER, "asg", ("node-group-changes",), 1e9),  # type: ignore[arg-type]  # a unit
            *first,
        )

    def step(self, *events: Event) -> list[Any]:
        """One turn with these events; what was decided in it."""
        self.now += self.tick
        inputs: dict[str, list[Event]] = {}
        for event in events:
            inputs.setdefault(topic(event), []).append(event)
        found = [one.event for one in self.stage.step(turn(self.now, **inputs))]
        self.decided += found
        return found

    def run(self, seconds: float) -> list[Any]:
        """Let time pass without news."""
        found: list[Any] = []
        for _ in range(int(seconds * 1000 / self.tick)):
            found += self.step()
        return found

    def answer(
        self,
        plan: ScaleUpPlanned | SizeCorrectionPlanned | NodeRemovalPlanned | SoftTaintPlanned,
        result: Result,
        detail: OutcomeDetail = OutcomeDetail.NONE,
    ) -> None:
        """A consumer finished with a plan."""
        actions: dict[type, Action] = {
            ScaleUpPlanned: Action.SCALE_UP,
            SizeCorrectionPlanned: Action.CORRECT_SIZE,
            SoftTaintPlanned: Action.SOFT_TAINT,
        }
        action = actions.get(type(plan), Action.REMOVE_NODE)
        self.step(ActionFinished(f"{plan.id}/x", when(self.now), plan.id, action, result, "because", plan.subject, detail))

    def of(self, kind: type[E]) -> list[E]:
        """All decisions of a kind so far."""
        return [one for one in self.decided if isinstance(one, kind)]

    @property
    def grown(self) -> list[tuple[str, int, int]]:
        """The growth that was planned so far."""
        return [(one.group, one.before, one.after) for one in self.of(ScaleUpPlanned)]

    @property
    def removed(self) -> list[str]:
        """The nodes whose removal was planned so far."""
        return [one.node or one.instance for one in self.of(NodeRemovalPlanned)]

    @property
    def soft_taints(self) -> list[tuple[str, bool]]:
        """The nodes whose soft taint was planned to be set (True) or taken off so far."""
        return [(one.node, one.tainted) for one in self.of(SoftTaintPlanned)]

    def refused(self, name: str) -> list[str]:
        """The codes that were said about something, by the name of the subject."""
        return [one.code for one in self.of(ScaleRefused) if one.subject.name == name]
