"""Facts: what a source saw. Past tense, never a judgement."""

from schemas.facts.nodes import (
    CapacityBufferGone,
    CapacityBufferSeen,
    ExpanderPrioritiesGone,
    ExpanderPrioritiesSeen,
    InstanceInterruptionNoticed,
    NodeChanged,
    NodeDetailsChanged,
    NodeDetailsRemoved,
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceGone,
    NodeInstanceSeen,
    NodeRemoved,
    ScalingActivityFailed,
)
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.replica_scaling import HpaGone, HpaSeen, LoadHistoryRead, LoadQueryFailed, LoadScraped, ScaleSeen
from schemas.facts.scheduled_pods import PodPlacementChanged, PodPlacementRemoved, PodShapeSeen
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import (
    ObjectMetadataChanged,
    ObjectMetadataRemoved,
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
    UpdateFact,
)
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, MetricsScraped

SchedulingFact = (
    NodeDetailsChanged
    | NodeDetailsRemoved
    | PodShapeSeen
    | PodPlacementChanged
    | PodPlacementRemoved
    | PodDisruptionBudgetChanged
    | PodDisruptionBudgetRemoved
    | ReplicaControllerChanged
    | ReplicaControllerRemoved
    | ObjectMetadataChanged
    | ObjectMetadataRemoved
    | ExpanderPrioritiesSeen
    | ExpanderPrioritiesGone
    | CapacityBufferSeen
    | CapacityBufferGone
)
LoadFact = LoadScraped | LoadHistoryRead | LoadQueryFailed
ReplicaFact = HpaSeen | HpaGone | ScaleSeen
NodeGroupFact = (
    NodeGroupSeen | NodeGroupGone | NodeInstanceSeen | NodeInstanceGone | ScalingActivityFailed | InstanceInterruptionNoticed
)
Fact = (
    MetricsScraped
    | ContainerOOMKilled
    | PodChanged
    | PodDeleted
    | CheckpointSeen
    | NodeChanged
    | NodeRemoved
    | SourceReported
    | SchedulingFact
    | NodeGroupFact
    | ReplicaFact
    | UpdateFact
    | LoadFact
)
