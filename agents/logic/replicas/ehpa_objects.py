"""Converts EHPAs and algorithms from the log's form into the forms that upstream's rules use."""

from collections.abc import Mapping

from agents.logic.replicas import ehpa_manifest
from agents.logic.replicas.ehpa_manifest import API, KIND, Ehpa, Object
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import AlgorithmOptions, HpaBehavior, HpaScalingRules, MetricSpec
from schemas.policies.selectors import Requirement
from schemas.policies.vpa import TargetRef

_BLOCKS = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_OF_PODS = ("Resource", "ContainerResource")


def ehpa_of(event: EhpaChanged) -> Ehpa:
    """The EHPA of an event. Raises a `ValueError` that names what cannot be carried out."""
    if event.unsupported:
        raise ValueError(event.unsupported)
    return ehpa_manifest.read(manifest_of(event))


def manifest_of(event: EhpaChanged) -> Object:
    """The object's manifest, as far as the log keeps it."""
    spec: Object = {
        "scaleTargetRef": reference(event.target_ref),
        "scaleStrategy": event.strategy.value,
        "metrics": [metric(each) for each in event.metrics],
        "crons": [
            _without_none(
                name=cron.name,
                description=cron.description,
                timezone=cron.timezone,
                start=cron.start,
                end=cron.end,
                targetReplicas=cron.target_replicas,
            )
            for cron in event.crons
        ],
        **_without_none(
            minReplicas=event.min_replicas,
            maxReplicas=event.max_replicas,
            specificReplicas=event.specific_replicas,
            behavior=None if event.behavior is None else behavior(event.behavior),
        ),
    }
    if event.prediction is not None:
        algorithm = event.prediction.algorithm
        spec["prediction"] = _without_none(
            predictionWindowSeconds=event.prediction.window_seconds,
            predictionAlgorithm=None if algorithm is None else algorithm_block(algorithm),
        )
    about: Object = {
        "namespace": event.namespace,
        "name": event.name,
        "uid": event.uid,
        "generation": event.generation,
        "labels": dict(event.labels),
        "annotations": dict(event.annotations),
    }
    return {"apiVersion": API, "kind": KIND, "metadata": about, "spec": spec}


def metric(spec: MetricSpec) -> Object:
    """One entry of `metrics`."""
    block: Object = {"target": _target(spec)}
    if spec.type in _OF_PODS:
        block = {"name": spec.name, **_without_none(container=spec.container), **block}
    else:
        selector = _without_none(
            matchLabels=dict(spec.match_labels), matchExpressions=[_expression(each) for each in spec.expressions]
        )
        block = {"metric": {"name": spec.name, **_without_none(selector=selector)}, **block}
    if spec.described is not None:
        block["describedObject"] = reference(spec.described)
    return {"type": spec.type, _BLOCKS.get(spec.type, spec.type): block}


def _target(spec: MetricSpec) -> Object:
    target = spec.target
    return _without_none(
        type=target.type,
        averageUtilization=target.average_utilization,
        averageValue=target.average_value,
        value=target.value,
    )


def _expression(requirement: Requirement) -> Object:
    return {"key": requirement.key, "operator": requirement.operator.value, **_without_none(values=list(requirement.values))}


def reference(ref: TargetRef | None) -> Object:
    """A reference to an object, as manifests write it."""
    return {} if ref is None else {**_without_none(apiVersion=ref.api_version), "kind": ref.kind, "name": ref.name}


def behavior(rules: HpaBehavior) -> Object:
    """A `behavior` block."""
    return _without_none(
        scaleUp=None if rules.scale_up is None else _rules(rules.scale_up),
        scaleDown=None if rules.scale_down is None else _rules(rules.scale_down),
    )


def _rules(rules: HpaScalingRules) -> Object:
    policies = [{"type": each.type, "value": each.value, "periodSeconds": each.period_seconds} for each in rules.policies]
    return _without_none(
        policies=policies,
        selectPolicy=rules.select_policy,
        stabilizationWindowSeconds=rules.stabilization_window_seconds,
        tolerance=rules.tolerance,
    )


def algorithm_block(options: AlgorithmOptions) -> Object:
    """A `predictionAlgorithm` block."""
    return _without_none(algorithmType=options.type, dsp=dsp_block(options), percentile=percentile_block(options))


def dsp_block(options: AlgorithmOptions) -> Object | None:
    """The block `dsp`; None if there is none."""
    dsp = options.dsp
    if dsp is None:
        return None
    fourier: list[Object] = [
        _without_none(
            marginFraction=each.margin_fraction,
            lowAmplitudeThreshold=each.low_amplitude_threshold,
            highFrequencyThreshold=each.high_frequency_threshold,
            minNumOfSpectrumItems=each.min_num_of_spectrum_items,
            maxNumOfSpectrumItems=each.max_num_of_spectrum_items,
        )
        for each in dsp.fft
    ]
    estimators = _without_none(maxValue=[{"marginFraction": margin} for margin in dsp.max_value], fft=fourier)
    return _without_none(sampleInterval=dsp.sample_interval, historyLength=dsp.history_length, estimators=estimators)


def percentile_block(options: AlgorithmOptions) -> Object | None:
    """The block `percentile`; None if there is none."""
    percentile = options.percentile
    if percentile is None:
        return None
    histogram = percentile.histogram
    block = (
        {}
        if histogram is None
        else _without_none(
            maxValue=histogram.max_value,
            epsilon=histogram.epsilon,
            halfLife=histogram.half_life,
            bucketSize=histogram.bucket_size,
            firstBucketSize=histogram.first_bucket_size,
            bucketSizeGrowthRatio=histogram.bucket_size_growth_ratio,
        )
    )
    return _without_none(
        aggregated=percentile.aggregated,
        historyLength=percentile.history_length,
        sampleInterval=percentile.sample_interval,
        marginFraction=percentile.margin_fraction,
        targetUtilization=percentile.target_utilization,
        percentile=percentile.percentile,
        minSampleWeight=percentile.min_sample_weight,
        histogram=block,
    )


def _without_none(**fields: object) -> Object:
    """The fields that are set: neither None nor an empty text, list or mapping."""
    return {name: value for name, value in fields.items() if value is not None and not _is_empty(value)}


def _is_empty(value: object) -> bool:
    return isinstance(value, str | list | tuple | Mapping) and not value
