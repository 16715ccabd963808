"""Crane's EffectiveHorizontalPodAutoscaler as a value, from a manifest or from the log, and what its generated objects share."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.replicas import hpa_metrics, scaling_behavior
from agents.logic.replicas.ehpa_crons import CronEntry
from agents.logic.replicas.hpa_metrics import HpaMetric
from agents.logic.replicas.scaling_behavior import ScalingBehavior
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import AlgorithmOptions, PredictionOptions
from schemas.policies.vpa import TargetRef
from schemas.well_known_labels import EHPA_UID, METRIC_QUERY

Object = dict[str, object]

API = "autoscaling.crane.io/v1alpha1"
KIND = "EffectiveHorizontalPodAutoscaler"
MANAGER = "effective-hpa-controller"
TARGET_LABELS = {
    "targetKind": "app.kubernetes.io/target-kind",
    "targetName": "app.kubernetes.io/target-name",
    "targetNamespace": "app.kubernetes.io/target-namespace",
}
"""The labels of a forecast's object, by the keys that a metric's selector uses for them."""

PREDICTION = "crane_autoscaling_prediction"
CRON = "crane_autoscaling_cron"
PREDICTED = ("Resource", "ContainerResource", "Pods", "External")
"""Kinds of metrics that can be forecast."""
_LONGEST_LABEL, _DIGEST = 63, 8
"""The most characters of a label's value in Kubernetes, and those that tell shortened ones apart."""
_LABEL, _NO_LABEL = re.compile("([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"), re.compile("[^-A-Za-z0-9_.]")
"""A label's value, and a character that none has."""


@dataclass(frozen=True, slots=True)
class ScaleTarget:
    """The object to scale; kind and name are as in its manifest."""

    api: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class PredictionSpec:
    """How the EHPA wants its metrics forecast: the window in seconds, and the algorithm's block, if it is from a manifest."""

    window: int
    algorithm: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ehpa:
    """One EHPA. From a manifest it has `entries` and `behavior`, from the log `logged` and `rules`."""

    namespace: str
    name: str
    uid: str
    target: ScaleTarget
    most: int
    least: int | None = None
    strategy: str = "Auto"
    entries: tuple[Mapping[str, object], ...] = ()
    crons: tuple[CronEntry, ...] = ()
    behavior: Mapping[str, object] | None = None
    prediction: PredictionSpec | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    logged: tuple[HpaMetric, ...] | None = None
    rules: ScalingBehavior | None = None

    @property
    def metrics(self) -> tuple[HpaMetric, ...]:
        """Its metrics. Raises `ValueError` for an entry of a manifest that cannot be read."""
        return self.logged if self.logged is not None else tuple(hpa_metrics.read(entry) for entry in self.entries)

    @property
    def queries(self) -> dict[str, str]:
        """The queries in annotations, by the metric's identifier."""
        texts = self.annotations or {}
        # One character after the prefix is skipped, whichever it is, as in Crane.
        return {key[len(METRIC_QUERY) + 1 :]: value for key, value in texts.items() if key.startswith(METRIC_QUERY)}

    @property
    def child(self) -> str:
        """The name of every object generated from this one."""
        return f"ehpa-{self.name}"

    @property
    def selector(self) -> dict[str, str]:
        """The selector by which a metric asks for values of the target."""
        name = label_value(self.target.name)
        return {"targetKind": self.target.kind, "targetName": name, "targetNamespace": self.namespace}


def read(manifest: Mapping[str, object]) -> Ehpa:
    """An EHPA from its manifest. Raises a `ValueError` that names what cannot be read."""
    about, spec = _mapping(manifest.get("metadata")), _mapping(manifest.get("spec"))
    target, most, least = _mapping(spec.get("scaleTargetRef")), spec.get("maxReplicas"), spec.get("minReplicas")
    if not isinstance(most, int):
        raise ValueError(f"'maxReplicas' is '{most}', not a whole number")  # noqa: TRY004  # what an API object says is a value
    behavior = spec.get("behavior")
    return Ehpa(
        str(about.get("namespace", "")),
        str(about.get("name", "")),
        str(about.get("uid", "")),
        ScaleTarget(str(target.get("apiVersion", "")), str(target.get("kind", "")), str(target.get("name", ""))),
        most,
        least if isinstance(least, int) else None,
        str(spec.get("scaleStrategy") or "Auto"),
        tuple(_mapping(entry) for entry in _sequence(spec.get("metrics"))),
        tuple(CronEntry.read(_mapping(entry)) for entry in _sequence(spec.get("crons"))),
        behavior if isinstance(behavior, Mapping) else None,
        _prediction(_mapping(spec.get("prediction"))),
        _texts(about.get("labels")),
        _texts(about.get("annotations")),
    )


