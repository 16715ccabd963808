"""UPDATE_RESOURCES: what is watched for the updater besides pods and policies, and the fact that each object makes.

What is watched, the rights that this takes, what is published and what is restored follow from the table. The facts themselves
stand in schemas.facts.update_facts. Controllers and the webhook's Lease have rules of their own, in constraint_publisher.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from schemas import exact_quantity
from schemas.bounds import kept_labels
from schemas.facts.update_facts import (
    NAMESPACE,
    SERVICE_ACCOUNT,
    HpaTargetChanged,
    ObjectChanged,
    ObjectMetadataChanged,
    PodDisruptionBudgetChanged,
    QuotaScope,
    ResourceQuotaChanged,
)
from streams.clients.kube.autoscaler_specs import HpaObject, MetricBlock, MetricEntry, TargetSpec
from streams.clients.kube.list_watch_requests import ApiResource
from streams.clients.kube.watched_objects import KubeObject, LabelledObject, ResourceQuotaObject
from streams.publishing.published_state import PublishedState
from streams.sources.kube.publish import ehpa_policies, scheduling_facts
from streams.sources.kube.watch.watched_resources import BUDGETS, HPAS, NAMESPACES, QUOTAS


@dataclass(frozen=True, slots=True)
class UpdateResource:
    """`read` makes the `fact` of an object of a resource, given its cluster and the time; None if there is none."""

    resource: ApiResource[KubeObject]
    fact: type[ObjectChanged]
    read: Callable[[Any, str, datetime], ObjectChanged | None]
    """Raises ValueError for an object that cannot be read."""
    settled: Callable[[Any], object] | None = None
    """A fact without the fields that change all the time: these are published every few seconds only."""
    kind: str = ""
    """The kind of the resource's objects, where facts of other resources are of the same class."""

    def name(self, namespace: str, name: str) -> str:
        """Under which name an object's fact is kept: `namespace/name`. A Namespace is in the namespace of its own name."""
        return f"{name if self.resource == NAMESPACES else namespace}/{name}"

    def published(self, state: PublishedState) -> dict[str, ObjectChanged]:
        """What the log has of the resource's objects, by these names."""
        facts = state.published_for_updates(self.fact).values()
        return {f"{fact.namespace}/{fact.name}": fact for fact in facts if self.kind in ("", getattr(fact, "kind", ""))}


def hpa(hpa: HpaObject, cluster: str, at: datetime) -> HpaTargetChanged | None:
    """What an HPA scales, and by which resources; None for one that names nothing. Raises ValueError for an odd metric."""
    target, about = hpa.spec.scale_target_ref, hpa.metadata
    if not target.kind or not target.name:
        return None
    # Metrics of other kinds do not depend on what an update changes.
    metrics = [
        ehpa_policies.metric(entry, f"spec.metrics[{place}]")
        for place, entry in enumerate(hpa.spec.metrics or (_DEFAULT,))
        if entry.type in _BY_RESOURCE
    ]
    resources = tuple(sorted({metric.name for metric in metrics}))
    shares = tuple(dict.fromkeys(utilization for metric in metrics if (utilization := metric.utilization) is not None))
    return HpaTargetChanged(at, cluster, about.namespace, about.name, target.kind, target.name, resources, shares)


_BY_RESOURCE = ("Resource", "ContainerResource")
_DEFAULT = MetricEntry("Resource", resource=MetricBlock("cpu", target=TargetSpec("Utilization", average_utilization=80)))
"""What the API server assumes of an HPA without metrics."""


def quota(quota: ResourceQuotaObject, cluster: str, at: datetime) -> ResourceQuotaChanged | None:
    """How full a quota is; None for one that bounds nothing of pods. Raises ValueError for a bad quantity."""
    about, spec, status = quota.metadata, quota.spec, quota.status
    hard = _of_pods(status.hard)
    if not hard:
        return None
    selected = () if spec.scope_selector is None else spec.scope_selector.match_expressions or ()
    scopes = [QuotaScope(scope) for scope in spec.scopes or ()]
    # Both forms count together, as upstream has it (getScopeSelectorsFromQuota).
    scopes += [QuotaScope(item.scope_name, item.operator, tuple(item.values or ())) for item in selected]
    return ResourceQuotaChanged(at, cluster, about.namespace, about.name, hard, _of_pods(status.used), tuple(scopes))


_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED = frozenset({"pods", "count/pods"})
_HUGE_PAGES, _REQUESTS, _LIMITS = "hugepages-", "requests.", "limits."


def _of_pods(quantities: Mapping[str, str] | None) -> dict[str, str]:
    """The amounts that pods count for. Source: MatchingResources in Kubernetes' pkg/quota/v1/evaluator/core/pods.go."""
    kept = {name: text for name, text in sorted((quantities or {}).items()) if _is_of_pods(name)}
    for name, text in kept.items():
        try:
            exact_quantity.parse(text)
        except exact_quantity.NotAQuantityError as error:
            raise ValueError(f"'{text[:80]}' is no quantity of {name[:80]}: {error}") from None
    return kept


def _is_of_pods(name: str) -> bool:
    if name in _COUNTED or name in _NATIVE or name.startswith(_HUGE_PAGES):
        return True
    if name.startswith(_REQUESTS):
        bare = name.removeprefix(_REQUESTS)
        return bare in _NATIVE or bare.startswith(_HUGE_PAGES) or "/" in bare
    return name.startswith(_LIMITS) and name.removeprefix(_LIMITS) in _NATIVE


_LONGEST_MARK = 63  # characters of an annotation's value, as of a label's: longer ones are documents that change all the time


def metadata(kind: str, seen: LabelledObject, cluster: str, at: datetime) -> ObjectMetadataChanged | None:
    """The labels and annotations of an object; None for one that has neither."""
    about = seen.metadata
    annotations = {name: value for name, value in (about.annotations or {}).items() if len(value) <= _LONGEST_MARK}
    marks = kept_labels(about.labels or {}), kept_labels(annotations)
    namespace = about.name if kind == NAMESPACE else about.namespace
    return ObjectMetadataChanged(at, cluster, kind, namespace, about.name, *marks) if any(marks) else None


def by_metadata(path: str, kind: str) -> UpdateResource:
    """Objects of namespaces of which the updater reads nothing else; node scaling may read more of them in the same watch."""
    resource: ApiResource[KubeObject] = ApiResource(path.rpartition("/")[2], path, LabelledObject, metadata=True)
    return UpdateResource(resource, ObjectMetadataChanged, partial(metadata, kind), kind=kind)


UPDATE_RESOURCES: tuple[UpdateResource, ...] = (
    UpdateResource(HPAS, HpaTargetChanged, hpa),
    UpdateResource(BUDGETS, PodDisruptionBudgetChanged, scheduling_facts.budget),
    UpdateResource(QUOTAS, ResourceQuotaChanged, quota, settled=lambda fact: (fact.hard, fact.scopes)),
    by_metadata(NAMESPACES.path, NAMESPACE),
    by_metadata("/api/v1/serviceaccounts", SERVICE_ACCOUNT),
)
