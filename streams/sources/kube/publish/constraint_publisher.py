"""Publishes further constraints on updates of pods: replica counts, HPAs, disruption budgets, quotas, a webhook's Lease."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from schemas.facts import update_facts
from schemas.facts.update_facts import (
    HpaTargetChanged,
    HpaTargetRemoved,
    ObjectChanged,
    ReplicaControllerChanged,
    WebhookLeaseSeen,
)
from streams.clients.kube.autoscaler_specs import HpaObject
from streams.clients.kube.watched_objects import (
    ControllerObject,
    EventObject,
    KubeObject,
    LeaseObject,
    ReplicationControllerObject,
)
from streams.publishing.published_state import REPUBLISH_AFTER, PublishedState
from streams.sources.kube.publish import failed_creations, scheduling_facts
from streams.sources.kube.publish.fact_changes import NamesNothingError, PublishedFacts
from streams.sources.kube.publish.failed_creations import FailedCreations
from streams.sources.kube.publish.paced_facts import PacedFacts
from streams.sources.kube.publish.publisher import Publisher
from streams.sources.kube.publish.update_resources import UPDATE_RESOURCES
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread
from streams.sources.kube.watch.watched_resources import HPAS

ALIVE = timedelta(seconds=60)  # without a renewal, as upstream's updater has it
_OWNERS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"})
"""The controllers that pods have and that say how many there should be."""


class UpdateConstraintPublisher:
    """Everything in a cluster that the updater considers besides pods and policies. `lease`: the webhook's (namespace/name)."""

    def __init__(self, publisher: Publisher, cluster: str, lease: str) -> None:
        self._publisher, self._cluster, self._lease = publisher, cluster, lease
        self._at = datetime.min  # noqa: DTZ901  # before anything was seen
        self._objects = {row.resource.name: PacedFacts(self._facts(), row.settled) for row in UPDATE_RESOURCES}
        self._controllers, self._failed = self._facts(), FailedCreations()
        self._hpa_policies: PublishedFacts[HpaTargetChanged] = PublishedFacts(
            publisher.publish, lambda fact: publisher.publish(HpaTargetRemoved(self._at, fact.cluster, fact.namespace, fact.name))
        )
        """The same HPAs among the policies, for stages that read no facts about pods."""
        self._renewed: datetime | None = None
        """When the Lease was last seen to be renewed, in event time."""
        self._renew_time: datetime | None = None
        self._listed = False
        self._published_lease: WebhookLeaseSeen | None = None

    def _facts(self) -> PublishedFacts[ObjectChanged]:
        publish = self._publisher.publish_for_updates
        return PublishedFacts(publish, lambda fact: publish(update_facts.removal(fact, self._at)))

    def restore(self, published: PublishedState, at: datetime) -> None:
        """Start from what the log has."""
        self._at, self._published_lease = at, None
        for row in UPDATE_RESOURCES:
            self._objects[row.resource.name].restore(row.published(published))
        self._controllers.restore(published.published_for_updates(ReplicaControllerChanged))
        self._hpa_policies.restore(published.hpa_policies)

    def seen(self, controller: str, item: KubeObject, at: datetime) -> None:
        """An object exists; `controller` is its kind if it is one. Other objects are ignored."""
        self._at = at
        for row in UPDATE_RESOURCES:
            if isinstance(item, row.resource.type):
                about = item.metadata
                name, fact = row.name(about.namespace, about.name), row.read(item, self._cluster, at)
                self._objects[row.resource.name].put(name, fact, at)
                if isinstance(item, HpaObject):
                    self._hpa_policies.put(name, fact if isinstance(fact, HpaTargetChanged) else None)
                    if fact is None:
                        raise NamesNothingError("spec.scaleTargetRef names no kind or no name")
        match item:
            case LeaseObject():
                self._lease_seen(item, at)
            case EventObject():
                if (failed := self._failed.take(item)) is not None:
                    self._controller(*failed, at)
            case ControllerObject() | ReplicationControllerObject() if controller in _OWNERS:
                self._controller(controller, item, at)
            case _:
                pass

    def unread(self, unread: ObjectUnread, controller: str) -> None:
        """What an object that cannot be read was known to ask for still holds."""
        for facts, name in self._facts_of(unread, controller):
            facts.keep(name)

    def gone(self, gone: ObjectGone, controller: str, at: datetime) -> None:
        """An object is gone."""
        self._at = at
        if gone.kind == "leases":  # only one is watched, and the last webhook that stops deletes it
            self._renewed = self._renew_time = None
        elif controller:
            self._failed.forget(f"{controller}/{gone.namespace}/{gone.name}")
        for facts, name in self._facts_of(gone, controller):
            facts.remove(name)

    def _facts_of(
        self, of: ObjectGone | ObjectUnread, controller: str
    ) -> Iterator[tuple[PacedFacts[ObjectChanged] | PublishedFacts[Any], str]]:
        """Where facts about an object are kept, and under which name."""
        name = f"{of.namespace}/{of.name}"
        row = next((row for row in UPDATE_RESOURCES if row.resource.name == of.kind), None)
        if row is not None:
            yield self._objects[of.kind], row.name(of.namespace, of.name)
        elif controller:
            yield self._controllers, f"{of.namespace}/{controller}/{of.name}"
        if of.kind == HPAS.name:
            yield self._hpa_policies, name

    def _controller(self, kind: str, item: ControllerObject | ReplicationControllerObject, at: datetime) -> None:
        fact = scheduling_facts.controller(item, kind, self._cluster, at)
        if fact is not None and kind == "Job" and isinstance(item, ControllerObject):
            wanted = failed_creations.pods_of_job(item)
            fact = replace(fact, replicas=wanted, last_failure=failed_creations.last_failure(item)) if wanted else None
        if fact is not None:
            fact = replace(fact, refusal=self._failed.refusal(kind, item))
        self._controllers.put(f"{item.metadata.namespace}/{kind}/{item.metadata.name}", fact)

    def _lease_seen(self, lease: LeaseObject, at: datetime) -> None:
        # The time in the Lease is another machine's, so only its changes count.
        if lease.spec.renew_time != self._renew_time or self._renewed is None:
            self._renew_time, self._renewed = lease.spec.renew_time, at

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:
        """Everything of a kind that exists was seen: what was published and was not seen is gone."""
        self._at = at
        if kind == "leases":
            self._listed = True
        elif (facts := self._objects.get(kind)) is not None:
            facts.mark_synced()
            if kind == HPAS.name:
                self._hpa_policies.mark_synced()
        elif controllers:
            self._controllers.mark_synced()

    def publish_due(self, at: datetime) -> None:
        """Publish busy objects that have waited long enough.

        Then whether a webhook is running, when that changed or was last published long ago.
        """
        self._at = at
        for facts in self._objects.values():
            facts.publish_due(at)
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
        for facts in self._objects.values():
            facts.republish(at, older)

    def _lease_now(self, at: datetime) -> WebhookLeaseSeen:
        seen = WebhookLeaseSeen(at, self._cluster, self._lease, alive=True)
        if self._renewed is None:
            return replace(seen, alive=False, reason=f"there is no Lease '{self._lease}'")
        if at - self._renewed > ALIVE:
            return replace(seen, alive=False, reason=f"Lease '{self._lease}' was not renewed for {ALIVE.total_seconds():g} s")
        return seen
