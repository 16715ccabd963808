"""EHPAs of the log as manifests, for API servers of tests."""

from agents.logic.replicas.ehpa_manifest import API, KIND, Object, dsp_block, percentile_block, without_none
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import AlgorithmOptions, HpaBehavior, HpaScalingRules, MetricSpec
from schemas.policies.vpa import Requirement, TargetRef

_BLOCKS = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_OF_PODS = ("Resource", "ContainerResource")


def manifest_of(event: EhpaChanged) -> Object:
    """The object's manifest, as far as the log keeps it."""
    spec: Object = {
        "scaleTargetRef": reference(event.target_ref),
        "scaleStrategy": event.strategy.value,
        "metrics": [metric(each) for each in event.metrics],
        "crons": [
            without_none(
                name=cron.name,
                description=cron.description,
                timezone=cron.timezone,
                start=cron.start,
                end=cron.end,
                targetReplicas=cron.target_replicas,
            )
            for cron in event.crons
        ],
        **without_none(
            minReplicas=event.min_replicas,
            maxReplicas=event.max_replicas,
            specificReplicas=event.specific_replicas,
            behavior=None if event.behavior is None else behavior(event.behavior),
        ),
    }
    if event.prediction is not None:
        algorithm = event.prediction.algorithm
        spec["prediction"] = without_none(
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
        block = {"name": spec.name, **without_none(container=spec.container), **block}
    else:
        selector = without_none(
            matchLabels=dict(spec.match_labels), matchExpressions=[_expression(each) for each in spec.expressions]
        )
        block = {"metric": {"name": spec.name, **without_none(selector=selector)}, **block}
    if spec.described is not None:
        block["describedObject"] = reference(spec.described)
    return {"type": spec.type, _BLOCKS.get(spec.type, spec.type): block}


def _target(spec: MetricSpec) -> Object:
    target = spec.target
    return without_none(
        type=target.type, averageUtilization=target.average_utilization, averageValue=target.average_value, value=target.value
    )


def _expression(requirement: Requirement) -> Object:
    return {"key": requirement.key, "operator": requirement.operator.value, **without_none(values=list(requirement.values))}


def reference(ref: TargetRef | None) -> Object:
    """A reference to an object, as manifests write it."""
    return {} if ref is None else {**without_none(apiVersion=ref.api_version), "kind": ref.kind, "name": ref.name}


def behavior(rules: HpaBehavior) -> Object:
    """A `behavior` block."""
    return without_none(
        scaleUp=None if rules.scale_up is None else _rules(rules.scale_up),
        scaleDown=None if rules.scale_down is None else _rules(rules.scale_down),
    )


def _rules(rules: HpaScalingRules) -> Object:
    policies = [{"type": each.type, "value": each.value, "periodSeconds": each.period_seconds} for each in rules.policies]
    return without_none(
        policies=policies,
        selectPolicy=rules.select_policy,
        stabilizationWindowSeconds=rules.stabilization_window_seconds,
        tolerance=rules.tolerance,
    )


def algorithm_block(options: AlgorithmOptions) -> Object:
    """A `predictionAlgorithm` block."""
    return without_none(algorithmType=options.type, dsp=dsp_block(options), percentile=percentile_block(options))
