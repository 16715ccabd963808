"""The specs of objects that scale workloads or predict their load, as the API server sends them."""

from datetime import datetime

import msgspec

from streams import typed_json
from streams.clients.kube.pod_objects import AnnotatedMeta, AuthoredMeta
from streams.clients.kube.watched_objects import LabelSelector, QuantityInJson


class AutoscalerObject(msgspec.Struct, frozen=True, gc=False):
    """An EHPA with its spec undecoded."""

    metadata: AuthoredMeta
    # People write it, and one bad field must not hide the object's name.
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class CrossReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An object of the same namespace."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


class TargetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The target of a metric."""

    type: str = ""
    average_utilization: int | None = None
    average_value: QuantityInJson | None = None
    value: QuantityInJson | None = None


class NamedMetric(msgspec.Struct, frozen=True, gc=False):
    """A metric's name and its selector."""

    name: str = ""
    selector: LabelSelector | None = None


class MetricBlock(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The block of one metric, whatever its type."""

    name: str = ""
    container: str = ""
    metric: NamedMetric = NamedMetric()
    described_object: CrossReference | None = None
    target: TargetSpec = TargetSpec()


class MetricEntry(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `metrics`."""

    type: str = ""
    resource: MetricBlock | None = None
    container_resource: MetricBlock | None = None
    pods: MetricBlock | None = None
    object: MetricBlock | None = None
    external: MetricBlock | None = None

    @property
    def block(self) -> MetricBlock:
        """The block that is there."""
        # By what is there and not by `type`: in a custom resource no server checks that the two agree.
        blocks = (self.resource, self.container_resource, self.pods, self.object, self.external)
        return next((block for block in blocks if block is not None), MetricBlock())


class RatePolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One policy of a direction."""

    type: str
    value: int
    period_seconds: int


class RateRules(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One direction of a behaviour."""

    policies: list[RatePolicy] | None = None
    select_policy: str | None = None
    stabilization_window_seconds: int | None = None
    tolerance: QuantityInJson | None = None


class BehaviorSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Both directions."""

    scale_up: RateRules | None = None
    scale_down: RateRules | None = None


class CronEntrySpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `crons`."""

    name: str = ""
    description: str = ""
    timezone: str = ""
    start: str = ""
    end: str = ""
    target_replicas: int = 0


class FourierSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An estimator that keeps the strongest frequencies."""

    # Crane's type has fractions as text (prediction/v1alpha1), because custom resources avoid floating point.
    margin_fraction: str = ""
    low_amplitude_threshold: str = ""
    high_frequency_threshold: str = ""
    min_num_of_spectrum_items: int | None = None
    max_num_of_spectrum_items: int | None = None


class MarginSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An estimator that takes the highest past value."""

    margin_fraction: str = ""


class EstimatorsSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The block `estimators`."""

    max_value: list[MarginSpec] | None = None
    fft: list[FourierSpec] | None = None


class DspSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The block `dsp`."""

    sample_interval: str = ""
    history_length: str = ""
    estimators: EstimatorsSpec = EstimatorsSpec()


class PercentileHistogramSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The histogram of the block `percentile`."""

    max_value: str = ""
    epsilon: str = ""
    half_life: str = ""
    bucket_size: str = ""
    first_bucket_size: str = ""
    bucket_size_growth_ratio: str = ""


class PercentileSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The block `percentile`."""

    aggregated: bool = False
    history_length: str = ""
    sample_interval: str = ""
    margin_fraction: str = ""
    target_utilization: str = ""
    percentile: str = ""
    min_sample_weight: str = ""
    histogram: PercentileHistogramSpec | None = None


class AlgorithmSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The block `predictionAlgorithm`."""

    algorithm_type: str = ""
    dsp: DspSpec | None = None
    percentile: PercentileSpec | None = None


class PredictionBlock(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The block `prediction`."""

    prediction_window_seconds: int | None = None
    prediction_algorithm: AlgorithmSpec | None = None


class EhpaSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of an EHPA."""

    scale_target_ref: CrossReference
    max_replicas: int
    min_replicas: int | None = None
    scale_strategy: str = "Auto"
    specific_replicas: int | None = None
    metrics: list[MetricEntry] | None = None
    crons: list[CronEntrySpec] | None = None
    behavior: BehaviorSpec | None = None
    prediction: PredictionBlock | None = None


class HpaSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a HorizontalPodAutoscaler."""

    scale_target_ref: CrossReference = CrossReference()
    max_replicas: int = 0
    min_replicas: int | None = None
    metrics: list[MetricEntry] | None = None
    behavior: BehaviorSpec | None = None


class HpaConditionObject(msgspec.Struct, frozen=True, gc=False):
    """A condition of its status."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class HpaStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the HPA controller reports, except for the current value of each metric."""

    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: datetime | None = None
    conditions: list[HpaConditionObject] | None = None


class HpaObject(msgspec.Struct, frozen=True, gc=False):
    """A HorizontalPodAutoscaler as the API server sends it."""

    metadata: AnnotatedMeta
    spec: HpaSpec = HpaSpec()
    status: HpaStatus = HpaStatus()


class OnlyTarget(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What is read of a spec that cannot be read as a whole."""

    scale_target_ref: CrossReference


def decode_ehpa(spec: msgspec.Raw) -> EhpaSpec:
    """The spec. Raises ValueError with the place of what is not as the API has it."""
    return typed_json.decode_object(spec, EhpaSpec, "spec")


def decode_target(spec: msgspec.Raw) -> CrossReference | None:
    """The target alone; None if not even that can be read."""
    try:
        return typed_json.decode_object(spec, OnlyTarget).scale_target_ref
    except ValueError:
        return None


class PredictionObject(msgspec.Struct, frozen=True, gc=False):
    """A TimeSeriesPrediction with its spec undecoded."""

    metadata: AuthoredMeta
    # Undecoded for the same reason as an EHPA's.
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class PredictedReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The target of a prediction, maybe in another namespace."""

    # Upstream has Kubernetes' general ObjectReference here, which unlike an autoscaler's target has a namespace.
    kind: str = ""
    name: str = ""
    namespace: str = ""
    api_version: str = ""


class ExpressionSpec(msgspec.Struct, frozen=True, gc=False):
    """The block `expressionQuery`."""

    expression: str = ""


class NamedQuerySpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The block `metricQuery`, of which only the name counts: it defines no query."""

    metric_name: str = ""


class PredictionMetricSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One entry of `predictionMetrics`."""

    resource_identifier: str = ""
    type: str = ""
    resource_query: str = ""
    expression_query: ExpressionSpec | None = None
    metric_query: NamedQuerySpec | None = None
    algorithm: AlgorithmSpec | None = None


class TspSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec."""

    target_ref: PredictedReference
    prediction_window_seconds: int | None = None
    prediction_metrics: list[PredictionMetricSpec] | None = None


class _OnlyTarget(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    target_ref: PredictedReference


def decode_prediction(spec: msgspec.Raw) -> TspSpec:
    """The spec. Raises ValueError with the place of what is not as the API has it."""
    return typed_json.decode_object(spec, TspSpec, "spec")


def decode_predicted(spec: msgspec.Raw) -> PredictedReference | None:
    """Only its target; None if not even that can be read."""
    try:
        return typed_json.decode_object(spec, _OnlyTarget).target_ref
    except ValueError:
        return None
