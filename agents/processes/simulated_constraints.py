"""What `source kube` publishes of a cluster besides pods, for a simulated one: controllers, quotas, LimitRanges, budgets."""

from datetime import datetime

from schemas.facts.disruption_budgets import PodDisruptionBudgetChanged, PodDisruptionBudgetRemoved
from schemas.facts.replica_controllers import ReplicaControllerChanged, ReplicaControllerRemoved
from schemas.facts.resource_quotas import ResourceQuotaChanged, ResourceQuotaRemoved
from schemas.facts.scheduled_pods import ControllingOwner, LabelQuery
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.publishing.published_state import REPUBLISH_AFTER
from streams.simulated import pod_admission
from streams.simulated.cluster import SimulatedCluster, replica_set_of
from streams.simulated.cluster_spec import SimulatedDeployment
from streams.simulated.pod_admission import SimulatedQuota, spelled
from streams.sources.kube.publish.fact_changes import PublishedFacts
from streams.sources.kube.publish.publisher import Publisher


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
        for each in cluster.rules.limit_ranges:
            found = LimitRangeChanged(at, cluster.name, each.namespace, each.name, each.limits)
            self._limit_ranges.upsert(f"{each.namespace}/{each.name}", found)
        for facts in (self._controllers, self._quotas, self._limit_ranges, self._budgets):
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
        texts = [{name: spelled(name, each[name]) for name in sorted(quota.hard)} for each in (quota.hard, used)]
        return ResourceQuotaChanged(at, self._cluster.name, quota.namespace, quota.name, texts[0], texts[1])
