"""The few fields of Kubernetes' JSON that matter here, and how they become the client port's words.

Typed decoding of raw responses: about a hundredth of the cost of the official client's models. Trees of JSON have no circles,
so the garbage collector need not look at them; beside a large state that is a third of the cost. Unknown fields are skipped; a
missing name or a quantity that is none raises ValueError (msgspec's errors are of that family) with the path or the value.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec

from schemas.facts.pods import ContainerSeen, PodPhase, ResizeState
from schemas.names import Amounts, PodName, Workload
from schemas.units import Seconds
from streams.clients.cluster_port import OOMKill, Pod, PodUsage
from streams.clients.kube import amounts

HASH_LABEL = "pod-template-hash"
Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time that says its offset, as all of Kubernetes' do."""


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An owner reference."""

    kind: str
    name: str
    controller: bool = False
    api_version: str = ""


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Object metadata."""

    name: str
    namespace: str = "default"
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] | None = None
    owner_references: list[Owner] = []


class Resources(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits as quantities."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class Container(msgspec.Struct, frozen=True, gc=False):
    """A container of a pod's spec."""

    name: str
    resources: Resources = Resources()


class Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container ended."""

    reason: str = ""
    finished_at: Time | None = None


class Running(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container at work."""

    started_at: Time | None = None


class Condition(msgspec.Struct, frozen=True, gc=False):
    """A pod condition."""

    type: str
    status: str
    reason: str = ""


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """One of: running, terminated, or neither (waiting)."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the kubelet says of a container. `resources` is what is in force."""

    name: str
    restart_count: int = 0
    ready: bool = False
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    resources: Resources | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A pod's spec."""

    containers: list[Container]
    init_containers: list[Container] = []
    node_name: str | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A pod's status."""

    phase: PodPhase = PodPhase.UNKNOWN
    start_time: Time | None = None
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    qos_class: str = ""


class PodObject(msgspec.Struct, frozen=True, gc=False):
    """A pod."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus = PodStatus()


class PodList(msgspec.Struct, frozen=True, gc=False):
    """A list of pods."""

    items: list[PodObject]


class MetricsContainer(msgspec.Struct, frozen=True, gc=False):
    """Usage of one container."""

    name: str
    usage: dict[str, str]


class PodMetrics(msgspec.Struct, frozen=True, gc=False):
    """metrics.k8s.io's usage of one pod."""

    metadata: Metadata
    timestamp: Time
    window: str
    containers: list[MetricsContainer]


class PodMetricsList(msgspec.Struct, frozen=True, gc=False):
    """A list of usages."""

    items: list[PodMetrics]


class StatusDetails(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Details of a refusal."""

    retry_after_seconds: float = 0


class Status(msgspec.Struct, frozen=True, gc=False):
    """A refusal."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


def read_pod(cluster: str, pod: PodObject) -> Pod:
    """A pod in the port's words. Raises ValueError when it lacks a creation time or carries a bad quantity."""
    meta = pod.metadata
    if meta.creation_timestamp is None:
        msg = f"pod '{meta.namespace}/{meta.name}' has no creation timestamp"
        raise ValueError(msg)
    statuses = {status.name: status for status in pod.status.container_statuses}
    first = {status.name: status for status in pod.status.init_container_statuses}
    return Pod(
        workload=_workload(cluster, meta),
        pod=PodName(meta.namespace, meta.name, meta.uid),
        phase=pod.status.phase,
        created=meta.creation_timestamp,
        containers=tuple(_container(container, statuses.get(container.name)) for container in pod.spec.containers),
        asked_requests={c.name: amounts.read(c.resources.requests or {}) for c in pod.spec.containers},
        asked_limits={c.name: amounts.read(c.resources.limits or {}) for c in pod.spec.containers},
        node=pod.spec.node_name,
        labels=meta.labels or {},
        resize=_resize(pod.status.conditions),
        started=pod.status.start_time,
        ooms=tuple(kill for c in pod.spec.containers if c.name in statuses for kill in _ooms(statuses[c.name])),
        leaving=meta.deletion_timestamp is not None,
        init_containers=tuple(_container(container, first.get(container.name)) for container in pod.spec.init_containers),
        qos=pod.status.qos_class,
    )


def read_usage(usage: PodMetrics) -> PodUsage:
    """A usage in the port's words. Raises ValueError for a bad quantity or window."""
    return PodUsage(
        namespace=usage.metadata.namespace,
        pod=usage.metadata.name,
        at=usage.timestamp,
        window=seconds(usage.window),
        containers={container.name: amounts.read(container.usage) for container in usage.containers},
    )


def _workload(cluster: str, meta: Metadata) -> Workload:
    """The topmost controller as far as the pod itself tells: a Deployment is its ReplicaSet's name without the template hash."""
    owner = next((owner for owner in meta.owner_references if owner.controller), None)
    if owner is None:
        return Workload(cluster, meta.namespace, "Pod", meta.name)
    suffix = f"-{(meta.labels or {}).get(HASH_LABEL, '')}"
    if owner.kind == "ReplicaSet" and suffix != "-" and owner.name.endswith(suffix):
        return Workload(cluster, meta.namespace, "Deployment", owner.name.removesuffix(suffix))
    return Workload(cluster, meta.namespace, owner.kind, owner.name)


def _container(container: Container, status: ContainerStatus | None) -> ContainerSeen:
    resources = container.resources if status is None or status.resources is None else status.resources
    return ContainerSeen(
        name=container.name,
        requests=_read(resources.requests),
        limits=_read(resources.limits),
        restarts=0 if status is None else status.restart_count,
        ready=status is not None and status.ready,
    )


def _read(quantities: Mapping[str, str] | None) -> Amounts:
    return Amounts() if quantities is None else amounts.read(quantities)


def _ooms(status: ContainerStatus) -> list[OOMKill]:
    """Those that the last two ends were, by restarts. A container that waits for its restart still counts one restart too few."""
    last, now = status.last_state.terminated, status.state.terminated
    runs = status.state.running is not None or now is not None
    ends = ((last, status.restart_count + (0 if runs else 1)), (now, status.restart_count + 1))
    return [
        OOMKill(status.name, restarts, end.finished_at)
        for end, restarts in ends
        if end is not None and end.reason == "OOMKilled" and end.finished_at is not None
    ]


def _resize(conditions: list[Condition]) -> ResizeState:
    """The first of the two resize conditions that is true; a pending one for a reason we do not know counts as deferred."""
    for condition in conditions:
        if condition.status == "True" and condition.type == "PodResizePending":
            return ResizeState.INFEASIBLE if condition.reason == "Infeasible" else ResizeState.DEFERRED
        if condition.status == "True" and condition.type == "PodResizeInProgress":
            return ResizeState.IN_PROGRESS
    return ResizeState.NONE


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def seconds(duration: str) -> Seconds:
    """Go's spelling of a duration, as far as metrics servers use it: `1m0s`, `30.5s`."""
    total, number = 0.0, ""
    for letter in duration:
        if letter in _UNITS:
            total, number = total + float(number) * _UNITS[letter], ""
        else:
            number += letter
    if number:
        msg = f"the window '{duration}' is not a duration such as '1m0s'"
        raise ValueError(msg)
    return Seconds(total)
