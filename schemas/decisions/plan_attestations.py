"""What a turn attests to: the digests of the plans that it made, in a topic that only workers write.

A consumer changes a cluster by what stands in a topic of plans, and a record there is only its writer's own word. With the
attestation in another topic, whoever may write one of the two makes no consumer act: a plan without it was made by no turn.
"""

from dataclasses import dataclass
from datetime import datetime

from schemas.decisions.node_updates import (
    BufferStatusPlanned,
    ExpanderAsked,
    NodeRemovalPlanned,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
    SoftTaintPlanned,
)
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.decisions.replica_plans import ReplicasPlanned

PLANS = (
    ResizePlanned,
    EvictionPlanned,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
    NodeRemovalPlanned,
    SoftTaintPlanned,
    BufferStatusPlanned,
    ExpanderAsked,
    ReplicasPlanned,
)
"""The decisions that a consumer carries out."""


@dataclass(frozen=True, slots=True)
class PlansAttested:
    """The turn in `id` made the plans with these digests, each of 32 hexadecimal digits."""

    id: str
    at: datetime
    digests: tuple[str, ...]
