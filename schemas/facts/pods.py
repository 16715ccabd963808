"""Facts about pods: what one looks like, and that it is gone."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes


class PodPhase(StrEnum):
    """Kubernetes' pod phases."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


ENDED_PHASES = (PodPhase.SUCCEEDED, PodPhase.FAILED)
"""Those of a pod that has ended and runs nothing any more."""


class ResizeState(StrEnum):
    """What the kubelet reports about an in-place resize; NONE when none is pending."""

    NONE = "None"
    IN_PROGRESS = "InProgress"
    DEFERRED = "Deferred"
    INFEASIBLE = "Infeasible"
    ERROR = "Error"  # It failed while it was under way.
    UNKNOWN = "Unknown"  # The kubelet gives a reason that we do not know.


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
    """One container of a pod, as its spec and status stand."""

    name: str
    requests: Amounts = Amounts()
    limits: Amounts = Amounts()
    restarts: int = 0
    ready: bool = False
    # The resources whose change in place restarts it (`resizePolicy` of the pod).
    restarts_on: tuple[str, ...] = ()
    # It is an init container with restart policy Always, which runs beside the containers.
    sidecar: bool = False
    # Its last run that is over, None before the first end. A container that waits to be started again shows the run that has just
    # ended.
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
class PodSeen:
    """A pod as its spec and status stand: what a cluster's client shows of it, and what its fact says."""

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
    # The annotation by which its owner asks that nobody evicts it; empty when there is none.
    opted_out: str = ""
    # Its direct controller as `kind/name`, such as a ReplicaSet; empty when it has none or the source does not report it.
    controller: str = ""
    # The containers that admission saw, as it noted them; None when it noted nothing.
    observed: str | None = None
    boosted: tuple[BoostedContainer, ...] = ()  # The containers with a startup boost.
    # Since when a pod with a boost is ready; None while it is not, and for all other pods.
    ready_since: datetime | None = None
    leaving: bool = False  # It is being deleted, and may run on for its grace period.
    # Those of the pod itself (in its spec), which count instead of its containers'; empty where there are none.
    requests: Amounts = Amounts()
    admitted: AdmissionNote | None = None  # The note of admission; None on a pod that it did not change.
    limits: Amounts = Amounts()  # Likewise of the pod itself.
    # The one that it runs as, in its namespace; empty where the source does not say.
    service_account: str = ""
    # What its spec asks for while a resize is open, by container, where that differs from what is in force.
    asked: Mapping[str, Amounts] = field(default_factory=dict)

    @property
    def running_together(self) -> tuple[ContainerSeen, ...]:
        """The containers and sidecars, which run at the same time."""
        return (*self.containers, *(container for container in self.init_containers if container.sidecar))

    @property
    def owners_amounts(self) -> tuple[AmountsBefore, ...]:
        """The amounts of the containers that admission changed, as they were before; empty where it noted none."""
        return () if self.admitted is None else self.admitted.before

    def limit_beside(self, container: ContainerSeen) -> Bytes | None:
        """The memory limit of the pod itself, in bytes, where this container has none of its own, or zero; else None."""
        return None if container.limits.memory else self.limits.memory or None


PROTECTORS: Mapping[str, Callable[[PodSeen], Iterable[str]]] = {
    "Namespace": lambda pod: (pod.pod.namespace,),
    "ServiceAccount": lambda pod: (pod.service_account,),
}
"""The names of the objects whose labels may protect a pod, by kind. Each kind has a row in the kube source's UPDATE_RESOURCES."""


@dataclass(frozen=True)
class _At:
    """When it was so. The last base of a dataclass has its first field, and the time stands first on the wire."""

    __slots__ = ()  # the class below has the slot, as two bases with slots exclude each other
    at: datetime


@dataclass(frozen=True, slots=True)
class PodChanged(PodSeen, _At):
    """A pod was created or its spec or status changed. Key: the workload; a copy is keyed by cluster."""


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod is gone from the cluster."""

    at: datetime
    workload: Workload
    pod: PodName
