"""Facts about pods: what one looks like, and that it is gone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from schemas.names import Amounts, PodName, Workload


class PodPhase(StrEnum):
    """Kubernetes' pod phases."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class ResizeState(StrEnum):
    """What the kubelet reports about an in-place resize; NONE when none is pending.

    ERROR: it failed while it was under way. UNKNOWN: the kubelet gives a reason that we do not know.
    """

    NONE = "None"
    IN_PROGRESS = "InProgress"
    DEFERRED = "Deferred"
    INFEASIBLE = "Infeasible"
    ERROR = "Error"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class ContainerSeen:
    """One container of a pod, as its spec and status stand.

    `restarts_on`: the resources whose change in place restarts it (`resizePolicy` of the pod). `sidecar`: it is an init container
    with restart policy Always, which runs beside the containers.
    """

    name: str
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()
    restarts: int = 0
    ready: bool = False
    restarts_on: tuple[str, ...] = ()
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class BoostedContainer:
    """A container that admission gave more CPU while it starts, and the CPU and memory that it would have had."""

    name: str
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()


@dataclass(frozen=True, slots=True)
class PodChanged:
    """A pod was created or its spec or status changed. Key: the workload; a copy is keyed by cluster.

    `opted_out`: the annotation by which its owner asks that nobody evicts it; empty when there is none. `controller`: its direct
    controller as `kind/name`, such as a ReplicaSet; empty when it has none or the source does not report it. `observed`: the
    containers that admission saw, as it noted them; None when it noted nothing. `boosted`: the containers with a startup boost;
    `ready_since`: since when such a pod is ready, None while it is not and for all other pods. `leaving`: it is being deleted,
    and may run on for its grace period. `requests`: those of the pod itself (in its spec), which count instead of its
    containers'; empty where there are none.
    """

    at: datetime
    workload: Workload
    pod: PodName
    phase: PodPhase
    created: datetime
    containers: tuple[ContainerSeen, ...]
    node: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    resize: ResizeState = ResizeState.NONE
    started: datetime | None = None
    init_containers: tuple[ContainerSeen, ...] = ()
    qos: str = ""
    opted_out: str = ""
    controller: str = ""
    observed: str | None = None
    boosted: tuple[BoostedContainer, ...] = ()
    ready_since: datetime | None = None
    leaving: bool = False
    requests: Amounts = Amounts()

    @property
    def running_together(self) -> tuple[ContainerSeen, ...]:
        """The containers and sidecars, which run at the same time."""
        return (*self.containers, *(each for each in self.init_containers if each.sidecar))


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod is gone from the cluster."""

    at: datetime
    workload: Workload
    pod: PodName
