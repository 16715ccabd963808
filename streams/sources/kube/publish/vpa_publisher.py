"""Publishes VPAs, and once for each the history in its checkpoints.

A VPA that is new, or can be served for the first time, asks for the checkpoints of its namespace. Checkpoints are not validated
here; the recommender refuses those that it cannot load.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from schemas import times
from schemas.facts.usage import CheckpointSeen, SavedHistogram
from schemas.names import Workload
from schemas.policies.vpa import VpaChanged, VpaRemoved
from schemas.times import NEVER
from streams.clients.kube.watched_objects import CheckpointObject, HistogramObject
from streams.sources.kube.publish import vpa_policies
from streams.sources.kube.publish.publisher import PublishedFacts, Publisher
from streams.sources.kube.watch.notifications import CheckpointLookup


class VpaPublisher:
    """Every VPA of a cluster. `look_up` asks for checkpoints, which come back to `publish_checkpoints`."""

    def __init__(self, publisher: Publisher, now: Callable[[], datetime], look_up: Callable[[CheckpointLookup], None]) -> None:
        self._publisher, self._now, self._look_up = publisher, now, look_up
        self._facts: PublishedFacts[VpaChanged] = PublishedFacts(publisher.publish, self._withdraw)
        self._served: dict[str, VpaChanged] = {}
        self._seeded: set[str] = set()
        self._synced = self._requested = False

    def restore(self, published: Mapping[str, VpaChanged]) -> None:
        """Start from what the log has."""
        self._facts.restore(published)
        self._seeded.clear()  # the log may lack checkpoints, and publishing one again does no harm
        if self._requested:
            self._look_up(CheckpointLookup())

    def publish(self, vpa: VpaChanged) -> None:
        """A VPA exists and its target is known. One that is too large is published as unsupported, with the reason."""
        vpa = vpa_policies.within_bounds(vpa, self._publisher.size_of_policy)
        self._facts.upsert(vpa.key, replace(vpa, at=self._now()))
        if vpa.unsupported:
            self._served.pop(vpa.key, None)
            return
        # Also one that was unsupported until now, whose checkpoints nobody has asked for.
        first = vpa.key not in self._served
        self._served[vpa.key] = vpa
        if first and self._requested and vpa.uid not in self._seeded:
            self._look_up(CheckpointLookup(vpa.namespace))

    def remove(self, key: str) -> None:
        """A VPA is gone."""
        self._served.pop(key, None)
        self._facts.remove(key)

    def keep(self, key: str) -> None:
        """A VPA exists and cannot be read."""
        self._facts.keep(key)

    def mark_synced(self, waiting: Collection[str]) -> None:
        """Every VPA that exists is published, or is `waiting` for its target."""
        self._facts.mark_synced(waiting)
        self._synced = True

    def request_checkpoints(self) -> None:
        """No VPA is waiting. The first time after every VPA was seen, look up all checkpoints."""
        if self._synced and not self._requested:  # one list of all namespaces is cheaper than one for each of many VPAs
            self._requested = True
            self._look_up(CheckpointLookup())

    def publish_checkpoints(self, namespace: str, checkpoints_found: Sequence[CheckpointObject]) -> None:
        """These are all checkpoints of a namespace, or of every namespace where it is empty."""
        by_vpa: dict[tuple[str, str], list[CheckpointObject]] = {}
        for checkpoint in checkpoints_found:
            by_vpa.setdefault((checkpoint.metadata.namespace, checkpoint.spec.vpa_object_name), []).append(checkpoint)
        for _, vpa in sorted(self._served.items()):
            if vpa.uid not in self._seeded and namespace in ("", vpa.namespace):
                self._seeded.add(vpa.uid)
                checkpoints = sorted(
                    by_vpa.get((vpa.namespace, vpa.name), ()), key=lambda checkpoint: checkpoint.spec.container_name
                )
                self._publisher.publish(*(checkpoint_seen(checkpoint, vpa, self._now()) for checkpoint in checkpoints))

    def _withdraw(self, vpa: VpaChanged) -> None:
        self._publisher.publish(VpaRemoved(self._now(), vpa.cluster, vpa.namespace, vpa.name))


def checkpoint_seen(checkpoint: CheckpointObject, vpa: VpaChanged, at: datetime) -> CheckpointSeen:
    """A checkpoint as a fact about the workload that its VPA targets. Raises ValueError for a VPA without a target."""
    ref = vpa.target_ref
    if ref is None:
        raise ValueError(f"the VPA '{vpa.key}' has no target, so its checkpoint belongs to nobody")
    status = checkpoint.status
    return CheckpointSeen(
        at=at,
        workload=Workload(vpa.cluster, vpa.namespace, ref.kind, ref.name),
        vpa=vpa.name,
        container=checkpoint.spec.container_name,
        version=status.version,
        first=_seconds(status.first_sample_start),
        last=_seconds(status.last_sample_start),
        count=status.total_samples_count,
        cpu=_histogram(status.cpu_histogram),
        memory=_histogram(status.memory_histogram),
    )


def _histogram(histogram: HistogramObject) -> SavedHistogram:
    # In one order, so that the same checkpoint makes the same record.
    weights = dict(sorted((histogram.bucket_weights or {}).items()))
    return SavedHistogram(_seconds(histogram.reference_timestamp), histogram.total_weight, weights)


def _seconds(at: datetime | None) -> float:
    return NEVER if at is None else times.to_seconds(at)
