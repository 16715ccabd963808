"""The few fields of pods and their metrics that matter here, and how they become the cluster port's `Pod` and `PodUsage`.

Raw responses are decoded straight into these structs, at about a hundredth of the cost of the official client's models. Unknown
fields are ignored. A missing name or a bad quantity raises ValueError, as msgspec's errors are, that quotes the path or value.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated

import msgspec

from schemas import admission_notes, bounds
from schemas.facts.pods import OOM_KILLED, BoostedContainer, ContainerRun, ContainerSeen, PodPhase, ResizeState
from schemas.names import Amounts, PodName, Workload
from schemas.well_known_labels import ADMISSION_NOTE, CPU_STARTUP_BOOST, OBSERVED_CONTAINERS, POD_OPT_OUTS, opted_out
from streams import typed_json
from streams.clients.cluster_port import OOMKill, Pod, asked_meanwhile
from streams.clients.kube import quantities

_RESTARTS = "RestartContainer"
_ALWAYS = "Always"
HASH_LABEL = "pod-template-hash"  # the Deployment controller puts it on ReplicaSets and on their pods
_LONGEST_MESSAGE = 500
_LONGEST_REASON = 64
"""Characters of what a kubelet says that are kept."""
Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with an offset, as all of Kubernetes' times have."""


# Trees of JSON have no circles, so the garbage collector skips them (`gc=False`): beside a large state a third of the cost.
class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An entry of `ownerReferences`."""

    kind: str
    name: str
    controller: bool = False
    api_version: str = ""
    uid: str = ""


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Metadata that every object has."""

    name: str
    namespace: str = "default"
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] = []


class AnnotatedMeta(ObjectMeta, frozen=True, gc=False, rename="camel"):
    """Metadata with the annotations and the generation."""

    annotations: dict[str, str] | None = None
    generation: int = 0


class ManagedFields(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of an object that one client manages, and when it changed them last."""

    manager: str = ""
    subresource: str = ""
    time: Time | None = None
    fields: dict[str, msgspec.Raw] | None = msgspec.field(default=None, name="fieldsV1")


class AuthoredMeta(AnnotatedMeta, frozen=True, gc=False, rename="camel"):
    """Metadata that also says who changed what."""

    managed_fields: list[ManagedFields] | None = None


class ResourceRequirements(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits as quantities, by resource."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


_ORIGINAL = typed_json.decoder(ResourceRequirements)


class ContainerResizePolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What becomes of a container when one of its resources is resized in place."""

    resource_name: str = ""
    restart_policy: str = ""


class PodContainer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container in a pod's spec. `restart_policy` Always makes an init container a sidecar."""

    name: str
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: list[ContainerResizePolicy] = []
    restart_policy: str = ""


class ContainerTerminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How and when a container ended, and since when it had run."""

    reason: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None


class ContainerRunning(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Since when a container runs."""

    started_at: Time | None = None


class StatusCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A condition of a pod or a node. `observed_generation` is that of the spec that it is about; 0 where nobody says."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: Time | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """One of running and terminated; neither when the container waits."""

    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the kubelet reports of a container. `resources` are the amounts in force, `allocated_resources` those granted."""

    name: str
    restart_count: int = 0
    ready: bool = False
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str] | None = None


class EmptyDir(msgspec.Struct, frozen=True, gc=False):
    """A folder on the node, or in memory."""

    medium: str = ""


class ClaimReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The PersistentVolumeClaim that a volume is from."""

    claim_name: str = ""


class EphemeralVolume(msgspec.Struct, frozen=True, gc=False):
    """A volume whose claim is made for the pod, and is found by its name, `<pod>-<volume>`."""


class PodVolume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume, as far as it may live on the node, or be attached to it."""

    name: str
    empty_dir: EmptyDir | None = None
    host_path: dict[str, str] | None = None
    persistent_volume_claim: ClaimReference | None = None
    ephemeral: EphemeralVolume | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the pod is to run, and where."""

    containers: list[PodContainer]
    init_containers: list[PodContainer] = []
    node_name: str | None = None
    resources: ResourceRequirements | None = None
    service_account_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How the pod is doing, as the kubelet reports it."""

    phase: PodPhase = PodPhase.UNKNOWN
    start_time: Time | None = None
    conditions: list[StatusCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    qos_class: str = ""
    nominated_node_name: str = ""


class PodObject(msgspec.Struct, frozen=True, gc=False):
    """A pod as the API server sends it."""

    metadata: AnnotatedMeta
    spec: PodSpec
    status: PodStatus = PodStatus()


class PodList(msgspec.Struct, frozen=True, gc=False):
    """The answer to a list of pods."""

    items: list[PodObject]


def read_pod(cluster: str, pod: PodObject) -> Pod:
    """A pod as the cluster port has it. Raises ValueError when it has no creation time or a bad quantity."""
    meta = pod.metadata
    if meta.creation_timestamp is None:
        raise ValueError(f"pod '{meta.namespace}/{meta.name}' has no metadata.creationTimestamp")
    statuses = {status.name: status for status in pod.status.container_statuses}
    first = {status.name: status for status in pod.status.init_container_statuses}
    resize, resize_message = _resize(pod)
    boosted = _boosted(pod)
    containers = tuple(_container(container, statuses.get(container.name)) for container in pod.spec.containers)
    asked = {c.name: quantities.read_amounts(c.resources.requests or {}) for c in pod.spec.containers}
    return Pod(
        workload=_workload(cluster, meta),
        pod=PodName(meta.namespace, meta.name, meta.uid),
        phase=pod.status.phase,
        created=meta.creation_timestamp,
        containers=containers,
        asked_requests=asked,
        asked_limits={c.name: quantities.read_amounts(c.resources.limits or {}) for c in pod.spec.containers},
        node=pod.spec.node_name,
        labels=bounds.kept_labels(meta.labels or {}),
        resize=resize,
        started=pod.status.start_time,
        ooms=tuple(kill for c in pod.spec.containers if c.name in statuses for kill in _ooms(statuses[c.name])),
        leaving=meta.deletion_timestamp is not None,
        init_containers=tuple(_init_container(container, first.get(container.name)) for container in pod.spec.init_containers),
        qos=pod.status.qos_class,
        opted_out=opted_out(meta.annotations or {}, POD_OPT_OUTS),
        controller=_controller(meta),
        observed=(meta.annotations or {}).get(OBSERVED_CONTAINERS),
        boosted=boosted,
        ready_since=_ready_since(pod.status.conditions) if boosted else None,
        resize_message=resize_message,
        version=meta.resource_version,
        requests=Amounts() if pod.spec.resources is None else _read(pod.spec.resources.requests),
        admitted=admission_notes.read((meta.annotations or {}).get(ADMISSION_NOTE)),
        limits=Amounts() if pod.spec.resources is None else quantities.read_most(pod.spec.resources.limits or {}),
        service_account=pod.spec.service_account_name,
        asked=asked_meanwhile(containers, asked, resize),
    )


def _workload(cluster: str, meta: ObjectMeta) -> Workload:
    """The topmost controller as far as the pod shows."""
    owner = next((owner for owner in meta.owner_references if owner.controller), None)
    if owner is None:
        return Workload(cluster, meta.namespace, "Pod", meta.name)
    suffix = f"-{(meta.labels or {}).get(HASH_LABEL, '')}"
    # A Deployment's name is its ReplicaSet's without the template hash.
    if owner.kind == "ReplicaSet" and suffix != "-" and owner.name.endswith(suffix):
        return Workload(cluster, meta.namespace, "Deployment", owner.name.removesuffix(suffix))
    return Workload(cluster, meta.namespace, owner.kind, owner.name)


def _controller(meta: ObjectMeta) -> str:
    return next((f"{owner.kind}/{owner.name}" for owner in meta.owner_references if owner.controller), "")


def _container(container: PodContainer, status: ContainerStatus | None) -> ContainerSeen:
    # The status has the amounts in force; old API servers do not report them.
    resources = container.resources if status is None or status.resources is None else status.resources
    requests, limits, asked = _read(resources.requests), _read(resources.limits), container.resources.limits
    # The API server bounds requests by the limit of the spec, of which the kubelet shows whole bytes, rounded up. A request that
    # is its limit stays so.
    if asked is not None and limits.memory == _read(asked).memory != requests.memory:
        limits = replace(limits, memory=quantities.read_most(asked).memory)
    return ContainerSeen(
        name=container.name,
        requests=requests,
        limits=limits,
        restarts=0 if status is None else status.restart_count,
        ready=status is not None and status.ready,
        restarts_on=tuple(sorted(rule.resource_name for rule in container.resize_policy if rule.restart_policy == _RESTARTS)),
        last_run=None if status is None else _last_run(status),
    )


def _last_run(status: ContainerStatus) -> ContainerRun | None:
    """The run that ended last."""
    end = status.state.terminated or status.last_state.terminated  # the kubelet moves it there when the next run begins
    if end is None or end.finished_at is None:
        return None
    return ContainerRun(end.finished_at, end.started_at, end.reason[:_LONGEST_REASON])


def _init_container(container: PodContainer, status: ContainerStatus | None) -> ContainerSeen:
    # No other init container has a policy of its own; this one makes it run beside the others (KEP-753).
    return replace(_container(container, status), sidecar=container.restart_policy == _ALWAYS)


def _boosted(pod: PodObject) -> tuple[BoostedContainer, ...]:
    annotations = pod.metadata.annotations or {}
    annotated = ((container.name, annotations.get(f"{CPU_STARTUP_BOOST}{container.name}")) for container in pod.spec.containers)
    return tuple(_original(name, annotation) for name, annotation in annotated if annotation is not None)


def _original(container: str, annotation: str) -> BoostedContainer:
    """The amounts in an annotation; none if they cannot be ours."""
    try:  # a pod's owner may write it, too
        original = _ORIGINAL.decode(annotation)
        requests, limits = _read(original.requests), _read(original.limits)
    except ValueError:
        return BoostedContainer(container)
    absurd = any(True for amounts in (requests, limits) for _ in bounds.amounts(container, amounts))
    return BoostedContainer(container) if absurd else BoostedContainer(container, requests, limits)


def _ready_since(conditions: list[StatusCondition]) -> datetime | None:
    return next(
        (condition.last_transition_time for condition in conditions if condition.type == "Ready" and condition.status == "True"),
        None,
    )


def _read(texts: Mapping[str, str] | None) -> Amounts:
    return Amounts() if texts is None else quantities.read_amounts(texts)


def _ooms(status: ContainerStatus) -> list[OOMKill]:
    """OOM kills among the container's last two ends."""
    last, now = status.last_state.terminated, status.state.terminated
    # While a container waits for its restart, `restart_count` is still one too low.
    counted = status.state.running is not None or now is not None
    ends = ((last, status.restart_count + (0 if counted else 1)), (now, status.restart_count + 1))
    return [
        OOMKill(status.name, restarts, end.finished_at, end.started_at)
        for end, restarts in ends
        if end is not None and end.reason == OOM_KILLED and end.finished_at is not None
    ]


_PENDING = "PodResizePending"
_RESIZE_STATES: Mapping[str, Mapping[str, ResizeState]] = {
    _PENDING: {"Deferred": ResizeState.DEFERRED, "Infeasible": ResizeState.INFEASIBLE},
    "PodResizeInProgress": {"": ResizeState.IN_PROGRESS, "Error": ResizeState.ERROR},
}
"""What the conditions of a resize say by their reasons; any other reason is unknown."""


def _has_all(spec: PodSpec, status: PodStatus) -> bool:
    """Whether each container has what it asks for, so that nothing waits, whatever condition the kubelet left there."""
    given = {seen.name: seen.resources for seen in (*status.init_container_statuses, *status.container_statuses)}
    runs = (*spec.containers, *(first for first in spec.init_containers if first.restart_policy == _ALWAYS))
    pairs = [(own.resources, given.get(own.name)) for own in runs]
    has = all(now and (_read(now.requests), _read(now.limits)) == (_read(own.requests), _read(own.limits)) for own, now in pairs)
    return has and len(runs) > 0 and spec.resources is None  # of the pod's own nobody tells what is in force


def _resize(pod: PodObject) -> tuple[ResizeState, str]:
    """From the first resize condition that is true."""
    for condition in pod.status.conditions:
        states = _RESIZE_STATES.get(condition.type)
        if states is None or condition.status != "True" or (condition.type == _PENDING and _has_all(pod.spec, pod.status)):
            continue
        if 0 < condition.observed_generation < pod.metadata.generation:  # it is about an earlier spec
            return ResizeState.IN_PROGRESS, "the kubelet has not looked at the newest request yet"
        return states.get(condition.reason, ResizeState.UNKNOWN), condition.message[:_LONGEST_MESSAGE]
    return ResizeState.NONE, ""
