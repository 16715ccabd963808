"""A VerticalPodAutoscalerCheckpoint as a fact for the workload that its VPA targets.

Judges nothing: what cannot be loaded is the recommender's to refuse.
"""

from datetime import datetime

from schemas.facts.vpa_checkpoints import CheckpointSeen, SavedHistogram
from schemas.names import Workload
from schemas.policies.vpa import VpaChanged
from streams.clients.kube.watched_objects import CheckpointObject, HistogramObject

NEVER = -62135596800.0
"""Seconds from the epoch to Go's zero time, as the fact's own words have it."""


def seen(found: CheckpointObject, vpa: VpaChanged, at: datetime) -> CheckpointSeen:
    """What a checkpoint of this VPA holds. The VPA has a target."""
    ref = vpa.target_ref
    if ref is None:
        raise ValueError(f"the VPA '{vpa.key}' has no target, so its checkpoint belongs to nobody")
    status = found.status
    return CheckpointSeen(
        at=at,
        workload=Workload(vpa.cluster, vpa.namespace, ref.kind, ref.name),
        vpa=vpa.name,
        container=found.spec.container_name,
        version=status.version,
        first=_seconds(status.first_sample_start),
        last=_seconds(status.last_sample_start),
        count=status.total_samples_count,
        cpu=_histogram(status.cpu_histogram),
        memory=_histogram(status.memory_histogram),
    )


def _histogram(found: HistogramObject) -> SavedHistogram:
    weights = dict(sorted((found.bucket_weights or {}).items()))
    return SavedHistogram(_seconds(found.reference_timestamp), found.total_weight, weights)


def _seconds(at: datetime | None) -> float:
    return NEVER if at is None else at.timestamp()
