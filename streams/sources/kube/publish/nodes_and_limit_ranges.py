"""Nodes as facts and LimitRanges as policies, which need no look at other objects. A bad quantity is refused and quoted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from schemas.bounds import kept_labels
from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitRangeRemoved, LimitType
from streams.clients.kube import quantities
from streams.clients.kube.pod_objects import ObjectMeta
from streams.clients.kube.watched_objects import KubeObject, LimitRangeItem, LimitRangeObject, NodeObject
from streams.publishing.published_state import PublishedState
from streams.sources.kube.publish.publisher import Publisher, SubjectPublisher
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread


def node_changed(node: NodeObject, cluster: str, at: datetime) -> NodeChanged:
    """The fact about a node. Raises ValueError for a bad quantity."""
    return NodeChanged(
        at=at,
        cluster=cluster,
        node=node.metadata.name,
        allocatable=quantities.read_amounts(node.status.allocatable),
        ready=any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions),
        schedulable=not node.spec.unschedulable,
        labels=kept_labels(node.metadata.labels or {}),
    )


_TYPES = {kind.value for kind in LimitType}


def limit_range_changed(limit_range: LimitRangeObject, cluster: str, at: datetime) -> LimitRangeChanged:
    """The policy that a limit range makes. Raises ValueError for a bad quantity."""
    # Entries for claims say nothing of pods.
    limits = tuple(_limit(item) for item in limit_range.spec.limits if item.type in _TYPES)
    return LimitRangeChanged(at, cluster, limit_range.metadata.namespace, limit_range.metadata.name, limits)


def _limit(item: LimitRangeItem) -> Limit:
    return Limit(
        LimitType(item.type),
        least=_amounts(item.min),
        most=Amounts() if item.max is None else quantities.read_most(item.max),
        default_limits=_amounts(item.default),
        default_requests=_amounts(item.default_request),
        ratios={name: quantities.parse(ratio) for name, ratio in sorted((item.max_limit_request_ratio or {}).items())},
    )


def _amounts(texts: Mapping[str, str] | None) -> Amounts:
    return Amounts() if texts is None else quantities.read_amounts(texts)


@dataclass(frozen=True, slots=True)
class PublishedKind:
    """Objects of one kind: how one becomes a fact or policy, what says that it is gone, and what the log has of all of them."""

    kind: str
    objects: type[KubeObject]
    read: Callable[[Any, str, datetime], NodeChanged | LimitRangeChanged]
    removed: type[NodeRemoved] | type[LimitRangeRemoved]
    published: Callable[[PublishedState], Mapping[str, Any]]
    name: str
    """How these are named there."""
    again: bool
    """Whether what stands unchanged is published again, as facts are: their readers begin only hours back."""


NODES = PublishedKind("nodes", NodeObject, node_changed, NodeRemoved, attrgetter("nodes"), "{of.name}", again=True)
LIMIT_RANGES = PublishedKind(
    "limitranges",
    LimitRangeObject,
    limit_range_changed,
    LimitRangeRemoved,
    attrgetter("limits"),
    "{cluster}/{of.namespace}/LimitRange/{of.name}",
    again=False,
)


class OneKindPublisher(SubjectPublisher):
    """Every object of one kind in a cluster."""

    def __init__(self, publisher: Publisher, cluster: str, kind: PublishedKind) -> None:
        self._cluster, self._kind = cluster, kind
        self._at = datetime.min  # noqa: DTZ901  # before anything was seen
        self._facts = publisher.facts(kind.removed, lambda: self._at)

    def restore(self, published: PublishedState, at: datetime) -> None:
        """As SubjectPublisher."""
        self._at = at
        self._facts.restore(self._kind.published(published))

    def seen(self, _kind: str, item: KubeObject, at: datetime) -> None:
        """As SubjectPublisher."""
        self._at = at
        if isinstance(item, self._kind.objects):
            self._facts.upsert(self._name(item.metadata), self._kind.read(item, self._cluster, at))

    def gone(self, gone: ObjectGone, at: datetime) -> None:
        """As SubjectPublisher."""
        self._at = at
        if gone.kind == self._kind.kind:
            self._facts.remove(self._name(gone))

    def unread(self, unread: ObjectUnread) -> None:
        """As SubjectPublisher."""
        if unread.kind == self._kind.kind:
            self._facts.keep(self._name(unread))

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:  # noqa: ARG002  # the protocol's
        """As SubjectPublisher."""
        self._at = at
        if kind == self._kind.kind:
            self._facts.mark_synced()

    def republish(self, at: datetime, older: timedelta) -> None:
        """As SubjectPublisher."""
        if self._kind.again:
            self._facts.republish(at, older)

    def _name(self, of: ObjectMeta | ObjectGone | ObjectUnread) -> str:
        return self._kind.name.format(cluster=self._cluster, of=of)
