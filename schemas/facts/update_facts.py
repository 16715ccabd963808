"""What the updater knows of a cluster besides its pods and policies: the facts about each kind of object, and one table of all.

The event kinds, what a restarted source reads back, the records of objects that are gone and the updater's tables follow from it.
How an object becomes such a fact stands in streams.sources.kube.publish.update_resources. Node scaling reads some of them, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime

from schemas.facts.scheduled_pods import ControllingOwner, LabelQuery, PodShapeSeen
from schemas.names import KeyedObjectEvent, ObjectEvent
from schemas.policies.scaling import UtilizationMetric


@dataclass(frozen=True, slots=True)
class WebhookLeaseSeen:
    """The state of the Lease `lease` (namespace/name): renewed in time, overdue, or absent. `reason` says which."""

    at: datetime
    cluster: str
    lease: str
    alive: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HpaTargetChanged(KeyedObjectEvent):
    """An HPA scales the object `kind`/`target` of its namespace by these resources, such as `cpu`; none for other metrics."""

    KIND = "HorizontalPodAutoscaler"
    kind: str
    target: str
    resources: tuple[str, ...] = ()
    # The metrics among them that are shares of requests, which move when requests change.
    utilizations: tuple[UtilizationMetric, ...] = ()

    @property
    def workload(self) -> str:
        """The key of what it scales."""
        return f"{self.cluster}/{self.namespace}/{self.kind}/{self.target}"


@dataclass(frozen=True, slots=True)
class HpaTargetRemoved(KeyedObjectEvent):
    """An HPA is gone."""

    KIND = "HorizontalPodAutoscaler"


@dataclass(frozen=True, slots=True)
class QuotaScope:
    """A condition on the pods that a quota counts: `Exists`, `DoesNotExist`, `In` or `NotIn` some values.

    The names are Kubernetes': BestEffort, NotBestEffort, Terminating, NotTerminating, PriorityClass, CrossNamespacePodAffinity.
    """

    scope: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceQuotaChanged(KeyedObjectEvent):
    """A quota was made or changed, or pods came or went. A pod counts if it meets all `scopes`."""

    KIND = "ResourceQuota"
    # As the quota's status has it, for that is what the API server judges by. Only resources of pods are in it, by the names that
    # quotas have for them: pods, count/pods, cpu, limits.memory and their like.
    hard: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, str] = field(default_factory=dict)
    scopes: tuple[QuotaScope, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceQuotaRemoved(KeyedObjectEvent):
    """A quota is gone, or counts no pods any more."""

    KIND = "ResourceQuota"


NAMESPACE, SERVICE_ACCOUNT = "Namespace", "ServiceAccount"


def metadata_key(cluster: str, kind: str, namespace: str, name: str) -> str:
    """The key of an object's facts: `cluster/kind/namespace/name`."""
    return f"{cluster}/{kind}/{namespace}/{name}"


