"""Publishes further constraints on updates of pods: replica counts, HPAs, disruption budgets, quotas, a webhook's Lease."""

from dataclasses import replace
from datetime import datetime, timedelta

from schemas.facts.disruption_budgets import PodDisruptionBudgetChanged, PodDisruptionBudgetRemoved
from schemas.facts.hpa_targets import HpaTargetChanged, HpaTargetRemoved
from schemas.facts.replica_controllers import ReplicaControllerChanged, ReplicaControllerRemoved
from schemas.facts.webhook_leases import WebhookLeaseSeen
from streams.clients.kube.autoscaler_specs import HpaObject, MetricBlock, MetricEntry, TargetSpec
from streams.clients.kube.scheduling_objects import DisruptionBudgetObject
from streams.clients.kube.watched_objects import (
    ControllerObject,
    EventObject,
    KubeObject,
    LeaseObject,
    ReplicationControllerObject,
    ResourceQuotaObject,
)
from streams.publishing.published_state import REPUBLISH_AFTER, PublishedState
from streams.sources.kube.publish import ehpa_policies, failed_creations, scheduling_facts
from streams.sources.kube.publish.fact_changes import PublishedFacts
from streams.sources.kube.publish.failed_creations import FailedCreations
from streams.sources.kube.publish.publisher import Publisher
from streams.sources.kube.publish.quota_publisher import QuotaPublisher
from streams.sources.kube.watch.notifications import ObjectGone
from streams.sources.kube.watch.watched_resources import BUDGETS, HPAS, QUOTAS

ALIVE = timedelta(seconds=60)
"""After so long without a renewal the webhook counts as away, as upstream's updater has it."""
_OWNERS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"})
"""The controllers that pods have and that say how many there should be."""
_BY_RESOURCE = ("Resource", "ContainerResource")
_DEFAULT = MetricEntry("Resource", resource=MetricBlock("cpu", target=TargetSpec("Utilization", average_utilization=80)))
"""What the API server assumes of an HPA without metrics."""


