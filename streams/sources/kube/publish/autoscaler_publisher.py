"""Publishes what scales workloads: EHPAs, TimeSeriesPredictions, HPAs, and the scales of EHPAs' targets.

Scales are taken from the controllers that are watched anyway.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from schemas import event_bounds
from schemas.facts.replica_scaling import HpaSeen, ScaleSeen
from schemas.names import Workload
from schemas.policies.ehpa import EHPA_KIND, EhpaChanged, EhpaRemoved, ehpa_key
from schemas.policies.time_series_prediction import (
    PredictionMetric,
    TimeSeriesPredictionChanged,
    TimeSeriesPredictionRemoved,
    tsp_key,
)
from schemas.policies.vpa import TargetRef
from streams.clients.kube import prediction_specs as specs
from streams.clients.kube.autoscaler_specs import AutoscalerObject, HpaObject
from streams.clients.kube.prediction_specs import PredictionObject
from streams.clients.kube.watched_objects import ControllerObject, KubeObject, LabelSelector
from streams.publishing.published_state import PublishedState
from streams.sources.kube.publish import ehpa_policies, hpa_facts, object_authors, object_bounds
from streams.sources.kube.publish.fact_changes import PublishedFacts
from streams.sources.kube.publish.publisher import Publisher
from streams.sources.kube.watch.notifications import ObjectGone
from streams.sources.kube.watch.watched_resources import EHPAS, HPAS, TSPS

SHORTEST_WINDOW = 600
"""Seconds, as upstream's admission has it."""
_QUERIES = ("ResourceQuery", "MetricQuery", "ExpressionQuery")


def changed(found: specs.PredictionObject, cluster: str, at: datetime) -> TimeSeriesPredictionChanged:
    """The policy that an object makes."""
    meta, about = found.metadata, specs.decode_predicted(found.spec)
    owners = [owner.uid for owner in meta.owner_references or () if owner.kind == EHPA_KIND]
    named = about is not None and about.kind and about.name and "/" not in about.kind + about.name + about.namespace
    bare = TimeSeriesPredictionChanged(
        at=at,
        cluster=cluster,
        namespace=meta.namespace,
        name=meta.name,
        created=meta.creation_timestamp or at,
        target_ref=TargetRef(about.kind, about.name, about.api_version) if about is not None and named else None,
        target_namespace=about.namespace if about is not None and named else "",
        labels=dict(meta.labels or {}),
        owner_uid=owners[0] if owners else "",
        uid=meta.uid,
        generation=meta.generation,
        resource_version=meta.resource_version,
        by=object_authors.author(meta),
    )
    try:
        return _whole(bare, specs.decode_prediction(found.spec))
    except ValueError as fault:
        return replace(bare, unsupported=f"The spec cannot be carried out: {fault}")


def within_bounds(
    policy: TimeSeriesPredictionChanged, size: Callable[[TimeSeriesPredictionChanged], int]
) -> TimeSeriesPredictionChanged:
    """The policy itself, or, if it is too large, one that only names the object and the bound."""
    why = object_bounds.excess(policy, size)
    if not why:
        return policy
    bare = TimeSeriesPredictionChanged(policy.at, policy.cluster, policy.namespace, policy.name, policy.created, uid=policy.uid)
    bare = replace(bare, generation=policy.generation, unsupported=f"The object is too large: {why}")
    named = replace(bare, target_ref=policy.target_ref, target_namespace=policy.target_namespace)
    return named if event_bounds.fault(named) is None else bare


def _whole(bare: TimeSeriesPredictionChanged, spec: specs.TspSpec) -> TimeSeriesPredictionChanged:
    metrics = tuple(_metric(entry) for entry in spec.prediction_metrics or ())
    whole = replace(bare, window_seconds=spec.prediction_window_seconds, metrics=metrics)
    return replace(whole, unsupported=_objection(whole))


def _metric(entry: specs.PredictionMetricSpec) -> PredictionMetric:
    return PredictionMetric(
        entry.resource_identifier,
        entry.type,
        entry.resource_query,
        "" if entry.expression_query is None else entry.expression_query.expression,
        "" if entry.metric_query is None else entry.metric_query.metric_name,
        None if entry.algorithm is None else ehpa_policies.algorithm(entry.algorithm),
    )


