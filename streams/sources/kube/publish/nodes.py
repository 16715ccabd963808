"""Nodes as facts: what they have for pods, and whether pods may come. Refuses amounts that are none, quoting them."""

from datetime import datetime

from schemas.facts.nodes import NodeChanged, NodeRemoved
from streams.clients.kube import amounts
from streams.clients.kube.watched_objects import NodeObject


def changed(found: NodeObject, cluster: str, at: datetime) -> NodeChanged:
    """A node as it is. Raises ValueError for a quantity that is none."""
    return NodeChanged(
        at=at,
        cluster=cluster,
        node=found.metadata.name,
        allocatable=amounts.read(found.status.allocatable),
        ready=any(condition.type == "Ready" and condition.status == "True" for condition in found.status.conditions),
        schedulable=not found.spec.unschedulable,
        labels=dict(sorted((found.metadata.labels or {}).items())),
    )


def removed(said: NodeChanged, at: datetime) -> NodeRemoved:
    """It is gone."""
    return NodeRemoved(at, said.cluster, said.node)
