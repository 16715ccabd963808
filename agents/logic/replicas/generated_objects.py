"""The objects generated from an EHPA: its HorizontalPodAutoscaler and its TimeSeriesPrediction.

With `as_upstream` they are exactly Crane v0.11.0's. Otherwise an unavailable metric is left out and does not prevent the whole
object, a forecast may stand for one container, and an object that nobody could scale by is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.replicas import metric_queries
from agents.logic.replicas.ehpa_manifest import (
    API,
    CRON,
    PREDICTED,
    PREDICTION,
    TARGET_LABELS,
    Ehpa,
    Object,
    label_value,
    metadata,
)
from agents.logic.replicas.hpa_metrics import HpaMetric
from agents.logic.replicas.replica_calculator import ContainerRequest, requests
from agents.logic.replicas.replica_calculator import PodRequest as Request
from schemas import exact_quantity
from schemas.units import counted

READY_FOR = 30.0
"""Seconds that a pod must have been ready to count as available."""

SHORTEST_WINDOW = 600
"""Seconds; upstream's admission refuses a shorter window."""

# The minor version of Kubernetes from which on HPAs have a behaviour.
_BEHAVIOR_SINCE = 18


@dataclass(frozen=True, slots=True)
class TargetPod:
    """A pod of the target. `ready_at` is when it became ready (seconds since the epoch); None if unready or unknown.

    `requests` are those of its containers and sidecars, `whole` those of the pod itself, all in milli-units.
    """

    name: str
    running: bool
    deleting: bool
    ready_at: float | None
    requests: tuple[tuple[str, Mapping[str, int]], ...]
    whole: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LabelPropagation:
    """Which labels and annotations an EHPA passes on to its HPA, by prefix and by name."""

    label_prefixes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    annotation_prefixes: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HpaSurroundings:
    """What an HPA depends on besides its EHPA: pods, the forecast's status, the API server, propagated labels, and the time."""

    pods: Sequence[TargetPod]
    predicted: Sequence[Mapping[str, object]]
    now: float
    propagation: LabelPropagation = LabelPropagation()
    api_minor: int = 99
    as_upstream: bool = False


@dataclass(frozen=True, slots=True)
class GeneratedObject:
    """An object, and sentences on what it leaves out."""

    manifest: Object
    left_out: tuple[str, ...] = ()


class CannotGenerate(Exception):
    """Raised when an object cannot be generated from the EHPA at present."""


def hpa(ehpa: Ehpa, around: HpaSurroundings) -> GeneratedObject:
    """The HorizontalPodAutoscaler: the user's metrics, then forecasts of those that have one, then one metric for all crons.

    Raises a `CannotGenerate` that explains why there is none. Source: `pkg/controller/ehpa/hpa.go` of Crane.
    """
    forecasts, left_out = _forecasts(ehpa, around)
    # A selector's value must be that of a label, or the API server refuses the whole HPA.
    named = str if around.as_upstream else label_value
    added = [_external(ehpa, PREDICTION, named(metric.identifier), target) for metric, target in forecasts]
    if ehpa.crons:
        added.append(_external(ehpa, CRON, "cron", {"type": "AverageValue", "averageValue": "1"}))
    spec: Object = {"scaleTargetRef": _scaled(ehpa, around), "maxReplicas": ehpa.most}
    if ehpa.least is not None:
        spec["minReplicas"] = ehpa.least
    spec["metrics"] = [*[dict(entry) for entry in ehpa.entries], *added]
    if ehpa.behavior is not None and around.api_minor >= _BEHAVIOR_SINCE:
        spec["behavior"] = dict(ehpa.behavior)
    handed, about = around.propagation, metadata(ehpa, _handed_labels(ehpa, around.propagation))
    if notes := _handed(ehpa.annotations, handed.annotation_prefixes, handed.annotations):
        about["annotations"] = notes
    # Kubernetes 1.26 no longer serves v2beta2.
    version = "autoscaling/v2beta2" if around.as_upstream else "autoscaling/v2"
    return GeneratedObject(
        {"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": about, "spec": spec}, tuple(left_out)
    )


def _handed_labels(ehpa: Ehpa, handed: LabelPropagation) -> dict[str, str]:
    return _handed(ehpa.labels, handed.label_prefixes, handed.labels)