class UpdateConstraintPublisher:
    """Everything in a cluster that the updater considers besides pods and policies. `lease`: the webhook's (namespace/name)."""

    def __init__(self, publisher: Publisher, cluster: str, lease: str) -> None:
        self._publisher, self._cluster, self._lease = publisher, cluster, lease
        self._at = datetime.min  # noqa: DTZ901  # before anything was seen
        publish = publisher.publish_for_updates
        self._controllers: PublishedFacts[ReplicaControllerChanged] = PublishedFacts(
            publish, lambda one: publish(ReplicaControllerRemoved(self._at, one.cluster, one.namespace, one.kind, one.name))
        )
        self._failed = FailedCreations()
        self._hpas: PublishedFacts[HpaTargetChanged] = PublishedFacts(
            publish, lambda one: publish(HpaTargetRemoved(self._at, one.cluster, one.namespace, one.name))
        )
        self._hpa_policies: PublishedFacts[HpaTargetChanged] = PublishedFacts(
            publisher.publish, lambda one: publisher.publish(HpaTargetRemoved(self._at, one.cluster, one.namespace, one.name))
        )
        self._budgets: PublishedFacts[PodDisruptionBudgetChanged] = PublishedFacts(
            publish, lambda one: publish(PodDisruptionBudgetRemoved(self._at, one.cluster, one.namespace, one.name))
        )
        self._quotas = QuotaPublisher(publisher, cluster)
        self._renewed: datetime | None = None
        """When the Lease was last seen to be renewed, in event time."""
        self._renew_time: datetime | None = None
        self._listed = False
        self._published_lease: WebhookLeaseSeen | None = None

    def restore(self, published: PublishedState, at: datetime) -> None:
        """Start from what the log has."""
        self._at, self._published_lease = at, None
        self._controllers.restore(published.controllers)
        self._hpas.restore(published.hpas)
        self._hpa_policies.restore(published.hpa_policies)
        self._budgets.restore(published.budgets)
        self._quotas.restore(published.quotas, at)

    def seen(self, controller: str, found: KubeObject, at: datetime) -> None:
        """An object exists; `controller` is its kind if it is one. Other objects are ignored."""
        self._at = at
        match found:
            case HpaObject():
                self._hpa(found, at)
            case DisruptionBudgetObject():
                name = f"{found.metadata.namespace}/{found.metadata.name}"
                self._budgets.upsert(name, scheduling_facts.budget(found, self._cluster, at))
            case ResourceQuotaObject():
                self._quotas.upsert(found, at)
            case LeaseObject():
                self._lease_seen(found, at)
            case EventObject():
                if (failed := self._failed.take(found)) is not None:
                    self._controller(*failed, at)
            case ControllerObject() | ReplicationControllerObject() if controller in _OWNERS:
                self._controller(controller, found, at)
            case _:
                pass

    def gone(self, gone: ObjectGone, controller: str, at: datetime) -> None:
        """An object is gone. Of Leases only one is watched: the last webhook that stops deletes it."""
        self._at = at
        if gone.kind == "leases":
            self._renewed = self._renew_time = None
        elif gone.kind == HPAS.name:
            for facts in (self._hpas, self._hpa_policies):
                facts.remove(f"{gone.namespace}/{gone.name}")
        elif gone.kind == BUDGETS.name:
            self._budgets.remove(f"{gone.namespace}/{gone.name}")
        elif gone.kind == QUOTAS.name:
            self._quotas.remove(f"{gone.namespace}/{gone.name}", at)
        elif controller:
            self._failed.forget(f"{controller}/{gone.namespace}/{gone.name}")
            self._controllers.remove(f"{controller}/{gone.namespace}/{gone.name}")

    def _controller(self, kind: str, found: ControllerObject | ReplicationControllerObject, at: datetime) -> None:
        fact = scheduling_facts.controller(found, kind, self._cluster, at)
        if fact is not None and kind == "Job" and isinstance(found, ControllerObject):
            wanted = failed_creations.pods_of_job(found)
            fact = replace(fact, replicas=wanted) if wanted else None
        if fact is not None:
            fact = replace(fact, refusal=self._failed.refusal(kind, found))
        name = f"{kind}/{found.metadata.namespace}/{found.metadata.name}"
        self._controllers.put(name, fact)

    def _hpa(self, found: HpaObject, at: datetime) -> None:
        target, about = found.spec.scale_target_ref, found.metadata
        metrics = [ehpa_policies.metric(each) for each in found.spec.metrics or (_DEFAULT,) if each.type in _BY_RESOURCE]
        resources = tuple(sorted({metric.name for metric in metrics}))
        shares = tuple(dict.fromkeys(each for metric in metrics if (each := metric.utilization) is not None))
        fact = HpaTargetChanged(at, self._cluster, about.namespace, about.name, target.kind, target.name, resources, shares)
        for facts in (self._hpas, self._hpa_policies):
            facts.upsert(f"{about.namespace}/{about.name}", fact)

    def _lease_seen(self, found: LeaseObject, at: datetime) -> None:
        """The time in the Lease is another machine's, so only its changes count."""
        if found.spec.renew_time != self._renew_time or self._renewed is None:
            self._renew_time, self._renewed = found.spec.renew_time, at

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:
        """Everything of a kind that exists was seen: what was published and was not seen is gone."""
        self._at = at
        if kind == "leases":
            self._listed = True
        elif kind == HPAS.name:
            self._hpas.mark_synced()
            self._hpa_policies.mark_synced()
        elif kind == BUDGETS.name:
            self._budgets.mark_synced()
        elif kind == QUOTAS.name:
            self._quotas.mark_synced(at)
        elif controllers:
            self._controllers.mark_synced()

    def publish_due(self, at: datetime) -> None:
        """Publish what changed of quotas, and whether a webhook is running, when that changed or was last published long ago."""
        self._quotas.publish_due(at)
        if not self._listed:
            return
        seen = self._lease_now(at)
        published = self._published_lease
        if published is None or published.alive != seen.alive or at - published.at >= REPUBLISH_AFTER:
            self._published_lease = seen
            self._publisher.publish_for_updates(seen)

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish again what was last published this long ago."""
        self._at = at
        self._controllers.republish(at, older)
        self._hpas.republish(at, older)
        self._budgets.republish(at, older)
        self._quotas.republish(at, older)

    def _lease_now(self, at: datetime) -> WebhookLeaseSeen:
        seen = WebhookLeaseSeen(at, self._cluster, self._lease, alive=True)
        if self._renewed is None:
            return replace(seen, alive=False, reason=f"there is no Lease '{self._lease}'")
        if at - self._renewed > ALIVE:
            return replace(seen, alive=False, reason=f"Lease '{self._lease}' was not renewed for {ALIVE.total_seconds():g} s")
        return seen
