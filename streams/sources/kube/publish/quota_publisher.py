"""Publishes how full the quotas of namespaces are, at most every few seconds for each: a busy one changes all the time.

A quota whose bounds or scopes change is published at once. A quota that bounds nothing of pods has no fact.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from schemas import exact_quantity
from schemas.facts.resource_quotas import QuotaScope, ResourceQuotaChanged, ResourceQuotaRemoved
from streams.clients.kube.watched_objects import ResourceQuotaObject
from streams.sources.kube.publish.fact_changes import PublishedFacts
from streams.sources.kube.publish.publisher import Publisher

PERIOD = timedelta(seconds=5)
"""The shortest time between two facts about one quota of which only the use changes."""
AT_ONCE = 100
"""Facts that are published at one time, so that a cluster of ten thousand quotas costs no more."""
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset({"pods", "count/pods"})
_HUGE_PAGES, _REQUESTS, _LIMITS = "hugepages-", "requests.", "limits."


class QuotaPublisher:
    """The quotas of one cluster."""

    def __init__(self, publisher: Publisher, cluster: str) -> None:
        self._cluster = cluster
        self._at = datetime.min  # noqa: DTZ901  # before anything was seen
        publish = publisher.publish_for_updates
        self._facts: PublishedFacts[ResourceQuotaChanged] = PublishedFacts(
            publish, lambda fact: publish(ResourceQuotaRemoved(self._at, fact.cluster, fact.namespace, fact.name))
        )
        self._published: dict[str, ResourceQuotaChanged] = {}
        """What this process published last, by name."""
        self._waiting: dict[str, ResourceQuotaChanged] = {}
        self._since: dict[str, datetime] = {}
        """When each was published."""

    def restore(self, published: Mapping[str, ResourceQuotaChanged], at: datetime) -> None:
        """Start from what the log has."""
        self._at = at
        self._facts.restore(published)

    def upsert(self, found: ResourceQuotaObject, at: datetime) -> None:
        """A quota exists. Raises ValueError for a bad quantity."""
        self._at = at
        name, fact = f"{found.metadata.namespace}/{found.metadata.name}", changed(found, self._cluster, at)
        before = self._published.get(name)
        if not fact.hard:
            self.remove(name, at)
        elif before is None or (before.hard, before.scopes) != (fact.hard, fact.scopes):
            self._publish(name, fact, at)
        elif before.used != fact.used or name in self._waiting:
            self._waiting[name] = fact

    def remove(self, name: str, at: datetime) -> None:
        """A quota (namespace/name) is gone."""
        self._at = at
        self._waiting.pop(name, None)
        self._published.pop(name, None)
        self._since.pop(name, None)
        self._facts.remove(name)

    def mark_synced(self, at: datetime) -> None:
        """Every quota that exists was seen."""
        self._at = at
        self._facts.mark_synced()

    def publish_due(self, at: datetime) -> None:
        """Publish the changes that have waited long enough, those that have waited longest first."""
        due = [name for name in self._waiting if at - self._since[name] >= PERIOD]
        for name in sorted(due, key=lambda name: self._since[name])[:AT_ONCE]:
            self._publish(name, self._waiting[name], at)

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish again what was last published this long ago."""
        self._facts.republish(at, older)

    def _publish(self, name: str, fact: ResourceQuotaChanged, at: datetime) -> None:
        self._waiting.pop(name, None)
        self._published[name], self._since[name] = fact, at
        self._facts.upsert(name, fact)


def changed(found: ResourceQuotaObject, cluster: str, at: datetime) -> ResourceQuotaChanged:
    """The fact about a quota. Raises ValueError for a bad quantity."""
    spec = found.spec
    selected = () if spec.scope_selector is None else spec.scope_selector.match_expressions or ()
    scopes = [QuotaScope(scope) for scope in spec.scopes or ()]
    scopes += [QuotaScope(item.scope_name, item.operator, tuple(item.values or ())) for item in selected]
    about, status = found.metadata, found.status
    return ResourceQuotaChanged(
        at, cluster, about.namespace, about.name, _of_pods(status.hard), _of_pods(status.used), tuple(scopes)
    )


def _of_pods(quantities: Mapping[str, str] | None) -> dict[str, str]:
    """The amounts that pods count for. Source: MatchingResources in Kubernetes' pkg/quota/v1/evaluator/core/pods.go."""
    kept = {name: text for name, text in sorted((quantities or {}).items()) if _is_of_pods(name)}
    for text in kept.values():
        exact_quantity.parse(text)
    return kept


def _is_of_pods(name: str) -> bool:
    if name in _COUNTED or name in _NATIVE or name.startswith(_HUGE_PAGES):
        return True
    if name.startswith(_REQUESTS):
        bare = name.removeprefix(_REQUESTS)
        return bare in _NATIVE or bare.startswith(_HUGE_PAGES) or "/" in bare
    return name.startswith(_LIMITS) and name.removeprefix(_LIMITS) in _NATIVE