def _handed(texts: Mapping[str, str] | None, prefixes: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    return {key: value for key, value in (texts or {}).items() if key in names or key.startswith(tuple(prefixes))}


def _scaled(ehpa: Ehpa, around: HpaSurroundings) -> Object:
    """What the HPA scales: the target, or its Substitute in a preview."""
    if ehpa.strategy == "Preview":
        return {"apiVersion": API, "kind": "Substitute", "name": ehpa.child}
    if ehpa.strategy == "Auto":
        return {"apiVersion": ehpa.target.api, "kind": ehpa.target.kind, "name": ehpa.target.name}
    if around.as_upstream:
        # Upstream leaves the reference empty for a strategy that it does not know.
        return {"kind": "", "name": ""}
    raise CannotGenerate(f"'{ehpa.strategy}' is no strategy; there are 'Auto' and 'Preview'")


def _external(ehpa: Ehpa, name: str, identifier: str, target: Mapping[str, object]) -> Object:
    labels = {**ehpa.selector, "resourceIdentifier": identifier}
    return {
        "type": "External",
        "external": {"metric": {"name": name, "selector": {"matchLabels": labels}}, "target": dict(target)},
    }


def _forecasts(ehpa: Ehpa, around: HpaSurroundings) -> tuple[list[tuple[HpaMetric, Object]], list[str]]:
    """The metrics that have a forecast, each with its target, and why the others are left out."""
    forecasts: list[tuple[HpaMetric, Object]] = []
    left_out = []
    for entry, metric in zip(ehpa.entries, ehpa.metrics, strict=True):
        if ehpa.prediction is None or metric.kind not in PREDICTED or (around.as_upstream and metric.kind == "ContainerResource"):
            continue
        if not _is_predicted(metric, around.predicted):
            left_out.append(f"metric '{metric.identifier}' has no forecast that is ready and one series")
            continue
        try:
            forecasts.append((metric, _target(metric, entry, around)))
        except CannotGenerate as error:
            if around.as_upstream:
                raise
            # Upstream gives up on the whole HPA here, so that one bad metric keeps a workload from being scaled at all.
            left_out.append(f"metric '{metric.identifier}': {error}")
    return forecasts, left_out


def _is_predicted(metric: HpaMetric, status: Iterable[Mapping[str, object]]) -> bool:
    """Whether an entry of the forecast's status is for the metric, ready, and exactly one series."""
    for entry in status:
        series = entry.get("prediction")
        if entry.get("resourceIdentifier") == metric.identifier and isinstance(series, list | tuple) and len(series) == 1:
            return bool(entry.get("ready"))
    return False


def _target(metric: HpaMetric, entry: Mapping[str, object], around: HpaSurroundings) -> Object:
    """How much of the forecast one pod should take: the user's amount, or the user's share of what pods request."""
    if metric.utilization is not None and metric.kind in ("Resource", "ContainerResource"):
        return {"type": "AverageValue", "averageValue": exact_quantity.of_milli(_share(metric, around)).text}
    block = next((value for value in entry.values() if isinstance(value, Mapping)), {})
    average = block.get("target", {}).get("averageValue")
    if average is not None:
        return {"type": "AverageValue", "averageValue": average}
    if around.as_upstream:
        return {"type": "AverageValue"}
    raise CannotGenerate("its target is neither a utilisation nor an average value")


def _share(metric: HpaMetric, around: HpaSurroundings) -> int:
    """floor(sum of requests * utilisation / number of pods) of the available pods, in milli-units."""
    if not around.pods:
        raise CannotGenerate("the target has no pods")
    available = [pod for pod in around.pods if _available(pod, around.now)]
    if not available:
        raise CannotGenerate(f"none of {counted(len(around.pods), 'pod')} has been ready for {READY_FOR:g} s")
    requested = requests([_request(pod, metric) for pod in available], resource=metric.name, container=metric.container)
    if isinstance(requested, str):
        raise CannotGenerate(requested)
    share = int(requested.sum()) * (metric.utilization or 0) // (100 * len(available))
    if not share and not around.as_upstream:
        raise CannotGenerate("what a pod requests is too little to be shared")
    return share


def _request(pod: TargetPod, metric: HpaMetric) -> Request:
    containers = tuple(ContainerRequest(name, amounts.get(metric.name)) for name, amounts in pod.requests)
    return Request(pod.name, containers, pod.whole.get(metric.name), whole_pod=bool(pod.whole))


def _available(pod: TargetPod, now: float) -> bool:
    return pod.running and not pod.deleting and pod.ready_at is not None and now - pod.ready_at > READY_FOR


def tsp(ehpa: Ehpa, *, as_upstream: bool = False) -> GeneratedObject:
    """The TimeSeriesPrediction that asks for forecasts of an EHPA's metrics.

    Raises `CannotGenerate` if prediction is off, or (unless `as_upstream`) if nothing can be forecast or the window is short.
    Source: `pkg/controller/ehpa/predict.go` of Crane.
    """
    if ehpa.prediction is None:
        raise CannotGenerate("prediction is off: it needs a window and the block of its algorithm")
    asked = [(metric, metric_queries.query(ehpa, metric, as_upstream=as_upstream)) for metric in ehpa.metrics]
    wanted = [(metric, text) for metric, text in asked if metric.kind in PREDICTED]
    left_out = tuple(f"metric '{metric.identifier}' has no query" for metric, text in wanted if not text)
    entries = [_entry(ehpa.prediction.algorithm, metric, text) for metric, text in wanted if text]
    if not as_upstream:
        _refuse(ehpa.prediction.window, [str(entry["resourceIdentifier"]) for entry in entries])
    labels = {label: ehpa.selector[word] for word, label in TARGET_LABELS.items()}
    target = {"apiVersion": ehpa.target.api, "kind": ehpa.target.kind, "name": ehpa.target.name, "namespace": ehpa.namespace}
    spec: Object = {"targetRef": target, "predictionWindowSeconds": ehpa.prediction.window}
    if entries:
        spec["predictionMetrics"] = entries
    return GeneratedObject(
        {
            "apiVersion": "prediction.crane.io/v1alpha1", "kind": "TimeSeriesPrediction",
            "metadata": metadata(ehpa, labels), "spec": spec,
        },
        left_out,
    )  # fmt: skip


def _entry(algorithm: Mapping[str, object], metric: HpaMetric, text: str) -> Object:
    return {
        "resourceIdentifier": metric.identifier,
        "type": "ExpressionQuery",
        "expressionQuery": {"expression": text},
        "algorithm": dict(algorithm),
    }


def _refuse(window: int, identifiers: Sequence[str]) -> None:
    """Refuse a forecast that cannot be made."""
    # Now, because upstream's admission would refuse it later.
    if window < SHORTEST_WINDOW:
        raise CannotGenerate(f"the window is {window} s, less than {SHORTEST_WINDOW}")
    if not identifiers:
        raise CannotGenerate("no metric can be forecast")
    twice = {name for name in identifiers if identifiers.count(name) > 1}
    if twice:
        raise CannotGenerate(f"two metrics are called '{min(twice)}'")
