"""Publishes the simulated cluster's nodes in the short form, as the Kubernetes source does for real ones."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.names import Amounts
from schemas.units import Bytes, Cores
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.publishing.published_state import REPUBLISH_AFTER
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_nodes import ClusterNode


class SimulatedNodeFacts:
    """`publish` is called at each look. After a restart every node is published again, which is harmless."""

    def __init__(self, cluster: SimulatedCluster, context: LogContext) -> None:
        self._cluster, self._context = cluster, context
        self._outbox = Outbox(context)
        self._published: dict[str, NodeChanged] = {}

    def publish(self, at: datetime) -> None:
        """Publish what is new about nodes. They wait while the log is away."""
        source, key = f"/ullage/source/{self._context.cluster}", self._context.cluster
        facts = [
            record
            for event in self._news(at)
            for record in self._context.codec.encode_for_all(event, topic="cluster-changes", key=key, source=source)
        ]
        self._outbox.publish(facts=facts, scrapes=[])
        self._outbox.flush()

    def _news(self, at: datetime) -> Iterator[NodeChanged | NodeRemoved]:
        with self._cluster.lock:
            now = {node.name: _fact(node, self._context.cluster, at) for node in self._cluster.nodes}
        for name in sorted(self._published.keys() - now.keys()):
            del self._published[name]
            yield NodeRemoved(at, self._context.cluster, name)
        for name, fact in sorted(now.items()):
            before = self._published.get(name)
            if before is None or at - before.at >= REPUBLISH_AFTER or replace(before, at=at) != fact:
                self._published[name] = fact
                yield fact


def _fact(node: ClusterNode, cluster: str, at: datetime) -> NodeChanged:
    size = Amounts(Cores(node.amounts["cpu"] / 1000), Bytes(node.amounts["memory"]))
    return NodeChanged(at, cluster, node.name, size, schedulable=not node.unschedulable, labels=dict(node.labels))
