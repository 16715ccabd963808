"""Publishes further constraints on updates of pods: replica counts, HPAs, disruption budgets, quotas, a webhook's Lease.

Why a controller cannot make the pods that it wants is the condition of those that have one, else the events that they write. A
field that changes all the time, such as what a quota has in use, is published at most every few seconds for each object.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Generic

from schemas.facts import update_facts
from schemas.facts.update_facts import (
    HpaTargetChanged,
    HpaTargetRemoved,
    ObjectChanged,
    ReplicaControllerChanged,
    WebhookLeaseSeen,
)
from streams.clients.kube.watched_objects import (
    ControllerObject,
    EventObject,
    KubeObject,
    LeaseObject,
    ReplicationControllerObject,
)
from streams.publishing.published_state import REPUBLISH_AFTER, PublishedState
from streams.sources.kube.publish import scheduling_facts
from streams.sources.kube.publish.publisher import F, NamesNothingError, PublishedFacts, Publisher, SubjectPublisher, alike
from streams.sources.kube.publish.update_resources import UPDATE_RESOURCES
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread
from streams.sources.kube.watch.watched_resources import CONTROLLERS, HPAS

MOST = 10_000
"""Controllers whose events are kept."""
LONGEST = 500
"""Characters of an answer that are kept."""
_CONDITION, _REASON = "ReplicaFailure", "FailedCreate"
_EVENTS_ONLY = ("StatefulSet", "DaemonSet", "Job")
AnyController = ControllerObject | ReplicationControllerObject


class FailedCreations:
    """The newest state of the controllers that are short of pods, with the event that says why."""

    def __init__(self) -> None:
        self._messages: OrderedDict[str, str] = OrderedDict()
        self._short: dict[str, ControllerObject] = {}

    def refusal(self, kind: str, item: AnyController) -> str:
        """What was answered when the controller could not make a pod; empty while it can."""
        name = _name(kind, item.metadata.namespace, item.metadata.name)
        if kind not in _EVENTS_ONLY or not isinstance(item, ControllerObject):
            failed = (
                condition for condition in item.status.conditions if (condition.type, condition.status) == (_CONDITION, "True")
            )
            return next((condition.message[:LONGEST] for condition in failed if condition.reason == _REASON), "")
        if not _is_short(kind, item):
            self.forget(name)
            return ""
        self._short[name] = item
        return self._messages.get(name, "")

    def take(self, event: EventObject) -> tuple[str, ControllerObject] | None:
        """An event of a controller that could not make a pod: its kind and object, if that is news for it."""
        about = event.involved_object
        name = _name(about.kind, about.namespace, about.name)
        # The first one's text stays: later ones name another pod each time, and would make a fact each time.
        if event.reason != _REASON or about.kind not in _EVENTS_ONLY or name in self._messages:
            return None
        self._messages[name] = event.message[:LONGEST]
        if len(self._messages) > MOST:
            self._messages.popitem(last=False)
        short = self._short.get(name)
        return None if short is None else (about.kind, short)

    def forget(self, name: str) -> None:
        """A controller (kind/namespace/name) is gone, or has its pods."""
        self._short.pop(name, None)
        self._messages.pop(name, None)


def pods_of_job(controller: ControllerObject) -> int:
    """How many pods a Job still wants at one time; none once it has ended or while it is suspended."""
    ended = any(
        condition.type in ("Complete", "Failed") and condition.status == "True" for condition in controller.status.conditions
    )
    if ended or controller.spec.suspend:
        return 0
    # Kubernetes' own default.
    parallel = 1 if controller.spec.parallelism is None else controller.spec.parallelism
    if controller.spec.completions is None:
        # Without completions a Job is done with the first pod that succeeds, and makes no others.
        return 0 if controller.status.succeeded else parallel
    return max(0, min(parallel, controller.spec.completions - controller.status.succeeded))


_DEFAULT_BACKOFF_LIMIT = 6
"""SetDefaults_Job in Kubernetes, pkg/apis/batch/v1/defaults.go; without a limit for each index."""


def last_failure(controller: ControllerObject) -> str:
    """Why a Job would fail with one more pod that is evicted, as a clause; empty while it would make another one.

    An evicted pod counts as failed, unless the first rule that matches its condition DisruptionTarget ignores it. Source:
    exceedsBackoffLimit and matchPodFailurePolicy in Kubernetes, pkg/controller/job.
    """
    spec = controller.spec
    rules = () if spec.pod_failure_policy is None else spec.pod_failure_policy.rules
    evicted = (rule.action for rule in rules if any(pattern.type == "DisruptionTarget" for pattern in rule.on_pod_conditions))
    action = next(evicted, "Count")
    if action == "Ignore":
        return ""
    if action in ("FailJob", "FailIndex"):
        return f"its podFailurePolicy has the action {action} for a pod that is evicted"
    if spec.backoff_limit_per_index == 0:
        return "an evicted pod counts as failed, and its backoffLimitPerIndex is 0"
    limit = spec.backoff_limit
    if limit is None and spec.backoff_limit_per_index is None:
        limit = _DEFAULT_BACKOFF_LIMIT
    if limit is None or controller.status.failed < limit:
        return ""
    return f"an evicted pod counts as failed, {controller.status.failed} have failed, and its backoffLimit is {limit}"


def _is_short(kind: str, controller: ControllerObject) -> bool:
    match kind:
        case "DaemonSet":
            return controller.status.current_number_scheduled < controller.status.desired_number_scheduled
        case "Job":
            return controller.status.active < pods_of_job(controller)
        case _:
            return controller.status.replicas < (1 if controller.spec.replicas is None else controller.spec.replicas)


def _name(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{namespace}/{name}"


PERIOD = timedelta(seconds=5)
"""The shortest time between two facts about one object of which only busy fields change."""
AT_ONCE = 100  # facts that are published at one time, so that a cluster of ten thousand quotas costs no more


class PacedFacts(Generic[F]):
    """Facts of one kind. `settled` gives a fact without its busy fields; without it, every change is published at once."""

    def __init__(self, facts: PublishedFacts[F], settled: Callable[[F], object] | None) -> None:
        self._facts, self._settled = facts, settled
        self._published: dict[str, F] = {}
        """What this process published last, by name."""
        self._waiting: dict[str, F] = {}
        self._since: dict[str, datetime] = {}
        """When each was published."""

    def restore(self, published: Mapping[str, F]) -> None:
        """Start from what the log has."""
        self._facts.restore(published)

    def put(self, name: str, fact: F | None, at: datetime) -> None:
        """An object exists; None if there is no fact about it any more."""
        before = self._published.get(name)
        if fact is None:
            self.remove(name)
        elif self._settled is None:
            self._facts.upsert(name, fact)
        elif before is None or self._settled(before) != self._settled(fact):
            self._publish(name, fact, at)
        # Also what looks as it was published, because it replaces another change that waits.
        elif name in self._waiting or not alike(before, fact):
            self._waiting[name] = fact

    def remove(self, name: str) -> None:
        """An object is gone."""
        self._waiting.pop(name, None)
        self._published.pop(name, None)
        self._since.pop(name, None)
        self._facts.remove(name)

    def keep(self, name: str) -> None:
        """An object exists and cannot be read."""
        self._facts.keep(name)

    def mark_synced(self) -> None:
        """Every object that exists was seen."""
        self._facts.mark_synced()

    def publish_due(self, at: datetime) -> None:
        """Publish the changes that have waited long enough, those that have waited longest first."""
        due = [name for name in self._waiting if at - self._since[name] >= PERIOD]
        for name in sorted(due, key=lambda name: self._since[name])[:AT_ONCE]:
            self._publish(name, self._waiting[name], at)

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish again what was last published this long ago."""
        self._facts.republish(at, older)

    def _publish(self, name: str, fact: F, at: datetime) -> None:
        self._waiting.pop(name, None)
        self._published[name], self._since[name] = fact, at
        self._facts.upsert(name, fact)


