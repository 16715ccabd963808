"""Facts: what a source saw. Past tense, never a judgement."""

from schemas.facts.capacity_buffers import CapacityBufferGone, CapacityBufferSeen
from schemas.facts.disruption_budgets import PodDisruptionBudgetChanged, PodDisruptionBudgetRemoved
from schemas.facts.expander_priorities import ExpanderPrioritiesGone, ExpanderPrioritiesSeen
from schemas.facts.load import LoadHistoryRead, LoadQueryFailed, LoadScraped
from schemas.facts.node_groups import (
    InstanceInterruptionNoticed,
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceGone,
    NodeInstanceSeen,
    ScalingActivityFailed,
)
from schemas.facts.nodes import NodeChanged, NodeDetailsChanged, NodeDetailsRemoved, NodeRemoved
from schemas.facts.object_metadata import ObjectMetadataChanged, ObjectMetadataRemoved
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.replica_controllers import ReplicaControllerChanged, ReplicaControllerRemoved
from schemas.facts.replica_scaling import HpaGone, HpaSeen, ScaleSeen
from schemas.facts.scheduled_pods import PodPlacementChanged, PodPlacementRemoved, PodShapeSeen
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import UpdateFact
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.facts.vpa_checkpoints import CheckpointSeen

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
