"""Decisions: what an agent concluded, with the numbers it rests on.

`because` holds all that a person needs to redo the sum: inputs, settings, policy version and every limit that changed it.
"""

from schemas.decisions.node_updates import (
    BufferStatusPlanned,
    ExpanderAsked,
    NodeRemovalPlanned,
    NodeScalingHalted,
    ScaleRefused,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
    SoftTaintPlanned,
)
from schemas.decisions.plan_attestations import PlansAttested
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import MemoryLeakFound, RequestsRecommended, ShadowCompared, ShadowRecommended
from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned, ReplicasRefused
from schemas.decisions.vpa_conditions import MemoryLimitFound, VpaConditionsDecided

ReplicaDecision = LoadForecast | ReplicasPlanned | ReplicasRefused
ShadowDecision = ShadowRecommended | ShadowCompared
NodeUpdate = (
    ScaleUpPlanned
    | SizeCorrectionPlanned
    | NodeRemovalPlanned
    | SoftTaintPlanned
    | BufferStatusPlanned
    | ExpanderAsked
    | ScaleRefused
    | NodeScalingHalted
)
Decision = (
    RequestsRecommended
    | MemoryLeakFound
    | ResizePlanned
    | EvictionPlanned
    | UpdateRefused
    | VpaConditionsDecided
    | MemoryLimitFound
    | NodeUpdate
    | ReplicaDecision
    | ShadowDecision
    | PlansAttested
)
