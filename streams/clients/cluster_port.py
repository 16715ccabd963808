"""The client port: what sources and consumers may ask of a cluster, whoever answers.

Two answer today: a Kubernetes API server (`kubernetes`) and the simulated cluster in memory. Both pass one conformance suite.

Every call says what went wrong in one of two words. `TryAgain`: the other side may yet do it (throttled, broken, an answer that
cannot be read, a disruption budget that is used up; as `Unreachable`: nobody answered). `GiveUp`: it will not (no such pod,
another pod under that name, amounts that make no sense, not allowed). Nothing here decides anything, and nothing retries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from schemas.facts.pods import ContainerSeen, PodPhase, ResizeState
from schemas.names import Amounts, PodName, Workload
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class OOMKill:
    """The last end of a container, when it was an OOM kill. `restarts` is the restart count of its successor."""

    container: str
    restarts: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod as the cluster shows it now.

    `containers` carries what is in force: the status' resources where the cluster reports them, else the spec's. The two `asked`
    mappings carry what the spec asks for, by container; they differ from what is in force while a resize is on its way.
    """

    workload: Workload
    pod: PodName
    phase: PodPhase
    created: datetime
    containers: tuple[ContainerSeen, ...]
    asked_requests: Mapping[str, Amounts]
    asked_limits: Mapping[str, Amounts]
    node: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    resize: ResizeState = ResizeState.NONE
    started: datetime | None = None
    ooms: tuple[OOMKill, ...] = ()
    leaving: bool = False
    """The pod is being deleted."""
    init_containers: tuple[ContainerSeen, ...] = ()
    qos: str = ""


@dataclass(frozen=True, slots=True)
class PodUsage:
    """What the containers of one pod used, averaged over the window that ended at `at`. None means "not seen"."""

    namespace: str
    pod: str
    at: datetime
    window: Seconds
    containers: Mapping[str, Amounts]


@dataclass(frozen=True, slots=True)
class Patch:
    """New requests and limits by container for a pod that is about to be created. Empty: leave it as it is."""

    requests: Mapping[str, Amounts] = field(default_factory=dict)
    limits: Mapping[str, Amounts] = field(default_factory=dict)


Admission = Callable[[Pod], Patch]
"""Asked once for each pod before it is created. Never raises: a pod must not fail to start because of us."""


def admit_unchanged(_pod: Pod) -> Patch:
    """No pod is changed."""
    return Patch()


class ClusterClient(Protocol):
    """One cluster. All calls may raise TryAgain and GiveUp, and raise nothing else."""

    @property
    def cluster(self) -> str:
        """The cluster's name, the first part of every workload key."""

    def pods(self) -> Sequence[Pod]:
        """All pods, by namespace and name."""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now; None when there is none."""

    def usage(self) -> Sequence[PodUsage]:
        """What running pods used lately, by namespace and name."""

    def resize(self, pod: PodName, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        """Ask for new amounts in place. Returns when the cluster has accepted, which may be before they are in force.

        GiveUp when the pod with this uid is gone. What its node could never hold is accepted, and the pod then shows INFEASIBLE.
        """

    def evict(self, pod: PodName) -> None:
        """Evict the pod. TryAgain while its disruption budget is used up; GiveUp when the pod with this uid is gone."""
