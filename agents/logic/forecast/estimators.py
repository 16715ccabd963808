"""Estimators of a period from the whole periods before it, and the error of an estimate against the actual values.

Both are upstream's. A Fourier estimator keeps the strong and the slow components of the spectrum and repeats the last period
that they give. It is symmetric to the bit; rounding in upstream's transform sometimes drops one of two mirror images.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agents.logic.forecast.load_series import Floats

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
