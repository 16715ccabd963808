"""UPDATE_RESOURCES: what is watched for the updater besides pods and policies, and the fact that each object makes.

What is watched, the rights that this takes, what is published and what is restored follow from the table. The facts themselves
stand in schemas.facts.update_facts. Controllers and the webhook's Lease have rules of their own, in constraint_publisher.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schemas import exact_quantity
from schemas.facts.disruption_budgets import PodDisruptionBudgetChanged
from schemas.facts.hpa_targets import HpaTargetChanged
from schemas.facts.resource_quotas import QuotaScope, ResourceQuotaChanged
from schemas.facts.update_facts import ObjectChanged
from streams.clients.kube.autoscaler_specs import HpaObject, MetricBlock, MetricEntry, TargetSpec
from streams.clients.kube.list_watch_requests import ApiResource
from streams.clients.kube.watched_objects import KubeObject, ResourceQuotaObject
from streams.sources.kube.publish import ehpa_policies, scheduling_facts
from streams.sources.kube.watch.watched_resources import BUDGETS, HPAS, QUOTAS


@dataclass(frozen=True, slots=True)
class UpdateResource:
    """Objects of one resource, which stand in namespaces: one that does not would need a name of its own at a restart.

    `read` makes the `fact` of an object, given its cluster and the time; None if there is none.
    """

    resource: ApiResource[KubeObject]
    fact: type[ObjectChanged]
    read: Callable[[Any, str, datetime], ObjectChanged | None]
    """Raises ValueError for an object that cannot be read."""
    settled: Callable[[Any], object] | None = None
    """A fact without the fields that change all the time: these are published every few seconds only."""


def hpa(found: HpaObject, cluster: str, at: datetime) -> HpaTargetChanged | None:
    """What an HPA scales, and by which resources; None for one that names nothing. Raises ValueError for an odd metric."""
    target, about = found.spec.scale_target_ref, found.metadata
    if not target.kind or not target.name:
        return None
    metrics = [
        ehpa_policies.metric(entry, f"spec.metrics[{place}]")
        for place, entry in enumerate(found.spec.metrics or (_DEFAULT,))
        if entry.type in _BY_RESOURCE
    ]
    resources = tuple(sorted({metric.name for metric in metrics}))
    shares = tuple(dict.fromkeys(each for metric in metrics if (each := metric.utilization) is not None))
    return HpaTargetChanged(at, cluster, about.namespace, about.name, target.kind, target.name, resources, shares)


_BY_RESOURCE = ("Resource", "ContainerResource")
_DEFAULT = MetricEntry("Resource", resource=MetricBlock("cpu", target=TargetSpec("Utilization", average_utilization=80)))
"""What the API server assumes of an HPA without metrics."""


def quota(found: ResourceQuotaObject, cluster: str, at: datetime) -> ResourceQuotaChanged | None:
    """How full a quota is; None for one that bounds nothing of pods. Raises ValueError for a bad quantity."""
    about, spec, status = found.metadata, found.spec, found.status
    hard = _of_pods(status.hard)
    if not hard:
        return None
    selected = () if spec.scope_selector is None else spec.scope_selector.match_expressions or ()
    scopes = [QuotaScope(scope) for scope in spec.scopes or ()]
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


UPDATE_RESOURCES: tuple[UpdateResource, ...] = (
    UpdateResource(HPAS, HpaTargetChanged, hpa),
    UpdateResource(BUDGETS, PodDisruptionBudgetChanged, scheduling_facts.budget),
    UpdateResource(QUOTAS, ResourceQuotaChanged, quota, settled=lambda fact: (fact.hard, fact.scopes)),
)
