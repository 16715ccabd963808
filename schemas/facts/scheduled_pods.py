"""Facts about pods as the scheduler sees them: a shape, published once, and for each pod its shape and its node.

The pods of one controller differ in little but their names. What they share is a shape; its id follows from its content. A shape
is published before the first pod that cites it, and forgotten with the last one; when a pod needs it again, it is published
again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from schemas.facts.pods import PodPhase
from schemas.names import PodName
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class LabelDemand:
    """A requirement on one label, in the API's terms; an unknown operator is passed on unchanged."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelQuery:
    """A label selector. Where a field may be None, None is the selector that is absent; this one without demands takes all."""

    labels: Mapping[str, str] = field(default_factory=dict)
    expressions: tuple[LabelDemand, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """A node selector term: demands on labels and on fields of the node, all to be met."""

    expressions: tuple[LabelDemand, ...] = ()
    fields: tuple[LabelDemand, ...] = ()


@dataclass(frozen=True, slots=True)
class PodToleration:
    """A toleration, fields as Kubernetes has them; empty key and effect mean any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class PodHostPort:
    """A port that a pod takes from its node."""

    port: int
    protocol: str = "TCP"
    address: str = ""


@dataclass(frozen=True, slots=True)
class RequiredPodAffinity:
    """A required (anti-)affinity term between pods. Without namespaces and namespace selector it means the pod's own."""

    topology_key: str
    selector: LabelQuery | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelQuery | None = None


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint. `required` is DoNotSchedule."""

    topology_key: str
    max_skew: int
    selector: LabelQuery | None = None
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False
    required: bool = True


@dataclass(frozen=True, slots=True)
class AttachedVolume:
    """A volume that a driver attaches to the node. `terms` say which nodes it can be on; without terms it can be on any."""

    driver: str
    handle: str
    terms: tuple[NodeQuery, ...] = ()  # Which nodes it can be on; without terms it can be on any.
    exclusive: bool = False  # A second pod that uses it is refused.
    # Each pod of the shape has one of its own, and `handle` tells only those of one pod apart.
    own: bool = False
    # A sentence that says what has to happen before any node can take the pod.
    missing: str = ""


@dataclass(frozen=True, slots=True)
class ControllingOwner:
    """The controller of a pod, from its owner references."""

    kind: str
    name: str
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class PodShapeSeen:
    """What pods of one controller share. `shape` is its id, a hash of everything below it."""

    at: datetime
    cluster: str
    shape: str
    namespace: str
    requests: Mapping[str, int] = field(default_factory=dict)  # Whole amounts, CPU in thousandths of a core.
    # Those that differ from pod to pod of a set (its index, its own name) are left out, or each pod would be a shape of its own.
    labels: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    # Without the node that a DaemonSet's pod is meant for, which stands with the pod.
    node_terms: tuple[NodeQuery, ...] | None = None
    tolerations: tuple[PodToleration, ...] = ()
    ports: tuple[PodHostPort, ...] = ()
    affinity: tuple[RequiredPodAffinity, ...] = ()
    anti_affinity: tuple[RequiredPodAffinity, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    volumes: tuple[AttachedVolume, ...] = ()
    owner: ControllingOwner | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)  # Those that node scaling obeys.
    restart_policy: str = "Always"
    priority: int | None = None
    grace: Seconds | None = None  # The pod's termination grace period.
    local: tuple[str, ...] = ()  # Volumes that live on the node.
    # What the scheduler reads of such a pod and nobody here understands.
    unread: tuple[str, ...] = ()
    containers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The requests of the containers that run together, sidecars among them, by name; empty where the pod requests as a whole."""
    starting: Mapping[str, int] = field(default_factory=dict)
    """What the pod asks for at least, whatever these containers request: for its init containers, and its overhead."""


@dataclass(frozen=True, slots=True)
class PodPlacementChanged:
    """A pod that is not finished appeared, or moved, or changed its shape."""

    at: datetime
    cluster: str
    pod: PodName
    shape: str
    phase: PodPhase
    created: datetime
    node: str | None = None
    # The scheduler's reason why it waits; `message` is its sentence.
    unschedulable: str = ""
    deleted: datetime | None = None  # When its deletion was asked for.
    pinned: str = ""  # The only node that it may run on, as a DaemonSet's pod says.
    nominated: str = ""  # The node where the scheduler makes room for it.
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodPlacementRemoved:
    """A pod is gone or finished, and takes nothing any more."""

    at: datetime
    cluster: str
    pod: PodName
