"""Nodes as facts and LimitRanges as policies, which need no look at other objects. A bad quantity is refused and quoted."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitRangeRemoved, LimitType
from streams.clients.kube import quantities
from streams.clients.kube.watched_objects import KubeObject, LimitRangeItem, LimitRangeObject, NodeObject
from streams.publishing.pod_facts import kept_labels
from streams.publishing.published_state import PublishedState
from streams.sources.kube.publish.publisher import PublishedFacts, Publisher
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


class NodePublisher:
    """Every node of a cluster."""

    def __init__(self, publisher: Publisher, cluster: str) -> None:
        self._cluster, self._at = cluster, datetime.min  # noqa: DTZ901  # before anything was seen
        self._nodes: PublishedFacts[NodeChanged] = PublishedFacts(
            publisher.publish, lambda node: publisher.publish(NodeRemoved(self._at, node.cluster, node.node))
        )

    def restore(self, published: PublishedState, at: datetime) -> None:
        """As SubjectPublisher."""
        self._at = at
        self._nodes.restore(published.nodes)

    def seen(self, _controller: str, item: KubeObject, at: datetime) -> None:
        """As SubjectPublisher."""
        self._at = at
        if isinstance(item, NodeObject):
            self._nodes.upsert(item.metadata.name, node_changed(item, self._cluster, at))

    def gone(self, gone: ObjectGone, _controller: str, at: datetime) -> None:
        """As SubjectPublisher."""
        self._at = at
        if gone.kind == "nodes":
            self._nodes.remove(gone.name)

    def unread(self, unread: ObjectUnread, _controller: str) -> None:
        """As SubjectPublisher."""
        if unread.kind == "nodes":
            self._nodes.keep(unread.name)

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:  # noqa: ARG002  # the protocol's
        """As SubjectPublisher."""
        self._at = at
        if kind == "nodes":
            self._nodes.mark_synced()

    def publish_due(self, at: datetime) -> None:
        """Nothing waits."""

    # Readers begin only hours back, so that what stands unchanged is published again.
    def republish(self, at: datetime, older: timedelta) -> None:
        """As SubjectPublisher."""
        self._nodes.republish(at, older)


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
        most=_amounts(item.max),
        default_limits=_amounts(item.default),
        default_requests=_amounts(item.default_request),
        ratios={name: quantities.parse(ratio) for name, ratio in sorted((item.max_limit_request_ratio or {}).items())},
    )


def _amounts(texts: Mapping[str, str] | None) -> Amounts:
    return Amounts() if texts is None else quantities.read_amounts(texts)


class LimitRangePublisher:
    """Every LimitRange of a cluster."""

    def __init__(self, publisher: Publisher, cluster: str) -> None:
        self._cluster, self._at = cluster, datetime.min  # noqa: DTZ901  # before anything was seen
        self._limits: PublishedFacts[LimitRangeChanged] = PublishedFacts(
            publisher.publish,
            lambda limit: publisher.publish(LimitRangeRemoved(self._at, limit.cluster, limit.namespace, limit.name)),
        )

    def restore(self, published: PublishedState, at: datetime) -> None:
        """As SubjectPublisher."""
        self._at = at
        self._limits.restore(published.limits)

    def seen(self, _controller: str, item: KubeObject, at: datetime) -> None:
        """As SubjectPublisher."""
        self._at = at
        if isinstance(item, LimitRangeObject):
            limit = limit_range_changed(item, self._cluster, at)
            self._limits.upsert(limit.key, limit)

    def gone(self, gone: ObjectGone, _controller: str, at: datetime) -> None:
        """As SubjectPublisher."""
        self._at = at
        if gone.kind == "limitranges":
            self._limits.remove(f"{self._cluster}/{gone.namespace}/LimitRange/{gone.name}")

    def unread(self, unread: ObjectUnread, _controller: str) -> None:
        """As SubjectPublisher."""
        if unread.kind == "limitranges":
            self._limits.keep(f"{self._cluster}/{unread.namespace}/LimitRange/{unread.name}")

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:  # noqa: ARG002  # the protocol's
        """As SubjectPublisher."""
        self._at = at
        if kind == "limitranges":
            self._limits.mark_synced()

    def publish_due(self, at: datetime) -> None:
        """Nothing waits."""

    def republish(self, at: datetime, older: timedelta) -> None:
        """A policy stands in the log once, however long it is in force."""
