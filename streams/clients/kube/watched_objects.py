"""The few fields of watched objects other than pods: nodes, limit ranges, events, controllers, scales, VPAs and checkpoints.

These are structs to decode raw responses into, without any logic.
"""

from typing import Protocol

import msgspec

from streams.clients.kube.pod_objects import AnnotatedMeta, AuthoredMeta, ObjectMeta, StatusCondition, Time

QuantityInJson = str | int | float
"""A quantity in a custom resource. The API server leaves it as somebody wrote it."""


class KubeObject(Protocol):
    """Any object that has metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, uid, version."""


class PartialObject(msgspec.Struct, frozen=True, gc=False):
    """An object of which only the metadata is read."""

    metadata: ObjectMeta


class LabelledObject(msgspec.Struct, frozen=True, gc=False):
    """An object of which only labels and annotations are read."""

    metadata: AnnotatedMeta


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """Whether the node accepts new pods."""

    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """What the node has for pods, and its conditions."""

    allocatable: dict[str, str] = {}
    conditions: list[StatusCondition] = []


class NodeObject(msgspec.Struct, frozen=True, gc=False):
    """A node as the API server sends it."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LimitRangeItem(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of a limit range, with quantities by resource."""

    type: str
    min: dict[str, str] | None = None
    max: dict[str, str] | None = None
    default: dict[str, str] | None = None
    default_request: dict[str, str] | None = None
    max_limit_request_ratio: dict[str, str] | None = None


class LimitRangeSpec(msgspec.Struct, frozen=True, gc=False):
    """The entries of a limit range."""

    limits: list[LimitRangeItem] = []


class LimitRangeObject(msgspec.Struct, frozen=True, gc=False):
    """A LimitRange as the API server sends it."""

    metadata: ObjectMeta
    spec: LimitRangeSpec = LimitRangeSpec()


