"""The fields of pods, nodes and disruption budgets that scheduling needs; decoded only where nodes are scaled.

These are structs to decode raw responses into, without any logic. They also have the fields of pods and nodes that other parts
read.
"""

import msgspec

from streams.clients.kube.pod_objects import (
    AnnotatedMeta,
    ObjectMeta,
    PodContainer,
    PodObject,
    PodSpec,
    PodVolume,
    StatusCondition,
)
from streams.clients.kube.watched_objects import (
    ControllerObject,
    ControllerSpec,
    LabelSelector,
    NodeObject,
    NodeSpec,
    NodeStatus,
)


class SelectorTermExpression(msgspec.Struct, frozen=True, gc=False):
    """A requirement on a label or a field of a node."""

    key: str
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One term of required node affinity."""

    match_expressions: list[SelectorTermExpression] | None = None
    match_fields: list[SelectorTermExpression] | None = None


class NodeSelectorTerms(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Terms of which one must be met."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """Required node affinity."""

    # What is only preferred decides nothing about whether a node takes a pod.
    required: NodeSelectorTerms | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A term between pods."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None


class PodAffinity(msgspec.Struct, frozen=True, gc=False):
    """Required affinity or anti-affinity between pods."""

    required: list[PodAffinityTerm] | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class AffinityRules(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A pod's affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TolerationObject(msgspec.Struct, frozen=True, gc=False):
    """A toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class TopologySpreadObject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A topology spread constraint."""

    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: list[str] | None = None


class ContainerPort(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port of a container; `host_port` is 0 where it takes none of its node."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class ScheduledContainer(PodContainer, frozen=True, gc=False, rename="camel"):
    """A container with its ports."""

    ports: list[ContainerPort] | None = None


class NamedResourceClaim(msgspec.Struct, frozen=True, gc=False):
    """A claim of a pod on devices, by dynamic resource allocation."""

    name: str


class ScheduledPodSpec(PodSpec, frozen=True, gc=False, rename="camel", kw_only=True):
    """What a pod asks of its node."""

    containers: list[ScheduledContainer]  # type: ignore[assignment]  # decoded into the richer struct
    init_containers: list[ScheduledContainer] = msgspec.field(default_factory=list)  # type: ignore[assignment]  # as above
    node_selector: dict[str, str] | None = None
    affinity: AffinityRules | None = None
    tolerations: list[TolerationObject] | None = None
    topology_spread_constraints: list[TopologySpreadObject] | None = None
    overhead: dict[str, str] | None = None
    volumes: list[PodVolume] | None = None
    priority: int | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    resource_claims: list[NamedResourceClaim] | None = None


class ScheduledPodObject(PodObject, frozen=True, gc=False, kw_only=True):
    """A pod with all that decides where it may run."""

    metadata: AnnotatedMeta
    spec: ScheduledPodSpec


class DaemonPodMeta(msgspec.Struct, frozen=True, gc=False):
    """What the pods of a template get."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class DaemonPodTemplate(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The template that a DaemonSet makes pods from, with all that decides where they run."""

    metadata: DaemonPodMeta = DaemonPodMeta()
    spec: ScheduledPodSpec


class DaemonSetSpec(ControllerSpec, frozen=True, gc=False, kw_only=True):
    """The spec of a DaemonSet."""

    template: DaemonPodTemplate


class DaemonSetObject(ControllerObject, frozen=True, gc=False, kw_only=True):
    """A DaemonSet with its template."""

    spec: DaemonSetSpec


class TaintObject(msgspec.Struct, frozen=True, gc=False):
    """A taint."""

    key: str
    value: str = ""
    effect: str = ""


class DetailedNodeSpec(NodeSpec, frozen=True, gc=False, rename="camel"):
    """The taints of a node, and which machine it is."""

    taints: list[TaintObject] | None = None
    provider_id: str = msgspec.field(default="", name="providerID")


class DetailedNodeStatus(NodeStatus, frozen=True, gc=False):
    """What a node has."""

    capacity: dict[str, str] = msgspec.field(default_factory=dict)