@dataclass(frozen=True, slots=True)
class ObjectMetadataChanged:
    """An object with labels or annotations was made, or has others now. A Namespace is in the `namespace` of its own name."""

    at: datetime
    cluster: str
    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)  # Without those that have long values, which are documents.

    @property
    def key(self) -> str:
        """`cluster/kind/namespace/name`."""
        return metadata_key(self.cluster, self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class ObjectMetadataRemoved:
    """The object is gone, or has neither labels nor annotations any more."""

    at: datetime
    cluster: str
    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`cluster/kind/namespace/name`."""
        return metadata_key(self.cluster, self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class ReplicaControllerChanged:
    """A ReplicaSet, StatefulSet, DaemonSet, Job or the like exists. `replicas` is None where none are set."""

    at: datetime
    cluster: str
    namespace: str
    kind: str
    name: str
    replicas: int | None = None  # Of a Job, the pods that it still wants at one time.
    owner: ControllingOwner | None = None  # Its own controller, such as the Deployment of a ReplicaSet.
    # What was answered when it last tried to make a pod and could not, such as a quota that is used up; empty while it can, and
    # always in the copy for node scaling.
    refusal: str = ""
    # The shape of a DaemonSet's pods as the object has it, so that nodes are known to run them before any of them exists; absent
    # of others, and in other copies.
    template: PodShapeSeen | None = None
    # Why a Job would fail if one more of its pods were evicted; empty where it would not, and in other copies.
    last_failure: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaControllerRemoved:
    """A controller is gone, or wants no pods any more."""

    at: datetime
    cluster: str
    namespace: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class PodDisruptionBudgetChanged(ObjectEvent):
    """A budget was made or changed. `allowed`: how many of its pods may be disrupted now; a selector that is None takes none.

    `unready_go`: it holds back no pod that is not ready, as with the unhealthyPodEvictionPolicy AlwaysAllow.
    """

    selector: LabelQuery | None
    allowed: int = 0
    healthy: int = 0
    desired: int = 0
    expected: int = 0
    unready_go: bool = False


@dataclass(frozen=True, slots=True)
class PodDisruptionBudgetRemoved(ObjectEvent):
    """A budget is gone."""


ObjectChanged = (
    HpaTargetChanged | ReplicaControllerChanged | PodDisruptionBudgetChanged | ResourceQuotaChanged | ObjectMetadataChanged
)
ObjectRemoved = (
    HpaTargetRemoved | ReplicaControllerRemoved | PodDisruptionBudgetRemoved | ResourceQuotaRemoved | ObjectMetadataRemoved
)
UpdateFact = ObjectChanged | ObjectRemoved | WebhookLeaseSeen
TOPIC = "pod-changes-by-cluster"


@dataclass(frozen=True, slots=True)
class UpdateFactKind:
    """Facts about objects of one kind: one for an object that exists, and one for an object that is gone.

    The fields of `removed` besides the time identify an object, and `changed` has them, too.
    """

    changed: type[ObjectChanged]
    removed: type[ObjectRemoved]
    topics: tuple[str, ...] = (TOPIC,)
    compacted: bool = False
    """Whether one of its topics keeps only the newest record of each key, so that a removal ends what the key had."""


UPDATE_FACTS: tuple[UpdateFactKind, ...] = (
    UpdateFactKind(HpaTargetChanged, HpaTargetRemoved, (TOPIC, "policies", "policies-latest"), compacted=True),
    UpdateFactKind(ResourceQuotaChanged, ResourceQuotaRemoved, ("scheduling-changes", TOPIC, "quota-changes")),
    UpdateFactKind(PodDisruptionBudgetChanged, PodDisruptionBudgetRemoved, ("scheduling-changes", TOPIC)),
    UpdateFactKind(ReplicaControllerChanged, ReplicaControllerRemoved, ("scheduling-changes", TOPIC)),
    UpdateFactKind(ObjectMetadataChanged, ObjectMetadataRemoved, ("scheduling-changes", TOPIC)),
)
REMOVED: Mapping[type[ObjectChanged], type[ObjectRemoved]] = {kind.changed: kind.removed for kind in UPDATE_FACTS}
CHANGED: Mapping[type[ObjectRemoved], type[ObjectChanged]] = {kind.removed: kind.changed for kind in UPDATE_FACTS}
# In the order of the fields, which is namespace before name, and kind before both.
_NAMED_BY = {
    event: tuple(field.name for field in fields(kind.removed) if field.name not in {"at", "cluster"})
    for kind in UPDATE_FACTS
    for event in (kind.changed, kind.removed)
}


def object_name(fact: ObjectChanged | ObjectRemoved) -> str:
    """The object's name within its cluster and among those of its kind, such as `namespace/name`."""
    return "/".join(getattr(fact, name) for name in _NAMED_BY[type(fact)])


def removal(fact: ObjectChanged, at: datetime) -> ObjectRemoved:
    """The fact that the object of `fact` is gone since `at`."""
    return REMOVED[type(fact)](at=at, cluster=fact.cluster, **{name: getattr(fact, name) for name in _NAMED_BY[type(fact)]})
