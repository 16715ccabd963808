"""The metrics of an autoscaler's spec, and what each proposes for given readings, or why it proposes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.logic.replicas import replica_calculator
from agents.logic.replicas.hpa_reconcile import MetricResult
from agents.logic.replicas.replica_calculator import HpaPods, MetricError, MetricSamples, Milli, ReplicaContext, ReplicaProposal
from schemas import exact_quantity
from schemas.policies.scaling import MetricSpec

_BLOCKS = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_PREFIXES = {"ContainerResource": "container-resource"}


@dataclass(frozen=True, slots=True)
class HpaMetric:
    """One entry of `metrics`. Targets are milli-units, `utilization` percent; None where the entry has none."""

    kind: str
    name: str
    container: str = ""
    selector: tuple[tuple[str, str], ...] = ()
    utilization: int | None = None
    average: int | None = None
    value: int | None = None

    @property
    def identifier(self) -> str:
        """Crane's identifier of the metric: its kind and its name."""
        return f"{_PREFIXES.get(self.kind, self.kind.lower())}.{self.name}"

    @property
    def reason(self) -> str:
        """The reason of the condition ScalingActive when the metric is unavailable."""
        return f"FailedGet{self.kind}Metric" if self.kind in _BLOCKS else "InvalidMetricSourceType"


def read(entry: Mapping[str, object]) -> HpaMetric:
    """An entry of a spec's `metrics`. Raises `ValueError` for an invalid amount; missing parts only show up in `ask`."""
    kind = str(entry.get("type", ""))
    block = _mapping(entry.get(_BLOCKS.get(kind, "")))
    named, target = _mapping(block.get("metric")), _mapping(block.get("target"))
    labels = _mapping(_mapping(named.get("selector")).get("matchLabels"))
    percent = target.get("averageUtilization")
    return HpaMetric(
        kind,
        str(block.get("name") or named.get("name") or ""),
        str(block.get("container") or ""),
        tuple(sorted((key, str(value)) for key, value in labels.items())),
        percent if isinstance(percent, int) else None,
        _amount(target.get("averageValue")),
        _amount(target.get("value")),
    )


def of_spec(spec: MetricSpec) -> HpaMetric:
    """A metric of the log. Raises `ValueError` for an invalid amount."""
    target, of_pods = spec.target, spec.type in ("Resource", "ContainerResource")
    return HpaMetric(
        spec.type,
        spec.name,
        spec.container if of_pods else "",
        () if of_pods else tuple(sorted(spec.match_labels.items())),
        target.average_utilization,
        _amount(target.average_value or None),
        _amount(target.value or None),
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _amount(value: object) -> int | None:
    return None if value is None else exact_quantity.read(value).thousandths


@dataclass(frozen=True, slots=True)
class MetricReadings:
    """The input of a spec's metrics: the pods, and by metric the samples, the requests, and the values of the whole workload."""

    pods: HpaPods
    samples: Mapping[HpaMetric, MetricSamples] = field(default_factory=dict)
    requests: Mapping[HpaMetric, Milli | str] = field(default_factory=dict)
    values: Mapping[HpaMetric, int] = field(default_factory=dict)


def ask(metric: HpaMetric, readings: MetricReadings, scene: ReplicaContext) -> MetricResult:
    """What a metric proposes, or the reason and the error."""
    answer = _by_pods(metric, readings, scene) if metric in readings.samples else _by_whole(metric, readings, scene)
    return answer if isinstance(answer, ReplicaProposal) else (metric.reason, answer)


def _by_pods(metric: HpaMetric, readings: MetricReadings, scene: ReplicaContext) -> ReplicaProposal | MetricError:
    samples, resource = readings.samples[metric], metric.kind in ("Resource", "ContainerResource")
    if metric.average is not None:
        return replica_calculator.by_average(readings.pods, samples, target=metric.average, scene=scene)
    if metric.utilization is None or not resource:
        return MetricError(f"metric '{metric.identifier}' has no target that fits its kind")
    requests = readings.requests.get(metric, f"the requests for {metric.name} are not known")
    return replica_calculator.by_utilization(readings.pods, samples, requests, target=metric.utilization, scene=scene)


def _by_whole(metric: HpaMetric, readings: MetricReadings, scene: ReplicaContext) -> ReplicaProposal | MetricError:
    value = readings.values.get(metric)
    if value is None:
        return MetricError(f"metric '{metric.identifier}' has no reading")
    if metric.average is not None:
        return replica_calculator.by_value_per_pod(value, target=metric.average, scene=scene)
    if metric.value is not None:
        return replica_calculator.by_value(value, readings.pods, target=metric.value, scene=scene)
    return MetricError(f"metric '{metric.identifier}' has no target that fits its kind")