class DetailedNodeObject(NodeObject, frozen=True, gc=False, kw_only=True):
    """A node with all that decides which pods it takes."""

    metadata: AnnotatedMeta
    spec: DetailedNodeSpec = DetailedNodeSpec()
    status: DetailedNodeStatus = DetailedNodeStatus()


class ClaimSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a claim asks for, and the volume that it has."""

    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_name: str = ""


class ClaimStatus(msgspec.Struct, frozen=True, gc=False):
    """How far a claim has got."""

    phase: str = ""


class ClaimObject(msgspec.Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim as the API server sends it."""

    metadata: AnnotatedMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class CsiVolumeSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The driver of a volume, and the name that it has there."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """On which nodes a volume can be."""

    required: NodeSelectorTerms | None = None


class VolumeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a volume is and who attaches it."""

    storage_class_name: str = ""
    csi: CsiVolumeSource | None = None
    aws_elastic_block_store: dict[str, object] | None = None
    node_affinity: VolumeNodeAffinity | None = None


class VolumeStatus(msgspec.Struct, frozen=True, gc=False):
    """Whether a claim has it."""

    phase: str = ""


class VolumeObject(msgspec.Struct, frozen=True, gc=False):
    """A PersistentVolume as the API server sends it."""

    metadata: AnnotatedMeta
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Values of node labels among which a volume of a class is made."""

    match_label_expressions: list[SelectorTermExpression] | None = None


class StorageClassObject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A StorageClass as the API server sends it."""

    metadata: AnnotatedMeta
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] | None = None


class AttachLimit(msgspec.Struct, frozen=True, gc=False):
    """How many volumes a driver attaches to a node; None if it does not say."""

    count: int | None = None


class CsiNodeDriver(msgspec.Struct, frozen=True, gc=False):
    """A driver on a node."""

    name: str
    allocatable: AttachLimit | None = None


class CsiNodeSpec(msgspec.Struct, frozen=True, gc=False):
    """The drivers on a node."""

    drivers: list[CsiNodeDriver] | None = None


class CsiNodeObject(msgspec.Struct, frozen=True, gc=False):
    """A CSINode as the API server sends it: it has the name of its node."""

    metadata: AnnotatedMeta
    spec: CsiNodeSpec = CsiNodeSpec()


class PodTemplateObject(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PodTemplate as the API server sends it."""

    metadata: AnnotatedMeta
    template: DaemonPodTemplate


class TemplateReference(msgspec.Struct, frozen=True, gc=False):
    """The PodTemplate that a buffer names, in its own namespace."""

    name: str = ""


class ScalableReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The workload that a buffer is for, in its own namespace."""

    kind: str = ""
    name: str = ""
    api_group: str = ""


class CapacityBufferSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """For how many pods there should be room, and how they look."""

    provisioning_strategy: str | None = None
    pod_template_ref: TemplateReference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: dict[str, str | int] | None = None


class CapacityBufferStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What an autoscaler said of a buffer."""

    pod_template_ref: TemplateReference | None = None
    replicas: int | None = None
    pod_template_generation: int | None = None
    conditions: list[StatusCondition] = []


class CapacityBufferObject(msgspec.Struct, frozen=True, gc=False):
    """A CapacityBuffer as the API server sends it."""

    metadata: AnnotatedMeta
    spec: CapacityBufferSpec = CapacityBufferSpec()
    status: CapacityBufferStatus = CapacityBufferStatus()


class ConfigMapObject(msgspec.Struct, frozen=True, gc=False):
    """A ConfigMap as the API server sends it."""

    metadata: ObjectMeta
    data: dict[str, str] | None = None


class DisruptionBudgetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The pods that a budget protects, and whether it does so while they are not ready."""

    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class DisruptionBudgetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The state that its controller reports."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class DisruptionBudgetObject(msgspec.Struct, frozen=True, gc=False):
    """A PodDisruptionBudget as the API server sends it."""

    metadata: ObjectMeta
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()
