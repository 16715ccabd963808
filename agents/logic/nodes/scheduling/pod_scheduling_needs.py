"""A pod for node scaling: where it may run (its shape), its owner, and what matters before it is moved."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.logic.nodes.scheduling.pod_shapes import PodShape
from schemas.well_known_labels import MIRROR_POD

SOURCE = "kubernetes.io/config.source"
DAEMON = "cluster-autoscaler.kubernetes.io/daemonset-pod"
DAEMON_EVICTION = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
# Kubernetes' own, for a pod that does not say.
DEFAULT_GRACE = 30.0
LINGERING = 30.0
"""Seconds beyond its grace period after which a terminating pod is as good as gone."""


@dataclass(frozen=True, slots=True)
class PodOwner:
    """An owner reference. `controller`: it is the one that recreates the pod."""

    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    controller: bool = True

    @property
    def group(self) -> str | None:
        """The API group, empty for the core group, or None if the version cannot be read."""
        parts = self.api_version.split("/")
        return None if len(parts) > len(("group", "version")) else parts[0] if len(parts) > 1 else ""


# By identity: natures are large, there is one object of each, and they are the keys of most mappings here.
@dataclass(frozen=True, slots=True, eq=False)
class PodNature:
    """What pods of one controller share; two natures are equal only if they are one object."""

    shape: PodShape
    owners: tuple[PodOwner, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    restart_policy: str = "Always"
    priority: int | None = None
    grace: float | None = None  # Seconds; None if the pod does not say.
    local: tuple[str, ...] = ()  # Volumes that live on the node.


@dataclass(frozen=True, slots=True)
class SchedulablePod:
    """A pod. Times in seconds on the stage's clock."""

    name: str
    nature: PodNature
    phase: str = "Running"
    created: float = 0.0
    deleted: float | None = None

    @property
    def shape(self) -> PodShape:
        """What decides where it may run."""
        return self.nature.shape

    @property
    def namespace(self) -> str:
        """Its namespace, which is part of its shape."""
        return self.nature.shape.namespace

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def controller(owners: tuple[PodOwner, ...]) -> PodOwner | None:
    """The owner that controls a pod: the first that says so."""
    return next((owner for owner in owners if owner.controller), None)


def is_mirror(annotations: Mapping[str, str]) -> bool:
    """Whether a pod mirrors one that the node's kubelet runs by itself."""
    return MIRROR_POD in annotations


def is_static(annotations: Mapping[str, str]) -> bool:
    """Whether a pod comes from anywhere but the API."""
    return annotations.get(SOURCE, "api") != "api"


def is_kubelets(annotations: Mapping[str, str]) -> bool:
    """Whether a pod belongs to its node's kubelet: a static one, or the mirror of one."""
    return is_mirror(annotations) or is_static(annotations)


def is_daemon(nature: PodNature) -> bool:
    """Whether a pod counts as one of a DaemonSet: it is controlled by one, or its annotation says so."""
    mine = controller(nature.owners)
    return (mine is not None and mine.kind == "DaemonSet") or nature.annotations.get(DAEMON) == "true"


def evicts_daemon(nature: PodNature, *, by_default: bool) -> bool:
    """Whether a DaemonSet's pod is evicted from a node that goes. Source: PodsToEvict in utils/daemonset/daemonset.go."""
    annotated = nature.annotations.get(DAEMON_EVICTION)
    # Any other value of the annotation forbids it.
    return by_default if annotated is None else annotated == "true"


def lingers(pod: SchedulablePod, now: float) -> bool:
    """Whether a pod should have gone long ago. Source: IsPodLongTerminating in utils/drain/drain.go."""
    if pod.deleted is None:
        return False
    grace = pod.nature.grace
    return pod.deleted + (DEFAULT_GRACE if grace is None else grace) + LINGERING < now


def recreated(pod: SchedulablePod) -> bool:
    """Whether a pod comes back as a pending one when its node goes."""
    nature = pod.nature
    return not (is_kubelets(nature.annotations) or is_daemon(nature)) and pod.deleted is None