class QuotaScopeItem(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One condition on the pods that a quota counts."""

    scope_name: str
    operator: str = "Exists"
    values: list[str] | None = None


class QuotaScopeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All conditions on the pods that a quota counts."""

    match_expressions: list[QuotaScopeItem] | None = None


class ResourceQuotaSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which pods a quota counts, in either of the two ways to say it."""

    scopes: list[str] | None = None
    scope_selector: QuotaScopeSelector | None = None


class ResourceQuotaStatus(msgspec.Struct, frozen=True, gc=False):
    """The amounts that the API server judges by."""

    # Admission goes by these and not by `spec.hard`, which the quota controller copies here a little later.
    hard: dict[str, str] | None = None
    used: dict[str, str] | None = None


class ResourceQuotaObject(msgspec.Struct, frozen=True, gc=False):
    """A ResourceQuota as the API server sends it."""

    metadata: ObjectMeta
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class InvolvedObject(msgspec.Struct, frozen=True, gc=False):
    """The object that an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventObject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An Event as the API server sends it."""

    metadata: AnnotatedMeta
    involved_object: InvolvedObject = InvolvedObject()
    reason: str = ""
    message: str = ""


class LeaseSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """When a Lease was renewed last."""

    renew_time: Time | None = None


class LeaseObject(msgspec.Struct, frozen=True, gc=False):
    """A Lease as the API server sends it."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


class LabelExpression(msgspec.Struct, frozen=True, gc=False):
    """One entry of `matchExpressions`."""

    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A label selector in the form of an object."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelExpression] | None = None


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition of a failed pod that a rule of a Job's podFailurePolicy is about."""

    type: str = ""


class PodFailureRule(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a Job does with a failed pod that has one of these conditions: Ignore, Count, FailIndex or FailJob."""

    action: str = ""
    on_pod_conditions: list[PodCondition] = []


class PodFailurePolicy(msgspec.Struct, frozen=True, gc=False):
    """The rules of a Job for failed pods, of which the first that matches counts."""

    rules: list[PodFailureRule] = []


class ControllerSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job. Only a Job has parallelism and what follows it."""

    selector: LabelSelector | None = None
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None


class ControllerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How many pods there are; of a DaemonSet, on how many nodes there should be one and is one; of a Job, how many succeeded."""

    replicas: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: list[StatusCondition] = []


class ControllerObject(msgspec.Struct, frozen=True, gc=False):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    metadata: ObjectMeta
    spec: ControllerSpec = ControllerSpec()
    status: ControllerStatus = ControllerStatus()


class TemplatedSpec(ControllerSpec, frozen=True, gc=False, kw_only=True):
    """The spec of a controller of pods, with its template undecoded."""

    # Few templates are ever looked at, and decoding them all costs most of a list.
    template: msgspec.Raw = msgspec.Raw()


class TemplatedController(ControllerObject, frozen=True, gc=False, kw_only=True):
    """A Deployment, ReplicaSet, StatefulSet or Job with the template that it makes pods from."""

    spec: TemplatedSpec = TemplatedSpec()


class ReplicationControllerSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a ReplicationController, whose selector is a map."""

    selector: dict[str, str] | None = None
    replicas: int | None = None


class ReplicationControllerObject(msgspec.Struct, frozen=True, gc=False):
    """A ReplicationController as the API server sends it."""

    metadata: ObjectMeta
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ControllerStatus = ControllerStatus()


class TemplatedReplicationSpec(ReplicationControllerSpec, frozen=True, gc=False, kw_only=True):
    """The spec of a ReplicationController with its template, which stays raw."""

    template: msgspec.Raw = msgspec.Raw()


class TemplatedReplicationController(ReplicationControllerObject, frozen=True, gc=False, kw_only=True):
    """A ReplicationController with the template that it makes pods from."""

    spec: TemplatedReplicationSpec = TemplatedReplicationSpec()


class PodTemplateMeta(msgspec.Struct, frozen=True, gc=False):
    """The labels that pods made from a template get."""

    labels: dict[str, str] | None = None


class PodTemplate(msgspec.Struct, frozen=True, gc=False):
    """The template that a job makes pods from."""

    metadata: PodTemplateMeta = PodTemplateMeta()


class JobSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec inside a job template."""

    template: PodTemplate = PodTemplate()


class JobTemplate(msgspec.Struct, frozen=True, gc=False):
    """The template that a CronJob makes jobs from."""

    spec: JobSpec = JobSpec()


class CronJobSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A CronJob's spec, as far as its pods' labels."""

    job_template: JobTemplate = JobTemplate()


class CronJobObject(msgspec.Struct, frozen=True, gc=False):
    """A CronJob as the API server sends it."""

    metadata: ObjectMeta
    spec: CronJobSpec = CronJobSpec()


class ScaleStatus(msgspec.Struct, frozen=True, gc=False):
    """The pod selector of a scale, as text, and the replicas that there are."""

    selector: str = ""
    replicas: int = 0


class ScaleSpec(msgspec.Struct, frozen=True, gc=False):
    """The replicas that are asked for."""

    replicas: int = 0


class ScaleObject(msgspec.Struct, frozen=True, gc=False):
    """The scale subresource of any object."""

    metadata: ObjectMeta
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class VpaObject(msgspec.Struct, frozen=True, gc=False):
    """A VerticalPodAutoscaler with its spec undecoded."""

    metadata: AuthoredMeta
    # People write it, and one bad field must not hide the object's name.
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class CheckpointSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The VPA and the container whose history it is."""

    vpa_object_name: str = ""
    container_name: str = ""


class HistogramObject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A histogram in a checkpoint: integer weights by bucket number, which add up to `total_weight`."""

    reference_timestamp: Time | None = None
    total_weight: float = 0.0
    bucket_weights: dict[str, int] | None = None


class CheckpointStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The saved history of one container."""

    version: str = ""
    first_sample_start: Time | None = None
    last_sample_start: Time | None = None
    total_samples_count: int = 0
    cpu_histogram: HistogramObject = HistogramObject()
    memory_histogram: HistogramObject = HistogramObject()


class CheckpointObject(msgspec.Struct, frozen=True, gc=False):
    """A VerticalPodAutoscalerCheckpoint as the API server sends it."""

    metadata: ObjectMeta
    spec: CheckpointSpec = CheckpointSpec()
    status: CheckpointStatus = CheckpointStatus()
