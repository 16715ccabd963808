"""What the scheduler needs to know of a pod and of a node, as values.

A `PodShape` is everything about a pod that decides where it may run. Pods of one controller share one, so a simulation works by
shape and not by pod. Nothing is validated here; the code that reads objects of others does that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agents.logic.nodes.scheduling.scheduling_selectors import NOTHING, LabelRequirement, SchedulingSelector, integer
from schemas.pod_requests import IntegerAmounts
from schemas.well_known_labels import HOSTNAME, MIRROR_POD

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
COMPARISONS = ("Gt", "Lt")
"""Operators of tolerations that take taints whose value is a larger, or a smaller, integer than their own."""
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - the wildcard of a host port, nothing is bound to it

Pairs = tuple[tuple[str, str], ...]
"""Labels as sorted pairs, so that they can be compared and hashed."""


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


HARD = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
"""The effects that keep a pod away."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint. The effect is text: AWS tags can carry one that Kubernetes does not know."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration, fields as Kubernetes has them; empty key and effect mean any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether it tolerates the taint. Source: Toleration.ToleratesTaint in k8s.io/component-helpers, scheduling/corev1."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator in COMPARISONS:
            # A value that is no integer compares with nothing.
            mine, theirs = integer(self.value), integer(taint.value)
            return mine is not None and theirs is not None and (theirs > mine if self.operator == "Gt" else theirs < mine)
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port that a pod takes from its node."""

    port: int
    protocol: str = "TCP"
    address: str = EVERY_ADDRESS

    def conflicts(self, other: "HostPort") -> bool:
        """Whether both cannot be on one node. Source: HostPortInfo.CheckConflict in the scheduler's framework/types.go."""
        same = self.port == other.port and self.protocol == other.protocol
        # The wildcard takes the port on every address of the node.
        return same and (self.address == other.address or EVERY_ADDRESS in (self.address, other.address))


@dataclass(frozen=True, slots=True)
class Audience:
    """The pods that a rule between pods concerns: those with these labels, in these namespaces."""

    selector: SchedulingSelector
    namespaces: frozenset[str]  # Named ones.
    namespace_labels: SchedulingSelector = NOTHING  # Takes further ones, by their labels.


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A required (anti-)affinity term between pods: the audience shares, or must not share, a value of the node label `key`."""

    audience: Audience
    key: str


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """A topology spread constraint. `required` is DoNotSchedule; the others decide nothing here."""

    key: str
    max_skew: int
    selector: SchedulingSelector
    min_domains: int = 1
    honor_affinity: bool = True  # Counts only nodes that pass the pod's node affinity.
    honor_taints: bool = False  # Counts only nodes whose taints the pod tolerates.
    required: bool = True


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """A node selector term: all of its demands on labels and on the node's name. `invalid` terms and empty ones take no node."""

    expressions: tuple[LabelRequirement, ...] = ()
    names: tuple[LabelRequirement, ...] = ()
    invalid: bool = False

    @property
    def void(self) -> bool:
        """Whether it can take no node at all."""
        return self.invalid or not (self.expressions or self.names)


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume that is bound, or will be: who attaches it, where it can be, and whether a second user is refused."""

    driver: str
    handle: str
    # The node terms of the PersistentVolume, or of the allowed topologies of its class; empty means anywhere.
    terms: tuple[NodeTerm, ...] = ()
    exclusive: bool = False
    # Each pod of the shape has one of its own, and `handle` tells only those of one pod apart.
    own: bool = False


@dataclass(frozen=True, slots=True)
class PodShape:
    """What decides where a pod may run. `requests` are sorted pairs; `terminating` pods no longer count for spread."""

    namespace: str = "default"
    labels: Pairs = ()
    requests: tuple[tuple[str, int], ...] = ()
    node_selector: Pairs = ()
    node_terms: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[TopologySpread, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    terminating: bool = False
    refused: str = ""
    """Why no node can take it whatever it looks like: a rule of it could not be read."""

    def request(self, resource: str) -> int:
        """How much of a resource it asks for."""
        return next((amount for name, amount in self.requests if name == resource), 0)

    @property
    def spreads_over_hosts(self) -> bool:
        """Whether it has a spread constraint, of either kind, over host names."""
        return any(constraint.key == HOSTNAME for constraint in self.spread)


@dataclass(frozen=True, slots=True)
class SchedulingNode:
    """A node, or a template of one: what it offers and which pods it keeps away."""

    name: str
    labels: Pairs = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: IntegerAmounts = field(default_factory=dict)
    capacity: IntegerAmounts = field(default_factory=dict)
    # How many volumes of a driver it can attach; a driver that is absent has no limit.
    attachable: IntegerAmounts = field(default_factory=dict)

    def label(self, key: str) -> str | None:
        """The value of a label."""
        return next((value for name, value in self.labels if name == key), None)


def pairs(labels: dict[str, str]) -> Pairs:
    """Labels as a Shape and a Node keep them."""
    return tuple(sorted(labels.items()))


# A pod for node scaling: where it may run (its shape), its owner, and what matters before it is moved.

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
