"""TimeSeriesPrediction objects as policies, validated by upstream's admission rules.

An object that cannot be carried out is not left out: it becomes a policy whose `unsupported` says what is wrong.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from schemas import event_bounds
from schemas.policies.ehpa import EHPA_KIND, PredictionMetric, TimeSeriesPredictionChanged
from schemas.policies.vpa import TargetRef
from streams.clients.kube import autoscaler_specs
from streams.sources.kube.publish import ehpa_policies, policy_fields

SHORTEST_WINDOW = 600
"""Seconds, as upstream's admission has it."""
_QUERIES = ("ResourceQuery", "MetricQuery", "ExpressionQuery")


def changed(prediction: autoscaler_specs.PredictionObject, cluster: str, at: datetime) -> TimeSeriesPredictionChanged:
    """The policy that an object makes."""
    meta, about = prediction.metadata, autoscaler_specs.decode_predicted(prediction.spec)
    # An EHPA owns the prediction that is generated from it.
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
        by=policy_fields.author(meta),
    )
    try:
        return _whole(bare, autoscaler_specs.decode_prediction(prediction.spec))
    except ValueError as fault:
        return replace(bare, unsupported=f"The spec cannot be carried out: {fault}")


def within_bounds(
    policy: TimeSeriesPredictionChanged, size: Callable[[TimeSeriesPredictionChanged], int]
) -> TimeSeriesPredictionChanged:
    """The policy itself, or, if it is too large, one that only names the object and the bound."""
    why = policy_fields.excess(policy, size)
    if not why:
        return policy
    bare = TimeSeriesPredictionChanged(policy.at, policy.cluster, policy.namespace, policy.name, policy.created, uid=policy.uid)
    bare = replace(bare, generation=policy.generation, unsupported=f"The object is too large: {why}")
    # The target itself may be what is too large.
    named = replace(bare, target_ref=policy.target_ref, target_namespace=policy.target_namespace)
    return named if event_bounds.fault(named) is None else bare


def _whole(bare: TimeSeriesPredictionChanged, spec: autoscaler_specs.TspSpec) -> TimeSeriesPredictionChanged:
    metrics = tuple(_metric(entry) for entry in spec.prediction_metrics or ())
    whole = replace(bare, window_seconds=spec.prediction_window_seconds, metrics=metrics)
    return replace(whole, unsupported=_objection(whole))


def _metric(entry: autoscaler_specs.PredictionMetricSpec) -> PredictionMetric:
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
    twice = [name for name, count in Counter(metric.identifier for metric in policy.metrics).items() if count > 1]
    if twice:
        return f"spec.predictionMetrics names '{twice[0]}' more than once"
    objections = (_metric_objection(metric) for metric in policy.metrics)
    return next((f"spec.predictionMetrics[{place}] {what}" for place, what in enumerate(objections) if what), "")


def _metric_objection(metric: PredictionMetric) -> str:
    if metric.type not in _QUERIES:
        return f"has the type '{metric.type}'; there are {', '.join(_QUERIES)}"
    if metric.type == "MetricQuery":
        return "asks by a MetricQuery, which nothing answers; say it as an expressionQuery"
    query = metric.resource if metric.type == "ResourceQuery" else metric.expression
    return "" if query else f"is of type {metric.type} and says no query"
