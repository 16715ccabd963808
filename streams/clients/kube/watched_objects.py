"""The few fields of the objects, pods aside, that a source watches: nodes, limit ranges, events, controllers, VPAs, checkpoints.

Structs alone, decoded from raw answers as in `wire`. Where a person's mistake may hide (a VPA's spec) it stays raw, so that one
bad field does not hide the object's name.
"""

from typing import Protocol

import msgspec

from streams.clients.kube.pod_objects import Condition, Metadata, Time

Quantity = str | int | float
"""A quantity in a custom resource: the API server leaves it as it was written."""


class Named(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> Metadata:
        """Name, namespace, uid, version."""


class AnyObject(msgspec.Struct, frozen=True, gc=False):
    """An object of which nothing but the name is wanted."""

    metadata: Metadata


class Described(Metadata, frozen=True, gc=False, rename="camel"):
    """Metadata with what most objects carry for nothing."""

    annotations: dict[str, str] | None = None
    generation: int = 0


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """A node's spec."""

    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """A node's status."""

    allocatable: dict[str, str] = {}
    conditions: list[Condition] = []


class NodeObject(msgspec.Struct, frozen=True, gc=False):
    """A node."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LimitItem(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of a limit range."""

    type: str
    min: dict[str, str] | None = None
    max: dict[str, str] | None = None
    default: dict[str, str] | None = None
    default_request: dict[str, str] | None = None
    max_limit_request_ratio: dict[str, str] | None = None


class LimitRangeSpec(msgspec.Struct, frozen=True, gc=False):
    """A limit range's spec."""

    limits: list[LimitItem] = []


class LimitRangeObject(msgspec.Struct, frozen=True, gc=False):
    """A limit range."""

    metadata: Metadata
    spec: LimitRangeSpec = LimitRangeSpec()


class Involved(msgspec.Struct, frozen=True, gc=False):
    """What an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventObject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An event."""

    metadata: Described
    involved_object: Involved = Involved()
    reason: str = ""


class LabelExpression(msgspec.Struct, frozen=True, gc=False):
    """One expression of a label selector."""

    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A label selector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelExpression] | None = None


class ControllerSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    selector: LabelSelector | None = None


class ControllerObject(msgspec.Struct, frozen=True, gc=False):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    metadata: Metadata
    spec: ControllerSpec = ControllerSpec()


class PlainSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a ReplicationController, whose selector is a map."""

    selector: dict[str, str] | None = None


class ReplicationControllerObject(msgspec.Struct, frozen=True, gc=False):
    """A ReplicationController."""

    metadata: Metadata
    spec: PlainSpec = PlainSpec()


class Labelled(msgspec.Struct, frozen=True, gc=False):
    """Metadata of a pod template."""

    labels: dict[str, str] | None = None


class Template(msgspec.Struct, frozen=True, gc=False):
    """A pod template."""

    metadata: Labelled = Labelled()


class JobSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a job template."""

    template: Template = Template()


class JobTemplate(msgspec.Struct, frozen=True, gc=False):
    """A job template."""

    spec: JobSpec = JobSpec()


class CronJobSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A CronJob's spec."""

    job_template: JobTemplate = JobTemplate()


class CronJobObject(msgspec.Struct, frozen=True, gc=False):
    """A CronJob."""

    metadata: Metadata
    spec: CronJobSpec = CronJobSpec()


class ScaleStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of a scale."""

    selector: str = ""


class ScaleObject(msgspec.Struct, frozen=True, gc=False):
    """The scale subresource of anything."""

    metadata: Metadata
    status: ScaleStatus = ScaleStatus()


class VpaObject(msgspec.Struct, frozen=True, gc=False):
    """A VerticalPodAutoscaler."""

    metadata: Described
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class CheckpointSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Whose history it is."""

    vpa_object_name: str = ""
    container_name: str = ""


class HistogramObject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A histogram in a checkpoint."""

    reference_timestamp: Time | None = None
    total_weight: float = 0.0
    bucket_weights: dict[str, int] | None = None


class CheckpointStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The history."""

    version: str = ""
    first_sample_start: Time | None = None
    last_sample_start: Time | None = None
    total_samples_count: int = 0
    cpu_histogram: HistogramObject = HistogramObject()
    memory_histogram: HistogramObject = HistogramObject()


class CheckpointObject(msgspec.Struct, frozen=True, gc=False):
    """A VerticalPodAutoscalerCheckpoint."""

    metadata: Metadata
    spec: CheckpointSpec = CheckpointSpec()
    status: CheckpointStatus = CheckpointStatus()
