"""Upstream's percentile predictor: a constant forecast from a high percentile of samples, a margin and a target utilisation."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from agents.engine.tables.row_table import Indices, RowTable
from agents.logic.forecast import crane_durations
from agents.logic.forecast.forecast_values import Forecast, NoForecast, NoForecastReason, floored
from agents.logic.forecast.load_series import Floats, Times
from agents.logic.usage.buckets import Buckets, ExponentialBuckets
from agents.logic.usage.histograms import Histograms

_MOST_BUCKETS = 10_000
"""Buckets of one histogram. Upstream's defaults make 1,000; making this many takes about a millisecond."""

_REACH = 100.0
"""Half lives after which a sample weighs nothing."""


@dataclass(frozen=True, slots=True)
class LinearBuckets:
    """Buckets `width` wide up to `maximum`, in the metric's unit."""

    maximum: float = 100.0
    width: float = 0.1


@dataclass(frozen=True, slots=True)
class GrowingBuckets:
    """Buckets up to `maximum`, the first of width `first`, each wider than the one before by the share `growth`."""

    maximum: float
    first: float
    growth: float


@dataclass(frozen=True, slots=True)
class PercentileSettings:
    """Seconds of history and between samples, how to count samples, and how to estimate from them."""

    history: float = 168 * 3600.0
    step: float = 60.0
    aggregated: bool = True
    buckets: LinearBuckets | GrowingBuckets = LinearBuckets()
    epsilon: float = 1e-10
    half_life: float = math.inf
    least_weight: float = 1e-5
    percentile: float = 0.99
    margin: float = 0.0
    utilization: float = 1.0


class LinearScale:
    """Where linear buckets start, and the bucket of each value. The last bucket takes all values above the maximum."""

    def __init__(self, maximum: float, width: float, epsilon: float) -> None:
        self.epsilon, self._width = epsilon, width
        self.starts: Floats = np.arange(math.ceil(maximum / width) + 1, dtype=np.float64) * width

    def find(self, values: Floats) -> Indices:
        """The bucket of each value: value / width, rounded down and limited to the buckets that exist."""
        places = values / self._width
        return np.minimum(np.maximum(places, 0.0, out=places), len(self.starts) - 1, out=places).astype(np.int64)


@lru_cache(maxsize=64)
def scale(settings: PercentileSettings) -> Buckets:
    """The buckets that the settings ask for."""
    buckets = settings.buckets
    if isinstance(buckets, LinearBuckets):
        return LinearScale(buckets.maximum, buckets.width, settings.epsilon)
    return ExponentialBuckets(buckets.maximum, buckets.first, 1.0 + buckets.growth, settings.epsilon)


def read(block: Mapping[str, object] | None, *, decaying: bool = False) -> PercentileSettings:
    """The settings of an API object's `percentile` block; `ValueError` names what is wrong with it.

    Percentile, margin and utilisation may be any numbers, as upstream has it; `constant` refuses an estimate that is no number.
    Source: `pkg/prediction/percentile/config.go` of Crane.
    """
    if block is None:
        return PercentileSettings(half_life=86_400.0 if decaying else math.inf)
    declared = block.get("histogram")
    histogram = declared if isinstance(declared, Mapping) else {}
    default = PercentileSettings()
    half_life = _span(histogram, "halfLife")
    return PercentileSettings(
        history=_span(block, "historyLength"),
        step=_span(block, "sampleInterval"),
        aggregated=bool(block.get("aggregated", False)),
        buckets=_buckets(histogram),
        epsilon=_number(histogram, "epsilon", default.epsilon),
        # Upstream reads a half life and never applies it; here samples lose weight only where the caller asks for it.
        half_life=half_life if decaying else math.inf,
        least_weight=_number(block, "minSampleWeight", default.least_weight),
        percentile=_number(block, "percentile", default.percentile),
        margin=_number(block, "marginFraction", default.margin),
        utilization=_number(block, "targetUtilization", default.utilization),
    )


def _buckets(histogram: Mapping[str, object]) -> LinearBuckets | GrowingBuckets:
    """Exponential if all its three options are set, else linear if its two are, else the default."""
    if all(histogram.get(name) for name in ("maxValue", "firstBucketSize", "bucketSizeGrowthRatio")):
        maximum, first, growth = (
            _number(histogram, name, 0.0) for name in ("maxValue", "firstBucketSize", "bucketSizeGrowthRatio")
        )
        _check(maximum=maximum, first=first, growth=growth)
        ratio = 1.0 + growth
        if ratio == 1.0:
            raise ValueError(f"the buckets' 'growth' is {growth:g}, too little to make one wider than the one before")
        # A tiny first bucket under a huge maximum would ask for more memory than the process has.
        _few(math.log(maximum * (ratio - 1.0) / first + 1.0) / math.log(ratio))
        return GrowingBuckets(maximum, first, growth)
    if all(histogram.get(name) for name in ("maxValue", "bucketSize")):
        maximum, width = _number(histogram, "maxValue", 0.0), _number(histogram, "bucketSize", 0.0)
        _check(maximum=maximum, width=width)
        _few(maximum / width)
        return LinearBuckets(maximum, width)
    return LinearBuckets()


