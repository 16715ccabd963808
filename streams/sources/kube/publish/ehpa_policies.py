"""EHPA and TimeSeriesPrediction objects as policies, and the validation of their specs.

An object that cannot be read is not left out: it becomes a policy whose `unsupported` says what is wrong and where, with its
target as far as that can be read.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from schemas import event_bounds
from schemas.policies.ehpa import EHPA_KIND, EhpaChanged, PredictionMetric, TimeSeriesPredictionChanged
from schemas.policies.scaling import (
    AlgorithmOptions,
    CronTrigger,
    DspOptions,
    FourierOptions,
    HistogramOptions,
    HpaBehavior,
    HpaScalingPolicy,
    HpaScalingRules,
    MetricSpec,
    MetricTarget,
    PercentileOptions,
    PredictionOptions,
    ScaleStrategy,
    amount_reasons,
)
from schemas.policies.vpa import Operator, Requirement, TargetRef
from streams.clients.kube import autoscaler_specs
from streams.clients.kube import autoscaler_specs as specs
from streams.clients.kube.watched_objects import LabelExpression
from streams.sources.kube.publish import policy_fields
from streams.sources.kube.publish.policy_fields import member

# Annotations that change with every apply, or with every pass over the object.
_BY_MACHINES = ("kubectl.kubernetes.io/last-applied-configuration", "autoscaling.crane.io/effective-hpa-current-metrics")


def changed(autoscaler: specs.AutoscalerObject, cluster: str, at: datetime) -> EhpaChanged:
    """The policy that an object makes."""
    meta = autoscaler.metadata
    bare = EhpaChanged(
        at=at,
        cluster=cluster,
        namespace=meta.namespace,
        name=meta.name,
        created=meta.creation_timestamp or at,
        target_ref=_reference(specs.decode_target(autoscaler.spec)),
        labels=dict(meta.labels or {}),
        annotations={key: text for key, text in (meta.annotations or {}).items() if key not in _BY_MACHINES},
        uid=meta.uid,
        generation=meta.generation,
        resource_version=meta.resource_version,
        by=policy_fields.author(meta),
    )
    try:
        return _whole(bare, specs.decode_ehpa(autoscaler.spec))
    except ValueError as fault:
        return replace(bare, unsupported=f"The spec cannot be carried out: {fault}")


def within_bounds(policy: EhpaChanged, size: Callable[[EhpaChanged], int]) -> EhpaChanged:
    """The policy itself, or, if it is too large, one that only names the object and the bound."""
    why = policy_fields.excess(policy, size)
    return _bare(policy, why) if why else policy


def _bare(policy: EhpaChanged, why: str) -> EhpaChanged:
    bare = EhpaChanged(policy.at, policy.cluster, policy.namespace, policy.name, policy.created, uid=policy.uid)
    bare = replace(bare, generation=policy.generation, unsupported=f"The object is too large: {why}")
    # The target itself may be what is too large.
    named = replace(bare, target_ref=policy.target_ref)
    return named if event_bounds.fault(named) is None else bare


def _whole(bare: EhpaChanged, spec: specs.EhpaSpec) -> EhpaChanged:
    if bare.target_ref is None:
        raise ValueError("spec.scaleTargetRef names no kind or no name")
    try:
        strategy = ScaleStrategy(spec.scale_strategy or "Auto")
    except ValueError:
        raise ValueError(f"spec.scaleStrategy is '{spec.scale_strategy}'; there are 'Auto' and 'Preview'") from None
    if spec.max_replicas < max(1, spec.min_replicas or 0):
        raise ValueError(f"spec.maxReplicas is {spec.max_replicas}, and spec.minReplicas {spec.min_replicas}")
    metrics, scaling = read_metrics(spec.metrics), behavior(spec.behavior)
    # One sentence is enough: the next fault shows once this one is mended.
    for reason in amount_reasons(metrics, scaling):
        raise ValueError(f"spec.{reason}")
    return replace(
        bare,
        max_replicas=spec.max_replicas,
        min_replicas=spec.min_replicas,
        strategy=strategy,
        specific_replicas=spec.specific_replicas,
        metrics=metrics,
        crons=tuple(
            CronTrigger(cron.name, cron.start, cron.end, cron.target_replicas, cron.timezone, cron.description)
            for cron in spec.crons or ()
        ),
        behavior=scaling,
        prediction=_prediction(spec.prediction),
    )


def _reference(ref: specs.CrossReference | None) -> TargetRef | None:
    """None unless it has a kind and a name that a key can hold."""
    if ref is None or not ref.kind or not ref.name or "/" in ref.kind + ref.name:
        return None
    return TargetRef(ref.kind, ref.name, ref.api_version)


def read_metrics(entries: Sequence[specs.MetricEntry] | None) -> tuple[MetricSpec, ...]:
    """The metrics of a spec. Raises ValueError with the place of what cannot be."""
    return tuple(metric(entry, f"spec.metrics[{place}]") for place, entry in enumerate(entries or ()))


def metric(entry: specs.MetricEntry, where: str) -> MetricSpec:
    """One metric of autoscaling/v2, which stands at `where`. Raises ValueError with the place of what cannot be."""
    block, selector = entry.block, entry.block.metric.selector
    labels: Mapping[str, str] = (selector.match_labels if selector else None) or {}
    expressions: Sequence[LabelExpression] = (selector.match_expressions if selector else None) or ()
    target = block.target
    return MetricSpec(
        entry.type,
        block.name or block.metric.name,
        MetricTarget(target.type, target.average_utilization, _text(target.average_value), _text(target.value)),
        block.container,
        dict(labels),
        tuple(
            Requirement(
                expression.key,
                member(f"{where}.metric.selector.matchExpressions[{place}].operator", expression.operator, Operator),
                tuple(expression.values or ()),
            )
            for place, expression in enumerate(expressions)
        ),
        _reference(block.described_object),
    )


def _text(value: str | float | None) -> str:
    return "" if value is None else str(value)


def behavior(spec: specs.BehaviorSpec | None) -> HpaBehavior | None:
    """A block `behavior`."""
    return None if spec is None else HpaBehavior(_rules(spec.scale_up), _rules(spec.scale_down))


def _rules(spec: specs.RateRules | None) -> HpaScalingRules | None:
    if spec is None:
        return None
    policies = tuple(HpaScalingPolicy(policy.type, policy.value, policy.period_seconds) for policy in spec.policies or ())
    return HpaScalingRules(policies, spec.select_policy or "", spec.stabilization_window_seconds, _text(spec.tolerance))


def _prediction(spec: specs.PredictionBlock | None) -> PredictionOptions | None:
    if spec is None:
        return None
    block = spec.prediction_algorithm
    return PredictionOptions(spec.prediction_window_seconds, None if block is None else algorithm(block))


def algorithm(spec: specs.AlgorithmSpec) -> AlgorithmOptions:
    """A block that says how a metric is to be forecast."""
    return AlgorithmOptions(spec.algorithm_type, _dsp(spec.dsp), _percentile(spec.percentile))


def _dsp(spec: specs.DspSpec | None) -> DspOptions | None:
    if spec is None:
        return None
    margins = tuple(estimator.margin_fraction for estimator in spec.estimators.max_value or ())
    fourier = tuple(
        FourierOptions(
            estimator.margin_fraction,
            estimator.low_amplitude_threshold,
            estimator.high_frequency_threshold,
            estimator.min_num_of_spectrum_items,
            estimator.max_num_of_spectrum_items,
        )
        for estimator in spec.estimators.fft or ()
    )
    return DspOptions(spec.sample_interval, spec.history_length, margins, fourier)


def _percentile(spec: specs.PercentileSpec | None) -> PercentileOptions | None:
    if spec is None:
        return None
    spec_histogram = spec.histogram
    histogram = (
        None
        if spec_histogram is None
        else HistogramOptions(
            spec_histogram.max_value,
            spec_histogram.epsilon,
            spec_histogram.half_life,
            spec_histogram.bucket_size,
            spec_histogram.first_bucket_size,
            spec_histogram.bucket_size_growth_ratio,
        )
    )
    return PercentileOptions(
        spec.aggregated,
        spec.history_length,
        spec.sample_interval,
        spec.margin_fraction,
        spec.target_utilization,
        spec.percentile,
        spec.min_sample_weight,
        histogram,
    )


SHORTEST_WINDOW = 600
"""Seconds, as upstream's admission has it."""
_QUERIES = ("ResourceQuery", "MetricQuery", "ExpressionQuery")


def prediction_changed(prediction: autoscaler_specs.PredictionObject, cluster: str, at: datetime) -> TimeSeriesPredictionChanged:
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
        return _whole_prediction(bare, autoscaler_specs.decode_prediction(prediction.spec))
    except ValueError as fault:
        return replace(bare, unsupported=f"The spec cannot be carried out: {fault}")


def prediction_within_bounds(
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


def _whole_prediction(bare: TimeSeriesPredictionChanged, spec: autoscaler_specs.TspSpec) -> TimeSeriesPredictionChanged:
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
        None if entry.algorithm is None else algorithm(entry.algorithm),
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
