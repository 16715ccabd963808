"""Facts about VerticalPodAutoscalerCheckpoint objects: the usage history that another recommender saved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from schemas.names import Workload


@dataclass(frozen=True, slots=True)
class SavedHistogram:
    """A histogram as a checkpoint object has it: weights of buckets in parts of ten thousand of the heaviest."""

    reference: float
    """Seconds since the epoch; the time from which weights are counted."""
    total: float
    weights: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointSeen:
    """A VerticalPodAutoscalerCheckpoint object was found: another recommender's usage history of one container name of a VPA.

    Keyed by the workload that the VPA targets. Times are seconds since the epoch; -62135596800 is "never".
    """

    at: datetime
    workload: Workload
    vpa: str
    container: str
    version: str
    first: float
    last: float
    count: int
    cpu: SavedHistogram
    memory: SavedHistogram
