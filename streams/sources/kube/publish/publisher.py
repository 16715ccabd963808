"""Turns the kube source's facts into records: which topic, which key, which partitions.

A fact that readers would refuse is not written, but named in the process's log, with the bound.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from schemas import event_bounds
from schemas.facts import SchedulingFact
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.replica_scaling import HpaGone, HpaSeen, ScaleSeen
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import HpaTargetChanged, HpaTargetRemoved, ResourceQuotaChanged, ResourceQuotaRemoved, UpdateFact
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved, TimeSeriesPredictionChanged, TimeSeriesPredictionRemoved
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.policies.vpa import VpaChanged, VpaRemoved
from streams.clients.kube.watched_objects import KubeObject
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.publishing.published_state import PublishedState
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread

PodFact = PodChanged | PodDeleted | ScaleSeen | HpaSeen | HpaGone
WorkloadFact = ContainerOOMKilled | CheckpointSeen
ScalingPolicyFact = EhpaChanged | EhpaRemoved | TimeSeriesPredictionChanged | TimeSeriesPredictionRemoved
HpaTarget = HpaTargetChanged | HpaTargetRemoved
ObjectPolicy = VpaChanged | VpaRemoved | LimitRangeChanged | LimitRangeRemoved | ScalingPolicyFact | HpaTarget
ClusterFact = NodeChanged | NodeRemoved | SourceReported
SOURCE = "/ullage/source/kube"
_log = structlog.get_logger(__name__)


class Publisher:
    """Encodes the facts of one cluster. They wait here, in order, until `drain` hands their records on."""

    def __init__(self, context: LogContext) -> None:
        self._context = context
        self._records: list[NewRecord] = []

    def publish(self, *facts: PodFact | WorkloadFact | ObjectPolicy | ClusterFact | SchedulingFact) -> None:
        """A fact about a workload goes to the workload's partition, and one about a pod to its cluster's too.

        A fact for scheduling goes to the cluster's partition. A policy or a fact about the cluster goes to every partition.
        """
        cluster = self._context.cluster
        for fact in facts:
            fault = event_bounds.fault(fact)
            if fault is not None:
                _log.error("an object is too large to be kept", object=_name(fact), reason=" ".join(fault).lstrip("."))
                continue
            match fact:
                case PodChanged() | PodDeleted() | ScaleSeen() | HpaSeen() | HpaGone():
                    self._to_one("pod-changes", fact, fact.workload.key)
                    self._to_one("pod-changes-by-cluster", fact, cluster)
                case ContainerOOMKilled():
                    self._to_one("oom-events", fact, fact.workload.key)
                case CheckpointSeen():
                    self._to_one("pod-changes", fact, fact.workload.key)
                case NodeChanged() | NodeRemoved() | SourceReported():
                    self._to_all("cluster-changes", fact, cluster)
                case VpaChanged() | VpaRemoved() | LimitRangeChanged() | LimitRangeRemoved():
                    self._to_all("policies", fact, fact.key)
                case EhpaChanged() | EhpaRemoved() | TimeSeriesPredictionChanged() | TimeSeriesPredictionRemoved():
                    self._to_all("policies", fact, fact.key)
                case HpaTargetChanged() | HpaTargetRemoved():
                    self._to_all("policies", fact, fact.key)
                case _:
                    self._to_one("scheduling-changes", fact, cluster)

    def publish_for_updates(self, *facts: UpdateFact) -> None:
        """A constraint on updates goes to the cluster's partition beside its pods."""
        for fact in facts:
            fault = event_bounds.fault(fact)
            if fault is not None:
                _log.error("an object is too large to be kept", object=_name(fact), reason=" ".join(fault).lstrip("."))
                continue
            self._to_one("pod-changes-by-cluster", fact, self._context.cluster)
            # A topic of their own for the webhook, which could not read all that happens to pods, and one for the scaler.
            if isinstance(fact, ResourceQuotaChanged | ResourceQuotaRemoved):
                self._to_one("quota-changes", fact, fact.key)
                self._to_one("scheduling-changes", fact, self._context.cluster)

    def size_of_policy(self, policy: ObjectPolicy) -> int:
        """The bytes of a policy's record."""
        record = self._context.codec.encode(policy, topic="policies", key=policy.key, partition=0, source=SOURCE)
        return len(record.value or b"")

    def publish_left(self, fact: PodDeleted) -> None:
        """A pod has moved to another workload."""
        # Only to the old one's partition, because the pod still exists in the cluster.
        self._to_one("pod-changes", fact, fact.workload.key)

    def drain(self) -> Sequence[NewRecord]:
        """The records published since the last call."""
        records, self._records = self._records, []
        return records

    def _to_one(self, topic: str, fact: PodFact | WorkloadFact | SchedulingFact | UpdateFact, key: str) -> None:
        partition = self._context.topics.partition_of(key)
        self._records.append(self._context.codec.encode(fact, topic=topic, key=key, partition=partition, source=SOURCE))

    def _to_all(self, topic: str, fact: ObjectPolicy | ClusterFact, key: str) -> None:
        self._records += self._context.codec.encode_for_all(fact, topic=topic, key=key, source=SOURCE)


def _name(fact: PodFact | WorkloadFact | ObjectPolicy | ClusterFact | SchedulingFact | UpdateFact) -> str:
    """The subject of a fact, for people."""
    match fact:
        case PodChanged() | PodDeleted():
            name = f"Pod {fact.pod.namespace}/{fact.pod.name}"
        case ContainerOOMKilled() | CheckpointSeen() | ScaleSeen():
            name = f"{type(fact).__name__} of {fact.workload.key}"
        case NodeChanged() | NodeRemoved():
            name = f"Node {fact.node}"
        case SourceReported():
            name = f"source {fact.source}"
        case VpaChanged() | VpaRemoved() | LimitRangeChanged() | LimitRangeRemoved():
            name = f"{type(fact).__name__} of {fact.key}"
        case _:
            parts = (getattr(fact, part, "") for part in ("namespace", "name", "node", "shape"))
            name = f"{type(fact).__name__} of {'/'.join(part for part in parts if part)}"
    return name[:500]


class SubjectPublisher(Protocol):
    """`controller` is an object's own kind, such as `ReplicaSet`, if it is a controller; empty for all others."""

    def restore(self, published: PublishedState, at: datetime) -> None:
        """Start from what the log has, and publish what differs. Raises LogUnavailable."""

    def seen(self, controller: str, item: KubeObject, at: datetime) -> None:
        """An object exists, new or changed. Raises ValueError for one that cannot be read; then `unread` follows.

        Raises NamesNothingError for one that is read and makes no fact.
        """

    def unread(self, unread: ObjectUnread, controller: str) -> None:
        """An object exists and cannot be read: what was published of it is kept."""

    def gone(self, gone: ObjectGone, controller: str, at: datetime) -> None:
        """An object no longer exists."""

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:
        """All of a watched kind were seen: what was published and was not seen is gone. `controllers`: all of those were, too."""

    def publish_due(self, at: datetime) -> None:
        """Publish what is due by time alone, or waited for the rest of a burst."""

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish again what was last published this long ago, so that a start finds it near the end of the log."""
