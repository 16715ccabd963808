"""Upstream's forecast by digital signal processing: find a day or a week in the past, let estimators compete, repeat the winner.

Upstream crashes, hides the cause or depends on chance in places; this predictor does not. It computes the level of chance
(`period_detection`), lets no estimator win whose error is not a number, and reports whatever prevents a forecast. A Fourier
estimator keeps the strong and the slow components of the spectrum and repeats the last period that they give. It is symmetric to
the bit; rounding in upstream's transform sometimes drops one of two mirror images.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agents.logic.forecast import crane_durations, load_series, period_detection
from agents.logic.forecast.forecast_values import Forecast, NoForecast, NoForecastReason
from agents.logic.forecast.load_series import Floats, LoadSeries, Times
from agents.logic.forecast.period_detection import DAY, WEEK

FLOOR = 0.01
"""A Fourier estimate has this value wherever it would be 0 or below."""

_NOTHING = 1e-13
"""An estimate below this share of the largest value is 0 apart from rounding; upstream lets the rounding decide."""

_MEASURABLE = 0.001
"""An actual value below this makes a relative error meaningless, so use the absolute error."""

_SHORTFALL = math.log(1.25)
"""Scales the relative error so that an estimate 20 % too low has an error of 1."""


@dataclass(frozen=True, slots=True)
class MaximumEstimator:
    """The largest value at each phase, plus a margin (a share)."""

    margin: float = 0.0


@dataclass(frozen=True, slots=True)
class FourierEstimator:
    """Components that are strong, or slower than `high` (hertz), plus a margin (a share).

    A component is strong if it is among the `fewest` strongest, or if it is at least `low` (in the metric's unit; a sine of
    amplitude A counts A / 2) and among the `most` strongest. With `folded` a slow component stays whole; upstream keeps only one
    of its two mirror images, which halves it.
    """

    margin: float = 0.0
    fewest: int = 3
    most: int = 100
    low: float = 1.0
    high: float = 1 / 3600
    folded: bool = False


Estimator = MaximumEstimator | FourierEstimator
Spectrum = NDArray[np.complex128]


def estimate(estimator: Estimator, values: Floats, period: int, *, step: int) -> Floats:
    """One period of `period` values from whole periods of evenly spaced values (at least one)."""
    return PeriodicEstimates(values, period, step).of(estimator) * (1.0 + estimator.margin)


class PeriodicEstimates:
    """Estimates without their margin, from whole periods of `period` values. Each is computed once.

    Source: `pkg/prediction/dsp/estimators.go` of Crane.
    """

    def __init__(self, values: Floats, period: int, step: int) -> None:
        self._values, self._period, self._step = values, period, step
        self._estimates: dict[Estimator, Floats] = {}
        self._spectrum: Spectrum | None = None

    def of(self, estimator: Estimator) -> Floats:
        """One period of estimates. All callers share the array: do not change it."""
        # Upstream's defaults are two shapes with four margins each, so six of eight transforms are saved.
        plain = replace(estimator, margin=0.0)
        if plain not in self._estimates:
            self._estimates[plain] = self._smooth(plain) if isinstance(plain, FourierEstimator) else self._highest()
        return self._estimates[plain]

    def _highest(self) -> Floats:
        return np.asarray(self._values.reshape(-1, self._period).max(axis=0))

    def _smooth(self, estimator: FourierEstimator) -> Floats:
        if self._spectrum is None:
            self._spectrum = np.fft.rfft(self._values)
        spectrum = self._spectrum.copy()
        spectrum[1:] *= _kept(estimator, spectrum[1:], len(self._values), self._step)
        smooth = np.fft.irfft(spectrum, len(self._values))[-self._period :]
        return np.where(smooth > _NOTHING * np.abs(self._values).max(), smooth, FLOOR)


def _kept(estimator: FourierEstimator, components: Spectrum, count: int, step: int) -> Floats:
    """How much of each component stays, the constant one excepted: 1, a half (one of two mirror images) or 0."""
    power = components.real**2 + components.imag**2
    strong = power >= _threshold(estimator, power[: count // 2 - 1], count)
    slowest = _slow(estimator.high, count, step)
    kept = np.zeros(len(components))
    kept[:slowest] = 1.0 if estimator.folded else 0.5
    # Upstream goes through all `count` frequencies, so the mirror images of the fast ones count as slow near the end.
    if not estimator.folded and slowest >= count - len(components):
        kept[count - slowest - 1 :] += 0.5
    return np.where(strong, 1.0, kept)


def _slow(high: float, count: int, step: int) -> int:
    """How many of the `count` components, the constant one excepted, are no faster than `high` (hertz)."""
    frequency = 1.0 / step
    slow = max(0, min(count - 1, int(high * step * count) + 2))
    # The estimate may be off by rounding, so it is walked back by upstream's own comparison.
    while slow and not slow * frequency / count <= high:
        slow -= 1
    return slow


def _threshold(estimator: FourierEstimator, power: Floats, count: int) -> float:
    """The power from which a component counts as strong."""
    low, length = (estimator.low * count) * abs(estimator.low * count), len(power)
    if not length:
        return low
    most, fewest = min(estimator.most, length), estimator.fewest
    wanted = [length - most, *([length - fewest] if 0 < fewest <= length else [])]
    ordered = np.partition(power, wanted)
    threshold = max(float(ordered[length - most]), low)
    return min(threshold, float(ordered[length - fewest])) if len(wanted) > 1 else threshold


def error(actual: Floats, estimated: Floats) -> float:
    """How wrong an estimate is; shortfalls weigh more. The mean absolute error if an actual value is near 0 or below.

    The result is NaN without values. Raises `ValueError` if the two lengths differ.
    Source: `pkg/prediction/accuracy/accuracy.go` of Crane.
    """
    if len(actual) != len(estimated):
        raise ValueError(f"{len(actual)} actual values cannot be compared with {len(estimated)} estimated ones")
    if not len(actual):
        return math.nan
    if (actual < _MEASURABLE).any():
        return absolute_error(actual, estimated)
    return relative_error(actual, estimated)


def absolute_error(actual: Floats, estimated: Floats) -> float:
    """The mean distance."""
    return float(np.abs(actual - estimated).mean())


def relative_error(actual: Floats, estimated: Floats) -> float:
    """The mean of (p - a) / a where the estimate p suffices, and of -ln(1 - (a - p) / a) / ln 1.25 where it falls short.

    Infinite if an estimate is 0, NaN if one is negative.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        short = -np.log(1.0 - (actual - estimated) / actual) / _SHORTFALL
        return float(np.where(estimated >= actual, (estimated - actual) / actual, short).mean())