ALIVE = timedelta(seconds=60)  # without a renewal, as upstream's updater has it
_OWNERS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"})
"""The controllers that pods have and that say how many there should be."""
_ROWS = {row.resource.name: row for row in UPDATE_RESOURCES}


class UpdateConstraintPublisher(SubjectPublisher):
    """Everything in a cluster that the updater considers besides pods and policies. `lease`: the webhook's (namespace/name)."""

    def __init__(self, publisher: Publisher, cluster: str, lease: str) -> None:
        self._publisher, self._cluster, self._lease = publisher, cluster, lease
        self._at = datetime.min  # noqa: DTZ901  # before anything was seen
        self._objects = {row.resource.name: PacedFacts(self._facts(), row.settled) for row in UPDATE_RESOURCES}
        self._controllers, self._failed = self._facts(), FailedCreations()
        self._hpa_policies: PublishedFacts[HpaTargetChanged] = publisher.facts(HpaTargetRemoved, lambda: self._at)
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

    def seen(self, kind: str, item: KubeObject, at: datetime) -> None:
        """An object exists. Those that the updater does not consider are ignored."""
        self._at = at
        if (row := _ROWS.get(kind)) is not None:
            about = item.metadata
            name, fact = row.name(about.namespace, about.name), row.read(item, self._cluster, at)
            self._objects[kind].put(name, fact, at)
            if kind == HPAS.name:
                self._hpa_policies.put(name, fact if isinstance(fact, HpaTargetChanged) else None)
                if fact is None:
                    raise NamesNothingError("spec.scaleTargetRef names no kind or no name")
        match item:
            case LeaseObject():
                self._lease_seen(item, at)
            case EventObject():
                if (failed := self._failed.take(item)) is not None:
                    self._controller(*failed, at)
            case ControllerObject() | ReplicationControllerObject() if CONTROLLERS[kind] in _OWNERS:
                self._controller(CONTROLLERS[kind], item, at)
            case _:
                pass

    def unread(self, unread: ObjectUnread) -> None:
        """What an object that cannot be read was known to ask for still holds."""
        for facts, name in self._facts_of(unread):
            facts.keep(name)

    def gone(self, gone: ObjectGone, at: datetime) -> None:
        """An object is gone."""
        self._at = at
        if gone.kind == "leases":  # only one is watched, and the last webhook that stops deletes it
            self._renewed = self._renew_time = None
        elif gone.kind in CONTROLLERS:
            self._failed.forget(f"{CONTROLLERS[gone.kind]}/{gone.namespace}/{gone.name}")
        for facts, name in self._facts_of(gone):
            facts.remove(name)

    def _facts_of(self, of: ObjectGone | ObjectUnread) -> Iterator[tuple[PacedFacts[ObjectChanged] | PublishedFacts[Any], str]]:
        """Where facts about an object are kept, and under which name."""
        if (row := _ROWS.get(of.kind)) is not None:
            yield self._objects[of.kind], row.name(of.namespace, of.name)
        elif of.kind in CONTROLLERS:
            yield self._controllers, f"{of.namespace}/{CONTROLLERS[of.kind]}/{of.name}"
        if of.kind == HPAS.name:
            yield self._hpa_policies, f"{of.namespace}/{of.name}"

    def _controller(self, kind: str, item: ControllerObject | ReplicationControllerObject, at: datetime) -> None:
        fact = scheduling_facts.controller(item, kind, self._cluster, at)
        if fact is not None and kind == "Job" and isinstance(item, ControllerObject):
            wanted = pods_of_job(item)
            # A Job has parallelism where other controllers have replicas.
            fact = replace(fact, replicas=wanted, last_failure=last_failure(item)) if wanted else None
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
