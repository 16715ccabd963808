"""What the updater knows of a cluster besides its pods and policies, as one table.

The event kinds, what a restarted source reads back, the records of objects that are gone and the updater's tables follow from it.
How an object becomes such a fact stands in streams.sources.kube.publish.update_resources.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime

from schemas.facts.disruption_budgets import PodDisruptionBudgetChanged, PodDisruptionBudgetRemoved
from schemas.facts.hpa_targets import HpaTargetChanged, HpaTargetRemoved
from schemas.facts.object_metadata import ObjectMetadataChanged, ObjectMetadataRemoved
from schemas.facts.replica_controllers import ReplicaControllerChanged, ReplicaControllerRemoved
from schemas.facts.resource_quotas import ResourceQuotaChanged, ResourceQuotaRemoved
from schemas.facts.webhook_leases import WebhookLeaseSeen

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
