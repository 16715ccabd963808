"""What objects that scale workloads are made of: metrics and their targets, rates, crons, and the options of predictors.

Amounts and options are the object's own texts, because objects generated from it must have the same ones, and because only the
code that computes with a text can tell what is wrong with it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from schemas import bounds, exact_quantity
from schemas.policies.vpa import Requirement, TargetRef


@dataclass(frozen=True, slots=True)
class MetricTarget:
    """The target of a metric: Utilization, AverageValue or Value, and its amount."""

    type: str = ""
    average_utilization: int | None = None
    average_value: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric of autoscaling/v2: Resource, ContainerResource, Pods, Object or External."""

    type: str
    name: str = ""
    target: MetricTarget = MetricTarget()
    container: str = ""
    match_labels: Mapping[str, str] = field(default_factory=dict)  # With the expressions, the metric's selector.
    expressions: tuple[Requirement, ...] = ()
    described: TargetRef | None = None  # The object that a metric of type Object is about.

    @property
    def utilization(self) -> "UtilizationMetric | None":
        """What share of requests it is about; None if its target is an amount."""
        if self.type not in ("Resource", "ContainerResource") or self.target.average_utilization is None:
            return None
        return UtilizationMetric(self.name, self.container)


@dataclass(frozen=True, slots=True)
class UtilizationMetric:
    """What pods use of a resource as a share of what they request; of one `container`, or of all where that is empty."""

    resource: str
    container: str = ""


@dataclass(frozen=True, slots=True)
class HpaScalingPolicy:
    """At most `value` pods, or percent of them, within so many seconds."""

    type: str
    value: int
    period_seconds: int


@dataclass(frozen=True, slots=True)
class HpaScalingRules:
    """How fast replicas may change in one direction."""

    policies: tuple[HpaScalingPolicy, ...] = ()
    select_policy: str = ""
    stabilization_window_seconds: int | None = None
    tolerance: str = ""


@dataclass(frozen=True, slots=True)
class HpaBehavior:
    """Both directions; None is a direction that the object does not mention."""

    scale_up: HpaScalingRules | None = None
    scale_down: HpaScalingRules | None = None


@dataclass(frozen=True, slots=True)
class CronTrigger:
    """So many replicas at least, from each moment of the schedule `start` to the next of `end`."""

    name: str = ""
    start: str = ""
    end: str = ""
    target_replicas: int = 0
    timezone: str = ""
    description: str = ""


class ScaleStrategy(StrEnum):
    """AUTO scales. PREVIEW only shows what it would do, and sets `specific_replicas` if there are any."""

    AUTO = "Auto"
    PREVIEW = "Preview"


@dataclass(frozen=True, slots=True)
class FourierOptions:
    """One estimator that keeps the strongest frequencies."""

    margin_fraction: str = ""
    low_amplitude_threshold: str = ""
    high_frequency_threshold: str = ""
    min_num_of_spectrum_items: int | None = None
    max_num_of_spectrum_items: int | None = None


@dataclass(frozen=True, slots=True)
class DspOptions:
    """The block `dsp`. `max_value` holds the margin of each estimator that takes the highest past value."""

    sample_interval: str = ""
    history_length: str = ""
    max_value: tuple[str, ...] = ()
    fft: tuple[FourierOptions, ...] = ()


@dataclass(frozen=True, slots=True)
class HistogramOptions:
    """The histogram of the block `percentile`."""

    max_value: str = ""
    epsilon: str = ""
    half_life: str = ""
    bucket_size: str = ""
    first_bucket_size: str = ""
    bucket_size_growth_ratio: str = ""


@dataclass(frozen=True, slots=True)
class PercentileOptions:
    """The block `percentile`."""

    aggregated: bool = False
    history_length: str = ""
    sample_interval: str = ""
    margin_fraction: str = ""
    target_utilization: str = ""
    percentile: str = ""
    min_sample_weight: str = ""
    histogram: HistogramOptions | None = None


@dataclass(frozen=True, slots=True)
class AlgorithmOptions:
    """How a metric is to be forecast: the algorithm's name, and the blocks that are there."""

    type: str = ""
    dsp: DspOptions | None = None
    percentile: PercentileOptions | None = None


@dataclass(frozen=True, slots=True)
class PredictionOptions:
    """The block `prediction` of an EHPA."""

    window_seconds: int | None = None
    algorithm: AlgorithmOptions | None = None


# Checks the amounts and counts in an autoscaler's spec that are computed with, and says what is wrong with each bad one.
# They stand in the log as texts (`schemas.policies.scaling`). The source of objects publishes what is found here as
# `unsupported`, and each stage sets aside an event that has such an amount without saying so.

LONGEST_AMOUNT = 64
"""Characters of a quantity. Kubernetes' largest has 19 digits before the point and 9 behind it."""
MOST_AMOUNT = 10**15
"""Of a target: its thousandths fit 64 bits."""
MOST_COUNT = 2**31 - 1
"""Replicas, percent and seconds: what Kubernetes can count."""


def amount_reasons(metrics: Sequence[MetricSpec], behavior: HpaBehavior | None) -> Iterator[str]:
    """What is wrong with a spec's metrics and rates, by their place in the object."""
    for place, metric in enumerate(metrics):
        target, where = metric.target, f"metrics[{place}].target"
        yield from bounds.number(f"{where}.averageUtilization", target.average_utilization, MOST_COUNT)
        yield from amount(f"{where}.averageValue", target.average_value)
        yield from amount(f"{where}.value", target.value)
    if behavior is not None:
        yield from _rules("behavior.scaleUp", behavior.scale_up)
        yield from _rules("behavior.scaleDown", behavior.scale_down)


def amount(path: str, text: str) -> Iterator[str]:
    """A quantity from 0 to MOST_AMOUNT, or "", which means absent and is accepted."""
    if not text:
        return
    # Before it is parsed, for a tenant may write any length.
    if len(text) > LONGEST_AMOUNT:
        yield f"{path} has {len(text)} characters; a quantity has at most {LONGEST_AMOUNT}"
        return
    try:
        nano = exact_quantity.parse(text).nano
    except exact_quantity.NotAQuantityError as error:
        yield f"{path} is '{text}', which is no quantity: {error}"
        return
    if nano < 0:
        yield f"{path} is '{text}'; an amount cannot be negative"
    elif nano > MOST_AMOUNT * 10**9:
        yield f"{path} is '{text}'; more than {MOST_AMOUNT:g} is not possible"


def _rules(path: str, rules: HpaScalingRules | None) -> Iterator[str]:
    if rules is None:
        return
    yield from bounds.number(f"{path}.stabilizationWindowSeconds", rules.stabilization_window_seconds, MOST_COUNT)
    yield from amount(f"{path}.tolerance", rules.tolerance)
    for place, policy in enumerate(rules.policies):
        yield from bounds.number(f"{path}.policies[{place}].value", policy.value, MOST_COUNT)
        yield from bounds.number(f"{path}.policies[{place}].periodSeconds", policy.period_seconds, MOST_COUNT)
