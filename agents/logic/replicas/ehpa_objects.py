"""EHPAs and algorithms of the log in the forms that the rules of autoscalers and forecasts use."""

from collections.abc import Mapping

from agents.logic.replicas import hpa_metrics, scaling_behavior
from agents.logic.replicas.ehpa_crons import CronEntry
from agents.logic.replicas.ehpa_manifest import Ehpa, Object, PredictionSpec, ScaleTarget
from schemas.policies.ehpa import EhpaChanged
from schemas.policies.scaling import AlgorithmOptions, PredictionOptions
from schemas.policies.vpa import TargetRef


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
        prediction=_prediction(event.prediction),
        labels=event.labels,
        annotations=event.annotations,
        logged=tuple(hpa_metrics.of_spec(spec) for spec in event.metrics),
        rules=scaling_behavior.of_event(event.behavior),
    )


def _prediction(options: PredictionOptions | None) -> PredictionSpec | None:
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
