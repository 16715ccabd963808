"""What `source kube` publishes of a cluster besides pods, for a made-up one: controllers, quotas, LimitRanges, budgets, nodes."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.scheduled_pods import ControllingOwner, LabelQuery
from schemas.facts.update_facts import (
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
    ResourceQuotaChanged,
    ResourceQuotaRemoved,
)
from schemas.names import Amounts
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.units import Bytes, Cores
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.publishing.published_state import REPUBLISH_AFTER
from streams.simulated import pod_admission
from streams.simulated.cluster import SimulatedCluster, replica_set_of
from streams.simulated.cluster_nodes import ClusterNode
from streams.simulated.cluster_spec import SimulatedDeployment
from streams.simulated.pod_admission import SimulatedQuota, spelled
from streams.sources.kube.publish.publisher import PublishedFacts, Publisher


class SimulatedConstraints:
    """Publishes what changed since the last call."""

    def __init__(self, cluster: SimulatedCluster, context: LogContext) -> None:
        self._cluster, self._outbox = cluster, Outbox(context)
        self._publisher = publisher = Publisher(context)
        publish = publisher.publish_for_updates
        self._at = cluster.now
        self._controllers: PublishedFacts[ReplicaControllerChanged] = PublishedFacts(
            publish, lambda fact: publish(ReplicaControllerRemoved(self._at, fact.cluster, fact.namespace, fact.kind, fact.name))
        )
        self._quotas: PublishedFacts[ResourceQuotaChanged] = PublishedFacts(
            publish, lambda fact: publish(ResourceQuotaRemoved(self._at, fact.cluster, fact.namespace, fact.name))
        )
        self._budgets: PublishedFacts[PodDisruptionBudgetChanged] = PublishedFacts(
            publish, lambda fact: publish(PodDisruptionBudgetRemoved(self._at, fact.cluster, fact.namespace, fact.name))
        )
        self._limit_ranges: PublishedFacts[LimitRangeChanged] = PublishedFacts(
            publisher.publish,
            lambda fact: publisher.publish(LimitRangeRemoved(self._at, fact.cluster, fact.namespace, fact.name)),
        )

    def publish(self, at: datetime) -> None:
        """Publish what is new at this time."""
        self._at = at
        cluster = self._cluster
        with cluster.lock:
            for deployment in cluster.deployments:
                name, owner = replica_set_of(deployment), ControllingOwner("Deployment", deployment.name, "apps/v1")
                wants, refusal = cluster.wanted(deployment), cluster.refusal(deployment)
                namespace = deployment.namespace
                fact = ReplicaControllerChanged(at, cluster.name, namespace, "ReplicaSet", name, wants, owner, refusal)
                self._controllers.put(f"{namespace}/{name}", fact if wants else None)
                if deployment.keep:
                    self._budgets.upsert(f"{namespace}/{deployment.name}", self._budget(deployment, at))
            for quota in cluster.rules.quotas:
                there = quota.begin <= at.timestamp() < quota.end
                self._quotas.put(f"{quota.namespace}/{quota.name}", self._quota(quota, at) if there else None)
        for bounds in cluster.rules.limit_ranges:
            limit_range = LimitRangeChanged(at, cluster.name, bounds.namespace, bounds.name, bounds.limits)
            self._limit_ranges.upsert(f"{bounds.namespace}/{bounds.name}", limit_range)
        for facts in (self._controllers, self._quotas, self._limit_ranges, self._budgets):
            # stated again, as `source kube` does, for readers that began later
            facts.republish(at, REPUBLISH_AFTER)
        self._outbox.publish(facts=self._publisher.drain(), scrapes=())
        self._outbox.flush()

    def _budget(self, deployment: SimulatedDeployment, at: datetime) -> PodDisruptionBudgetChanged:
        cluster = self._cluster
        return PodDisruptionBudgetChanged(
            at,
            cluster.name,
            deployment.namespace,
            deployment.name,
            LabelQuery({"app": deployment.name}),
            allowed=cluster.allowed_disruptions(deployment),
            healthy=cluster.healthy(deployment),
            desired=deployment.keep,
            expected=cluster.wanted(deployment),
        )

    def _quota(self, quota: SimulatedQuota, at: datetime) -> ResourceQuotaChanged:
        used = pod_admission.used(quota, self._cluster.pods_by_name.values())
        texts = [{name: spelled(name, amounts[name]) for name in sorted(quota.hard)} for amounts in (quota.hard, used)]
        return ResourceQuotaChanged(at, self._cluster.name, quota.namespace, quota.name, texts[0], texts[1])


# Publishes the simulated cluster's nodes in the short form, as the Kubernetes source does for real ones.


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