def _objection(policy: TimeSeriesPredictionChanged) -> str:
    """Why nothing can be forecast for the object; empty if something can.

    Source: `pkg/webhooks/prediction/time_series_prediction.go` of Crane.
    """
    if policy.target_ref is None:
        return "spec.targetRef names no kind or no name"
    if (policy.window_seconds or 0) < SHORTEST_WINDOW:
        return f"spec.predictionWindowSeconds is {policy.window_seconds}; it must be at least {SHORTEST_WINDOW}"
    if not policy.metrics:
        return "spec.predictionMetrics is empty"
    twice = [name for name, count in Counter(each.identifier for each in policy.metrics).items() if count > 1]
    if twice:
        return f"spec.predictionMetrics names '{twice[0]}' more than once"
    objections = (_metric_objection(each) for each in policy.metrics)
    return next((f"spec.predictionMetrics[{place}] {what}" for place, what in enumerate(objections) if what), "")


def _metric_objection(metric: PredictionMetric) -> str:
    if metric.type not in _QUERIES:
        return f"has the type '{metric.type}'; there are {', '.join(_QUERIES)}"
    if metric.type == "MetricQuery":
        return "asks by a MetricQuery, which nothing answers; say it as an expressionQuery"
    query = metric.resource if metric.type == "ResourceQuery" else metric.expression
    return "" if query else f"is of type {metric.type} and says no query"


@dataclass(frozen=True, slots=True)
class ControllerScale:
    """Replicas asked for and there, and the selector as text; `gone` once the controller is."""

    replicas: int
    there: int
    selector: str
    gone: bool = False


MetricQueries = Callable[[EhpaChanged], Mapping[str, str]]
"""What the cluster's rules give for the metrics of an EHPA, by identifier."""


def no_queries(ehpa: EhpaChanged) -> Mapping[str, str]:
    """For a cluster without rules."""
    del ehpa
    return {}