DEFAULT_ESTIMATORS: tuple[Estimator, ...] = tuple(
    FourierEstimator(margin=margin, fewest=fewest, low=low)
    for fewest, low in ((3, 1.0), (50, 0.05))
    for margin in (0.01, 0.10, 0.15, 0.20)
)

_LONGEST_STEP = 3600.0
_SHORTEST_HISTORY = 172_800.0


@dataclass(frozen=True, slots=True)
class DspSettings:
    """Seconds between samples, seconds of history, and the estimators in the order in which they are tried."""

    step: float = 60.0
    history: float = 15 * DAY
    estimators: tuple[Estimator, ...] = DEFAULT_ESTIMATORS


@dataclass(frozen=True, slots=True)
class EstimatorTrial:
    """An estimator and its error on the last period."""

    estimator: Estimator
    error: float


@dataclass(frozen=True, slots=True)
class FittedForecast:
    """A forecast and what it rests on: the period (seconds), how many of them the history held, each trial, and the winner."""

    forecast: Forecast
    period: int
    periods: int
    trials: tuple[EstimatorTrial, ...]
    chosen: int


def read(block: Mapping[str, object] | None) -> DspSettings:
    """The settings of an API object's `dsp` block; `ValueError` names what is wrong with it.

    Source: `pkg/prediction/dsp/config.go` of Crane.
    """
    # Upstream silently falls back to its defaults instead, and accepts steps that later crash its process.
    if block is None:
        return DspSettings()
    step = _option("sampleInterval", block.get("sampleInterval", ""))
    if step > _LONGEST_STEP:
        raise ValueError(f"'sampleInterval' is {step:g} s, more than an hour")
    history = _option("historyLength", block.get("historyLength", ""))
    if history < _SHORTEST_HISTORY:
        raise ValueError(f"'historyLength' is {history:g} s, less than two days")
    return DspSettings(step, history, _estimators(block.get("estimators")) or DEFAULT_ESTIMATORS)


def _option(name: str, text: object) -> float:
    try:
        return crane_durations.duration(str(text))
    except ValueError as error:
        raise ValueError(f"'{name}': {error}") from error


def _estimators(block: object) -> tuple[Estimator, ...]:
    if not isinstance(block, Mapping):
        return ()
    maxima = [MaximumEstimator(_fraction(entry, "marginFraction")) for entry in block.get("maxValue") or ()]
    return (*maxima, *[_fourier(entry) for entry in block.get("fft") or ()])


def _fourier(entry: Mapping[str, object]) -> FourierEstimator:
    defaults = FourierEstimator()  # a missing option or 0 means the default, as upstream has it
    return FourierEstimator(
        margin=_fraction(entry, "marginFraction"),
        fewest=_count(entry, "minNumOfSpectrumItems") or defaults.fewest,
        most=_count(entry, "maxNumOfSpectrumItems") or defaults.most,
        low=_fraction(entry, "lowAmplitudeThreshold") or defaults.low,
        high=_fraction(entry, "highFrequencyThreshold") or defaults.high,
    )


