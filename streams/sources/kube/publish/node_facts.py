"""Nodes as facts: what they have for pods, and whether they accept any. A bad quantity is refused and quoted."""

from datetime import datetime, timedelta

from schemas.facts.nodes import NodeChanged, NodeRemoved
from streams.clients.kube import quantities
from streams.clients.kube.watched_objects import KubeObject, NodeObject
from streams.publishing.pod_facts import kept_labels
from streams.publishing.published_state import PublishedState
from streams.sources.kube.publish.publisher import PublishedFacts, Publisher
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread


def changed(node: NodeObject, cluster: str, at: datetime) -> NodeChanged:
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


def removed(published: NodeChanged, at: datetime) -> NodeRemoved:
    """The fact that a node is gone, from what was last published about it."""
    return NodeRemoved(at, published.cluster, published.node)


class NodePublisher:
    """Every node of a cluster."""

    def __init__(self, publisher: Publisher, cluster: str) -> None:
        self._cluster, self._at = cluster, datetime.min  # noqa: DTZ901  # before anything was seen
        self._nodes: PublishedFacts[NodeChanged] = PublishedFacts(
            publisher.publish, lambda node: publisher.publish(removed(node, self._at))
        )

    def restore(self, published: PublishedState, at: datetime) -> None:
        """As SubjectPublisher."""
        self._at = at
        self._nodes.restore(published.nodes)

    def seen(self, _controller: str, item: KubeObject, at: datetime) -> None:
        """As SubjectPublisher."""
        self._at = at
        if isinstance(item, NodeObject):
            self._nodes.upsert(item.metadata.name, changed(item, self._cluster, at))

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