def _prediction(block: Mapping[str, object]) -> PredictionSpec | None:
    window, algorithm = block.get("predictionWindowSeconds"), _mapping(block.get("predictionAlgorithm"))
    # Prediction is on only if its window and the block of its algorithm are set: `pkg/utils/ehpa.go` of Crane.
    if not isinstance(window, int) or not algorithm.get(str(algorithm.get("algorithmType"))):
        return None
    return PredictionSpec(window, algorithm)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _texts(value: object) -> dict[str, str]:
    return {str(key): str(text) for key, text in _mapping(value).items()}


def metadata(ehpa: Ehpa, labels: Mapping[str, str] | None = None) -> Object:
    """The metadata of an object that an EHPA owns and that is deleted with it. `labels` override the common ones."""
    common = {
        "app.kubernetes.io/name": label_value(ehpa.child),
        "app.kubernetes.io/part-of": label_value(ehpa.name),
        "app.kubernetes.io/managed-by": MANAGER,
        EHPA_UID: ehpa.uid,
    }
    owner = {
        "apiVersion": API, "kind": KIND, "name": ehpa.name, "uid": ehpa.uid, "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    return {
        "name": ehpa.child,
        "namespace": ehpa.namespace,
        "labels": {**common, **(labels or {})},
        "ownerReferences": [owner],
    }


def label_value(text: str) -> str:
    """A name as the value of a label: itself if Kubernetes takes it, else its beginning and a digest that makes it unique."""
    # Names of objects may be longer than a label's value, and names of metrics may have other characters, such as colons.
    if len(text) <= _LONGEST_LABEL and _LABEL.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    return f"{_NO_LABEL.sub('-', text)[: _LONGEST_LABEL - _DIGEST - 1].strip('-_.')}-{digest}".lstrip("-")


def ehpa_of(event: EhpaChanged) -> Ehpa:
    """The EHPA of an event. Raises a `ValueError` that names what cannot be carried out."""
    if event.unsupported:
        raise ValueError(event.unsupported)
    if event.max_replicas is None:
        raise ValueError("'maxReplicas' is not set")
    ref = event.target_ref or TargetRef("", "")
    return Ehpa(
        namespace=event.namespace,
        name=event.name,
        uid=event.uid,
        target=ScaleTarget(ref.api_version, ref.kind, ref.name),
        most=event.max_replicas,
        least=event.min_replicas,
        strategy=event.strategy.value,
        crons=tuple(CronEntry(cron.name, cron.start, cron.end, cron.target_replicas, cron.timezone) for cron in event.crons),
        prediction=_prediction_of(event.prediction),
        labels=event.labels,
        annotations=event.annotations,
        logged=tuple(hpa_metrics.of_spec(spec) for spec in event.metrics),
        rules=scaling_behavior.of_event(event.behavior),
    )


def _prediction_of(options: PredictionOptions | None) -> PredictionSpec | None:
    if options is None or options.window_seconds is None or options.algorithm is None:
        return None
    blocks = {"dsp": dsp_block, "percentile": percentile_block}
    given = blocks[options.algorithm.type](options.algorithm) if options.algorithm.type in blocks else None
    # An empty block says as little as none, as in a manifest.
    return PredictionSpec(options.window_seconds) if given else None


def dsp_block(options: AlgorithmOptions) -> Object | None:
    """The block `dsp`; None if there is none."""
    dsp = options.dsp
    if dsp is None:
        return None
    fourier: list[Object] = [
        without_none(
            marginFraction=fft.margin_fraction,
            lowAmplitudeThreshold=fft.low_amplitude_threshold,
            highFrequencyThreshold=fft.high_frequency_threshold,
            minNumOfSpectrumItems=fft.min_num_of_spectrum_items,
            maxNumOfSpectrumItems=fft.max_num_of_spectrum_items,
        )
        for fft in dsp.fft
    ]
    estimators = without_none(maxValue=[{"marginFraction": margin} for margin in dsp.max_value], fft=fourier)
    return without_none(sampleInterval=dsp.sample_interval, historyLength=dsp.history_length, estimators=estimators)


