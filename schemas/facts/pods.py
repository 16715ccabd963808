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


OOM_KILLED = "OOMKilled"
"""The reason by which Kubernetes says that a container was killed for lack of memory."""


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One run of a container that is over: when it started and ended, and why. `started` is None where nobody says."""

    ended: datetime
    started: datetime | None = None
    reason: str = ""

    @property
    def killed_for_memory(self) -> bool:
        """Whether it ended by an OOM kill."""
        return self.reason == OOM_KILLED


@dataclass(frozen=True, slots=True)
class ContainerSeen:
    """One container of a pod, as its spec and status stand.

    `restarts_on`: the resources whose change in place restarts it (`resizePolicy` of the pod). `sidecar`: it is an init container
    with restart policy Always, which runs beside the containers. `last_run`: its last run that is over, None before the first
    end. A container that waits to be started again shows the run that has just ended.
    """

    name: str
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()
    restarts: int = 0
    ready: bool = False
    restarts_on: tuple[str, ...] = ()
    sidecar: bool = False
    last_run: ContainerRun | None = None

    @property
    def broken(self) -> bool:
        """Whether its last run ended by an OOM kill, and it does not serve again: it waits for its restart, or is not ready."""
        return not self.ready and self.last_run is not None and self.last_run.killed_for_memory


@dataclass(frozen=True, slots=True)
class BoostedContainer:
    """A container that admission gave more CPU while it starts, and the CPU and memory that it would have had."""

    name: str
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()


@dataclass(frozen=True, slots=True)
class AmountsBefore:
    """The amounts that a container had before admission changed them, which are its owner's."""

    name: str
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()


@dataclass(frozen=True, slots=True)
class AdmissionNote:
    """What admission noted on a pod whose amounts it changed: the offer that the pod follows, and the amounts before."""

    offer: str
    before: tuple[AmountsBefore, ...] = ()


@dataclass(frozen=True, slots=True)
class PodChanged:
    """A pod was created or its spec or status changed. Key: the workload; a copy is keyed by cluster.

    `opted_out`: the annotation by which its owner asks that nobody evicts it; empty when there is none. `controller`: its direct
    controller as `kind/name`, such as a ReplicaSet; empty when it has none or the source does not report it. `observed`: the
    containers that admission saw, as it noted them; None when it noted nothing. `boosted`: the containers with a startup boost;
    `ready_since`: since when such a pod is ready, None while it is not and for all other pods. `leaving`: it is being deleted,
    and may run on for its grace period. `requests`: those of the pod itself (in its spec), which count instead of its
    containers'; empty where there are none. `limits`: likewise of the pod itself. `admitted`: the note of admission; None on a
    pod that it did not change. `service_account`: the one that it runs as, in its namespace; empty where the source does not say.
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
    admitted: AdmissionNote | None = None
    limits: Amounts = Amounts()
    service_account: str = ""

    @property
    def running_together(self) -> tuple[ContainerSeen, ...]:
        """The containers and sidecars, which run at the same time."""
        return (*self.containers, *(container for container in self.init_containers if container.sidecar))

    @property
    def owners_amounts(self) -> tuple[AmountsBefore, ...]:
        """The amounts of the containers that admission changed, as they were before; empty where it noted none."""
        return () if self.admitted is None else self.admitted.before


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod is gone from the cluster."""

    at: datetime
    workload: Workload
    pod: PodName