def _check(**sizes: float) -> None:
    for name, value in sizes.items():
        if not 0.0 < value < math.inf:
            raise ValueError(f"the buckets' '{name}' is {value:g}, not a positive number")


def _few(count: float) -> None:
    if not count <= _MOST_BUCKETS:
        raise ValueError(f"the histogram would have {count:.0f} buckets, more than {_MOST_BUCKETS}")


def _span(block: Mapping[str, object], name: str) -> float:
    try:
        return crane_durations.duration(str(block.get(name, "")))
    except ValueError as error:
        raise ValueError(f"'{name}': {error}") from error


def _number(block: Mapping[str, object], name: str, default: float) -> float:
    text = str(block.get(name) or "")
    try:
        return crane_durations.number(text) if text else default
    except ValueError as error:
        raise ValueError(f"'{name}': {error}") from error


def estimate(samples: Iterable[tuple[Times, Floats]], settings: PercentileSettings) -> float:
    """The estimate from whole histories at once. It is 0 if they hold no number, and may be infinite if the utilisation is 0.

    Source: `pkg/prediction/percentile/prediction.go` and `estimator.go` of Crane.
    """
    buckets = scale(settings)
    parts = [part for part in itertools.starmap(_finite, samples) if len(part[1])]
    if not parts:
        return 0.0
    times, values = parts[0] if len(parts) == 1 else (np.concatenate(column) for column in zip(*parts, strict=True))
    # Weighed by its own value, so that long quiet stretches do not hide the busy ones.
    weighed = np.maximum(values, settings.least_weight)
    if math.isfinite(settings.half_life):
        weighed = weighed * np.exp2((times - times.max()) / settings.half_life)
    weights = np.bincount(buckets.find(values), weighed)
    filled = np.flatnonzero(weights >= buckets.epsilon)
    if not len(filled):
        return 0.0
    first, last = int(filled[0]), int(filled[-1])
    sums = np.cumsum(weights[first:])
    reached = min(first + int(np.count_nonzero(sums < settings.percentile * np.cumsum(weighed)[-1])), last)
    return _asked(float(buckets.starts[min(reached + 1, len(buckets.starts) - 1)]), settings)


def _finite(times: Times, values: Floats) -> tuple[Times, Floats]:
    good = np.isfinite(values)
    return (times, values) if good.all() else (times[good], values[good])


def _asked(percentile: float, settings: PercentileSettings) -> float:
    """The percentile with the margin, at the target utilisation; dividing by zero gives infinity or NaN, as in Go."""
    wanted = percentile * (1.0 + settings.margin)
    # Python raises where Go divides.
    if settings.utilization == 0.0:
        return math.copysign(math.inf, wanted) if wanted else math.nan
    return wanted / settings.utilization


class Percentiles:
    """Histograms that keep learning, one row a metric, all by the same settings. A checkpoint holds `rows`."""

    def __init__(self, name: str, settings: PercentileSettings) -> None:
        self.settings = settings
        buckets = scale(settings)
        self.rows = RowTable(name, Histograms.columns("seen", buckets, settings.half_life))
        self._histograms = Histograms(self.rows, "seen", buckets)

    def add(self, rows: Indices, values: Floats, at: float) -> None:
        """Add one sample to each row, all of one time (seconds since the epoch). Values that are no numbers are left out."""
        good = np.isfinite(values)
        rows, values = rows[good], values[good]
        weights = np.maximum(values, self.settings.least_weight)
        self._histograms.add(rows, values, weights, at)  # type: ignore[arg-type]  # a weight a row: equal times are never split
        self.rows.touch(rows)

    def learn(self, row: int, times: Times, values: Floats) -> None:
        """Add a history to one row, oldest sample first. Samples that have decayed to nothing are left out."""
        good = np.isfinite(values)
        if good.any() and math.isfinite(self.settings.half_life):
            good &= times > times[good].max() - _REACH * self.settings.half_life
        for at, value in zip(times[good].tolist(), values[good].tolist(), strict=True):
            self.add(np.array([row]), np.array([value]), at)

    def estimates(self, rows: Indices) -> Floats:
        """The estimate of each row; 0 where nothing was seen."""
        percentiles = self._histograms.percentiles(rows, [self.settings.percentile])[0]
        return np.array([_asked(value, self.settings) for value in percentiles.tolist()])


def constant(value: float, *, first: float, last: float, step: int) -> Forecast | NoForecast:
    """The same value at each step, from the step that `first` lies in, as long as it is before `last` (seconds)."""
    if not math.isfinite(value):
        return NoForecast(NoForecastReason.NOT_FINITE, f"the estimate is {value}, which is no number to scale by")
    start = floored(first, step)
    return Forecast(start, step, (value,), max(0, math.ceil((last - start) / step)))