def percentile_block(options: AlgorithmOptions) -> Object | None:
    """The block `percentile`; None if there is none."""
    percentile = options.percentile
    if percentile is None:
        return None
    histogram = percentile.histogram
    block = (
        {}
        if histogram is None
        else without_none(
            maxValue=histogram.max_value,
            epsilon=histogram.epsilon,
            halfLife=histogram.half_life,
            bucketSize=histogram.bucket_size,
            firstBucketSize=histogram.first_bucket_size,
            bucketSizeGrowthRatio=histogram.bucket_size_growth_ratio,
        )
    )
    return without_none(
        aggregated=percentile.aggregated,
        historyLength=percentile.history_length,
        sampleInterval=percentile.sample_interval,
        marginFraction=percentile.margin_fraction,
        targetUtilization=percentile.target_utilization,
        percentile=percentile.percentile,
        minSampleWeight=percentile.min_sample_weight,
        histogram=block,
    )


def without_none(**fields: object) -> Object:
    """The fields that are set: neither None nor an empty text, list or mapping."""
    return {name: value for name, value in fields.items() if value is not None and not _is_empty(value)}


def _is_empty(value: object) -> bool:
    return isinstance(value, str | list | tuple | Mapping) and not value


# The status of a TimeSeriesPrediction: when it must be rewritten, and its entry for each metric.

_MINUTE = 60
_LONGEST = 32_768
"""The most characters that the API server accepts in a condition's message."""


@dataclass(frozen=True, slots=True)
class PredictedMetric:
    """A metric's forecast: values at `first`, `first + step`, ... (seconds since the epoch), or why there is none."""

    identifier: str
    first: int = 0
    step: int = 60
    values: tuple[float, ...] = ()
    why_not: str = ""

    @property
    def last(self) -> int:
        """The time of the last value."""
        return self.first + (len(self.values) - 1) * self.step


def outdated(status: Sequence[Mapping[str, object]], *, now: float, window: int) -> bool:
    """Whether some series of a status ends before the window (seconds) from now does, or there is no series.

    Source: `pkg/controller/timeseriesprediction/time_series_prediction_controller.go` of Crane.
    """
    until = (now + window) // _MINUTE * _MINUTE
    ends = [_ends(entry) for entry in status]
    return not ends or any(not last_times or min(last_times) < until for last_times in ends)


def _ends(entry: Mapping[str, object]) -> list[float]:
    """The last time of each series of an entry; 0 for one without samples."""
    series = entry.get("prediction")
    ends = []
    for part in series if isinstance(series, list | tuple) else ():
        samples = part.get("samples") or [{}]
        ends.append(float(samples[-1].get("timestamp", 0)))
    return ends


def status(predicted: Sequence[PredictedMetric], *, now: float, window: int) -> tuple[list[Object], Object]:
    """The entries of the metrics with a forecast, for two windows (seconds), and the condition Ready."""
    until = (now + 2 * window) // _MINUTE * _MINUTE
    entries: list[Object] = []
    reasons = []
    for metric in predicted:
        # A series that misses the end by less than a step is long enough. Upstream's status flaps in that case.
        ready = bool(metric.values) and metric.last > until - max(metric.step, _MINUTE)
        if not ready:
            short = f"its forecast ends {until - metric.last:g} s early" if metric.values else "there is no forecast"
            reasons.append(f"{metric.identifier}: {metric.why_not or short}")
        if metric.values:
            entries.append(_entry(metric, now, now + 2 * window, ready=ready))
    return entries, condition("; ".join(reasons), ready=bool(predicted) and not reasons)


def condition(message: str, *, ready: bool) -> Object:
    """The condition Ready."""
    return {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "PredictSucceed" if ready else "PredictPartial",
        "message": message[:_LONGEST],
    }


def _entry(metric: PredictedMetric, first: float, last: float, *, ready: bool) -> Object:
    """The entry of a metric: one series without labels."""
    # With five decimals, as upstream writes them.
    times = range(metric.first, metric.first + len(metric.values) * metric.step, metric.step)
    samples = [
        {"timestamp": at, "value": f"{value:.5f}"} for at, value in zip(times, metric.values, strict=True) if first <= at <= last
    ]
    return {"resourceIdentifier": metric.identifier, "ready": ready, "prediction": [{"samples": samples}]}
