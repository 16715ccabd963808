"""Nodes as facts: what they have for pods, and whether they accept any. A bad quantity is refused and quoted."""

from datetime import datetime

from schemas.facts.nodes import NodeChanged, NodeRemoved
from streams.clients.kube import quantities
from streams.clients.kube.watched_objects import NodeObject
from streams.publishing.pod_facts import kept_labels


def changed(found: NodeObject, cluster: str, at: datetime) -> NodeChanged:
    """The fact about a node. Raises ValueError for a bad quantity."""
    return NodeChanged(
        at=at,
        cluster=cluster,
        node=found.metadata.name,
        allocatable=quantities.read_amounts(found.status.allocatable),
        ready=any(condition.type == "Ready" and condition.status == "True" for condition in found.status.conditions),
        schedulable=not found.spec.unschedulable,
        labels=kept_labels(found.metadata.labels or {}),
    )


def removed(published: NodeChanged, at: datetime) -> NodeRemoved:
    """The fact that a node is gone, from what was last published about it."""
    return NodeRemoved(at, published.cluster, published.node)