def _fraction(entry: Mapping[str, object], name: str) -> float:
    text = str(entry.get(name) or "")
    try:
        return crane_durations.number(text) if text else 0.0
    except ValueError as error:
        raise ValueError(f"'{name}': {error}") from error


def _count(entry: Mapping[str, object], name: str) -> int:
    value = entry.get(name) or 0
    if not isinstance(value, int):
        raise ValueError(f"'{name}' is '{value}', not a whole number")  # noqa: TRY004  # what an API object says is a value
    return value


def fit(times: Times, values: Floats, settings: DspSettings) -> FittedForecast | NoForecast:
    """A forecast from samples at ascending times (seconds since the epoch), or why there is none.

    Source: `pkg/prediction/dsp/prediction.go` of Crane.
    """
    step = int(settings.step)
    if step < 1 or step != settings.step:
        return NoForecast(NoForecastReason.BAD_SETTINGS, f"the sample interval is {settings.step:g} s, not whole seconds")
    even = load_series.prepare(times, values, step=step)
    if isinstance(even, NoForecast):
        return even
    even = LoadSeries(even.start, step, load_series.without_outliers(even.values))
    period = accepted_period(even)
    return period if isinstance(period, NoForecast) else forecast(even, period, settings.estimators)


def found_period(even: LoadSeries) -> int | None:
    """The strongest period in whole seconds; None if there is none."""
    detected = period_detection.find(period_detection.searched(even.values, step=even.step), step=even.step)
    # Samples over a rate, rounded down: upstream's order of operations, which may lose a second to rounding.
    return None if detected is None else int(detected.samples / (1.0 / even.step))


def accepted_period(even: LoadSeries) -> int | NoForecast:
    """The series' period if it is a day or a week, in seconds; otherwise why it is neither."""
    part = period_detection.searched(even.values, step=even.step)
    hours = len(even.values) * even.step / 3600
    if not len(part):
        return NoForecast(
            NoForecastReason.SHORT_HISTORY, f"{hours:.1f} hours of even history are there; a period of a day takes 48"
        )
    if period_detection.constant(part):
        return NoForecast(NoForecastReason.CONSTANT, f"all {len(part)} samples are {part[0]:g}; there is no period to find")
    period = found_period(even)
    if period is None:
        return NoForecast(NoForecastReason.NO_PERIOD, f"{hours:.1f} hours of history show no period")
    if period not in (DAY, WEEK):
        return NoForecast(NoForecastReason.OTHER_PERIOD, f"the history repeats each {period} s; only a day or a week is forecast")
    return period


def forecast(even: LoadSeries, period: int, candidates: Sequence[Estimator]) -> FittedForecast | NoForecast:
    """The candidate closest on the last period (the first of equals), applied to all whole periods and repeated as often."""
    samples = int(period / even.step)
    count = len(even.values) // samples
    if count < 2:  # noqa: PLR2004  # one to learn from, one to compare with
        return NoForecast(NoForecastReason.SHORT_HISTORY, f"{len(even.values)} samples are less than two periods of {samples}")
    # Whole periods only, and the newest: an estimator lays them on top of one another.
    values = even.values[len(even.values) - count * samples :]
    trials = compare(candidates, values, samples, step=even.step)
    # An estimator whose error is no number must not win, as it may upstream.
    finite = [trial.error if math.isfinite(trial.error) else math.inf for trial in trials]
    chosen = min(range(len(trials)), key=finite.__getitem__)
    if not math.isfinite(finite[chosen]):
        return NoForecast(NoForecastReason.NOT_FINITE, f"none of {len(trials)} estimators has a finite error on the last period")
    profile = estimate(candidates[chosen], values, samples, step=even.step)
    if not np.isfinite(profile).all():
        return NoForecast(NoForecastReason.NOT_FINITE, f"estimator {chosen} says values that are no numbers")
    start = even.start + len(even.values) * even.step
    return FittedForecast(Forecast(start, even.step, tuple(profile.tolist()), count), period, count, trials, chosen)


def compare(candidates: Sequence[Estimator], values: Floats, samples: int, *, step: int) -> tuple[EstimatorTrial, ...]:
    """Each candidate's error on the last period of `samples` values, learnt from those before it."""
    shapes, actual = PeriodicEstimates(values[:-samples], samples, step), values[-samples:]
    return tuple(
        EstimatorTrial(candidate, error(actual, shapes.of(candidate) * (1.0 + candidate.margin))) for candidate in candidates
    )