class AutoscalerPublisher:
    """The EHPAs, predictions and HPAs of a cluster. A target of a kind that is not watched has no scale here."""

    def __init__(
        self, publisher: Publisher, cluster: str, now: Callable[[], datetime], queries: MetricQueries = no_queries
    ) -> None:
        self._publisher, self._cluster, self._now, self._queries = publisher, cluster, now, queries
        publish = publisher.publish
        self._ehpas: PublishedFacts[EhpaChanged] = PublishedFacts(
            publish, lambda one: publish(EhpaRemoved(now(), one.cluster, one.namespace, one.name))
        )
        self._predictions: PublishedFacts[TimeSeriesPredictionChanged] = PublishedFacts(
            publish, lambda one: publish(TimeSeriesPredictionRemoved(now(), one.cluster, one.namespace, one.name))
        )
        self._hpas: PublishedFacts[HpaSeen] = PublishedFacts(publish, lambda one: publish(hpa_facts.gone(one, now())))
        self._scaled: dict[str, HpaSeen] = {}
        self._targets: dict[str, str] = {}
        self._scales: dict[str, ControllerScale] = {}
        self._published_scales: dict[str, ControllerScale] = {}

    def restore(self, published: PublishedState, _at: datetime) -> None:
        """Start from what the log has. Scales are published again, which does no harm."""
        self._ehpas.restore(published.ehpas)
        self._predictions.restore(published.predictions)
        self._hpas.restore(published.seen_hpas)
        self._scaled = {**published.seen_hpas, **self._scaled}
        self._published_scales.clear()
        for target in sorted(set(self._targets.values())):
            self._publish_scale(target)

    def seen(self, controller: str, found: KubeObject, _at: datetime) -> None:
        """An EHPA, a prediction, an HPA, or a possible target with its scale."""
        match found:
            case AutoscalerObject():
                policy = ehpa_policies.changed(found, self._cluster, self._now())
                policy = replace(policy, queries=dict(self._queries(policy)))
                policy = ehpa_policies.within_bounds(policy, self._publisher.size_of_policy)
                self._ehpas.upsert(policy.key, policy)
                self._targets[policy.key] = policy.target
                self._publish_scale(policy.target)
            case PredictionObject():
                asked = changed(found, self._cluster, self._now())
                asked = within_bounds(asked, self._publisher.size_of_policy)
                self._predictions.upsert(asked.key, asked)
            case HpaObject():
                self._hpa_seen(f"{found.metadata.namespace}/{found.metadata.name}", found)
            case ControllerObject():
                self._controller_seen(controller, found)
            case _:
                pass

    def gone(self, gone: ObjectGone, controller: str, _at: datetime) -> None:
        """An object is gone."""
        if controller:
            self._controller_gone(gone.namespace, controller, gone.name)
        elif gone.kind == EHPAS.name:
            key = ehpa_key(self._cluster, gone.namespace, gone.name)
            self._ehpas.remove(key)
            self._targets.pop(key, None)
        elif gone.kind == TSPS.name:
            self._predictions.remove(tsp_key(self._cluster, gone.namespace, gone.name))
        elif gone.kind == HPAS.name:
            self._hpas.remove(f"{gone.namespace}/{gone.name}")
            self._scaled.pop(f"{gone.namespace}/{gone.name}", None)

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:  # noqa: ARG002  # the protocol's
        """Every object of a watched kind that exists was seen."""
        if kind == EHPAS.name:
            self._ehpas.mark_synced()
        elif kind == TSPS.name:
            self._predictions.mark_synced()
        elif kind == HPAS.name:
            self._hpas.mark_synced()

    def publish_due(self, at: datetime) -> None:
        """Nothing waits."""

    def republish(self, at: datetime, older: timedelta) -> None:
        """Publish HPAs again that have not changed for so long, so that a start finds them near the end of the log.

        EHPAs are published again when their queries have changed with the rules.
        """
        self._hpas.republish(at, older)
        for policy in self._ehpas.current():
            queries = dict(self._queries(policy))
            if queries != policy.queries:
                self._ehpas.upsert(policy.key, replace(policy, at=at, queries=queries))

    def _hpa_seen(self, name: str, found: HpaObject) -> None:
        """An HPA that scales another workload now is gone for the former one."""
        fact, before = hpa_facts.seen(found, self._cluster, self._now()), self._scaled.pop(name, None)
        if before is not None and (fact is None or fact.workload != before.workload):
            self._hpas.remove(name)
        if fact is not None:
            self._scaled[name] = fact
            self._hpas.upsert(name, fact)

    def _controller_seen(self, kind: str, found: ControllerObject) -> None:
        """A controller exists, with this scale."""
        target = f"{self._cluster}/{found.metadata.namespace}/{kind}/{found.metadata.name}"
        asked = 1 if found.spec.replicas is None else found.spec.replicas
        self._scales[target] = ControllerScale(asked, found.status.replicas, _text(found.spec.selector))
        self._publish_scale(target)

    def _controller_gone(self, namespace: str, kind: str, name: str) -> None:
        """A controller is gone."""
        target = f"{self._cluster}/{namespace}/{kind}/{name}"
        known = self._scales.pop(target, None)
        if known is not None and target in self._targets.values():
            self._publish(target, replace(known, gone=True))

    def _publish_scale(self, target: str) -> None:
        scale = self._scales.get(target)
        if scale is not None and self._published_scales.get(target) != scale and target in self._targets.values():
            self._publish(target, scale)

    def _publish(self, target: str, scale: ControllerScale) -> None:
        self._published_scales[target] = scale
        workload = Workload.parse(target)
        reason = f"the {workload.kind} '{workload.namespace}/{workload.name}' is gone" if scale.gone else ""
        seen = ScaleSeen(self._now(), workload, scale.replicas, scale.there, scale.selector, reason)
        self._publisher.publish(seen)


def _text(selector: LabelSelector | None) -> str:
    """The labels of a selector, as kubectl writes them; expressions are left out."""
    labels = (selector.match_labels if selector is not None else None) or {}
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
