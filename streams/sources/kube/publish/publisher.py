"""Turns the kube source's facts into records: which topic, which key, which partitions; and knows which it published before.

A fact that readers would refuse is not written, but named in the process's log, with the bound. Facts by object are published
when they differ from what the log has, and withdrawn when their objects are gone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import Field, fields, replace
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Generic, Protocol, TypeVar

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
                    # Stages that weigh all pods of a cluster together read this one.
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

    def facts(self, removed: type[Any], at: Callable[[], datetime], *, for_updates: bool = False) -> "PublishedFacts[Any]":
        """Facts that `removed` ends, which names an object as they do; `at` gives the time of that."""
        publish: Callable[..., None] = self.publish_for_updates if for_updates else self.publish
        return PublishedFacts(publish, lambda fact: publish(withdrawal(removed, fact, at())))

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


def withdrawal(removed: type[Any], fact: "ObjectFact", at: datetime) -> Any:
    """What says since `at` that the object of a fact is gone, with the fields that both have."""
    return removed(at=at, **{field.name: getattr(fact, field.name) for field in fields(removed) if field.name != "at"})


class SubjectPublisher:
    """What a publisher does where it says nothing else: nothing. `kind` is that of an object's watch, such as `pods`."""

    def restore(self, published: PublishedState, at: datetime) -> None:
        """Start from what the log has, and publish what differs. Raises LogUnavailable."""

    def seen(self, kind: str, item: KubeObject, at: datetime) -> None:
        """An object exists, new or changed. Raises ValueError for one that cannot be read; then `unread` follows.

        Raises NamesNothingError for one that is read and makes no fact.
        """

    def unread(self, unread: ObjectUnread) -> None:
        """An object exists and cannot be read: what was published of it is kept."""

    def gone(self, gone: ObjectGone, at: datetime) -> None:
        """An object no longer exists."""

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:
        """All of a watched kind were seen: what was published and was not seen is gone. `controllers`: all of those were, too."""

    def refused(self, kind: str, at: datetime) -> None:
        """Our account may not see a kind: what waits for it to be listed would wait for ever."""

    def publish_due(self, at: datetime) -> None:
        """Publish what is due by time alone, or waited for the rest of a burst."""

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish again what was last published this long ago, so that a start finds it near the end of the log."""


_OWN = ("at", "resource_version", "by")
"""The fields that say when, as which version and from whom a fact came, and nothing of the object."""


class ObjectFact(Protocol):
    """A fact or policy about an object: a dataclass with a time."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    @property
    def at(self) -> datetime:
        """When it was so."""


F = TypeVar("F", bound=ObjectFact)


class NamesNothingError(ValueError):
    """An object is read, and names nothing that a fact could be about, so what was published of it is withdrawn."""


class PublishedFacts(Generic[F]):
    """Facts of one kind. `publish` publishes one; `withdraw` publishes that its object is gone."""

    def __init__(self, publish: Callable[[F], None], withdraw: Callable[[F], None]) -> None:
        self._publish: Callable[[F], None] = publish
        self._withdraw: Callable[[F], None] = withdraw
        self._current: dict[str, F] = {}
        self._published: dict[str, F] = {}
        self._unread: set[str] = set()

    def restore(self, published: Mapping[str, F]) -> None:
        """Start from what the log has, and publish every current fact that differs."""
        # So a restart publishes only what changed meanwhile.
        self._published = dict(published)
        for name in sorted(self._current):
            self.upsert(name, self._current[name])

    def upsert(self, name: str, fact: F) -> None:
        """An object exists. Publishes its fact unless the same was published before."""
        self._current[name] = fact
        self._unread.discard(name)
        before = self._published.get(name)
        if before is None or not alike(before, fact):
            self._published[name] = fact = signed(fact, before)
            self._publish(fact)

    def current(self) -> list[F]:
        """The facts of the objects that exist."""
        return list(self._current.values())

    def put(self, name: str, fact: F | None) -> None:
        """An object exists; None if there is no fact about it any more."""
        if fact is None:
            self.remove(name)
        else:
            self.upsert(name, fact)

    def keep(self, name: str) -> None:
        """An object exists and cannot be read: what was published of it stays until it is read again, or gone."""
        self._unread.add(name)

    def remove(self, name: str) -> None:
        """An object is gone. Withdraws its fact if it was published."""
        self._current.pop(name, None)
        self._unread.discard(name)
        published = self._published.pop(name, None)
        if published is not None:
            self._withdraw(published)

    def mark_synced(self, waiting: Collection[str] = ()) -> None:
        """Every object that exists was upserted, kept or is `waiting`: what was published and is none of that is gone."""
        for name in sorted(self._published.keys() - self._current.keys() - self._unread - set(waiting)):
            self.remove(name)

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish again each current fact that was last published this long ago."""
        for name, published in list(self._published.items()):
            if at - published.at >= older and (name in self._current or name in self._unread):
                self._published[name] = again = signed(replace(self._current.get(name, published), at=at), published)
                self._publish(again)


def alike(left: F, right: F) -> bool:
    """Whether two facts say the same of an object, whenever and as whatever version they came."""
    content = _content(type(left))
    return type(left) is type(right) and content(left) == content(right)


def signed(wanted: F, before: F | None) -> F:
    """What an object says now, by its author, who is doubtful where the object shows no newer one than `before`, its last record.

    The API server notes who sets a field, and not who removes one: whoever takes `paused` away would act in another's name.
    """
    author, last = getattr(wanted, "by", None), getattr(before, "by", None)
    if before is None or author is None or last is None:
        return wanted
    doubtful = replace(author, name=f"{author.name}, or who removed a field since")
    if last not in (author, doubtful):
        return wanted
    # Each change of a spec raises its generation; without one, something else gave the same spec another meaning.
    generation = getattr(wanted, "generation", 0)
    same = alike(before, wanted) or (generation != 0 and generation == getattr(before, "generation", 0))
    return replace(wanted, by=last if same else doubtful)


@cache  # each object is compared at each look
def _content(kind: type[ObjectFact]) -> Callable[[ObjectFact], object]:
    """What a fact of this kind says of its object."""
    return attrgetter(*(name for name in kind.__dataclass_fields__ if name not in _OWN))
