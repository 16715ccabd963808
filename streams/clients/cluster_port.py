"""The cluster port: what sources and consumers may ask of a cluster, real or simulated.

There are two implementations: a real API server and the simulated cluster in memory. Both pass one conformance suite.

Every call fails in one of two ways. `TryAgain` means that the cluster may yet do it: it throttles, it is broken, its answer
cannot be read, a disruption budget is used up, or, as `Unreachable`, nobody answered. `GiveUp` means that it will not: there is
no such pod, another pod has that name, the amounts make no sense, or we lack the right. Nothing here decides anything, and
nothing retries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from typing import Protocol

from schemas.facts.pods import AdmissionNote, ContainerSeen, PodChanged, PodSeen, ResizeState
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts, PodName
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class OOMKill:
    """How a container last ended, when that was an OOM kill. `restarts` is the restart count of its successor.

    `started`: when the run began that it ended; None where nobody says.
    """

    container: str
    restarts: int
    at: datetime
    started: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod(PodSeen):
    """One pod as the cluster shows it now: what its fact says, and what only those need who act on it.

    `containers` has the amounts in force: from the status where the cluster reports them, else from the spec. `asked_requests`
    and `asked_limits` have what the spec asks for, by container. They differ from the amounts in force during a resize.
    """

    asked_requests: Mapping[str, Amounts]
    asked_limits: Mapping[str, Amounts]
    ooms: tuple[OOMKill, ...] = ()
    resize_message: str = field(default="", compare=False)
    """The kubelet's message about `resize`, for people."""
    version: str = field(default="", compare=False)
    """The object's version, by which a change finds out that the pod is no longer as it was read; empty when there is none."""


@dataclass(frozen=True, slots=True)
class PodUsage:
    """What the containers of one pod used, on average over the window that ended at `at`. None means "not reported"."""

    namespace: str
    pod: str
    at: datetime
    window: Seconds
    containers: Mapping[str, Amounts]


@dataclass(frozen=True, slots=True)
class Patch:
    """New requests and limits, by container, and a note, for a pod about to be created. An empty patch leaves it as it is."""

    requests: Mapping[str, Amounts] = field(default_factory=dict)
    limits: Mapping[str, Amounts] = field(default_factory=dict)
    note: AdmissionNote | None = None


AdmissionHook = Callable[[Pod], Patch]
"""Called once for each pod before it is created. It must never raise: no pod may fail to start because of us."""


def admit_unchanged(_pod: Pod) -> Patch:
    """The admission that changes no pod."""
    return Patch()


class ClusterClient(Protocol):
    """One cluster. Every call may raise TryAgain and GiveUp, and nothing else."""

    @property
    def cluster(self) -> str:
        """The cluster's name, the first part of every workload key."""

    def pods(self) -> Sequence[Pod]:
        """All pods, by namespace and name."""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now; None when there is none."""

    def usage(self) -> Sequence[PodUsage]:
        """What running pods used lately, by namespace and name."""

    def pod_usage(self, namespace: str, name: str) -> PodUsage | None:
        """What one pod used lately; None when it was not measured yet."""

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        """Ask for new amounts in place of those of `pod`, which was read just before.

        Returns once the cluster has accepted them, which may be before they are in force. Raises GiveUp when the pod with this
        uid is gone, and TryAgain when it has changed since it was read. The cluster may accept amounts that the node could never
        hold; the pod then shows INFEASIBLE.
        """

    def evict(self, pod: PodName) -> None:
        """Evict the pod. Raises TryAgain while its disruption budget is used up, GiveUp when the pod with this uid is gone."""


def find_live(client: ClusterClient, wanted: PodName) -> Pod | None:
    """The pod of this name and uid; None when it is gone or on its way out. Raises TryAgain and GiveUp."""
    pod = client.pod(wanted.namespace, wanted.name)
    # A StatefulSet's next pod has the same name, and another uid.
    return None if pod is None or pod.pod.uid != wanted.uid or pod.leaving else pod


def asked_meanwhile(
    containers: Sequence[ContainerSeen], asked: Mapping[str, Amounts], resize: ResizeState
) -> Mapping[str, Amounts]:
    """What containers ask for of a resize that is open, by name, where that is not what they have."""
    if resize is ResizeState.NONE:
        return {}
    return {seen.name: asked[seen.name] for seen in containers if asked.get(seen.name, seen.requests) != seen.requests}


_seen = attrgetter(*(field.name for field in fields(PodSeen)))


def pod_changed(pod: Pod, at: datetime) -> PodChanged:
    """The fact about a pod as it is now."""
    return PodChanged(at, *_seen(pod))


def oom_killed(pod: Pod, kill: OOMKill, killed: ContainerSeen) -> ContainerOOMKilled:
    """The fact about an OOM kill. `killed` is the container as it was when it was killed."""
    return ContainerOOMKilled(
        at=kill.at,
        workload=pod.workload,
        pod=pod.pod,
        container=kill.container,
        restarts=kill.restarts,
        memory_request=killed.requests.memory,
        memory_limit=killed.limits.memory,
        started=kill.started,
        pod_limit=pod.limits.memory,
    )
