"""Estimators of a period from the whole periods before it, and how far an estimate was from what came.

Both are upstream's. A Fourier estimator keeps the strong and the slow components of the spectrum and repeats what they say of
the last period; it is symmetric to the bit, where rounding in upstream's transform drops one of two mirror images at times.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agents.logic.forecast.load_series import Floats

FLOOR = 0.01
"""What a Fourier estimate says in place of anything not above 0."""

_NOTHING = 1e-13
"""An estimate that is a smaller part of the largest value is 0 but for rounding, which upstream lets decide."""

_MEASURABLE = 0.001
"""Actual values below make a relative error meaningless; the absolute one is taken."""

_SHORTFALL = math.log(1.25)
"""An estimate that is 20 % short counts 1."""


@dataclass(frozen=True, slots=True)
class MaximumEstimator:
    """The largest value at each phase, and a margin (a share) on top."""

    margin: float = 0.0


@dataclass(frozen=True, slots=True)
class FourierEstimator:
    """Components that are strong, or slower than `high` (hertz), and a margin (a share) on top.

    Strong: among the `fewest` strongest, or at least `low` (in the metric's unit; a sine of amplitude A counts A / 2) and among
    the `most` strongest. With `folded` a slow component is kept whole; upstream keeps one of its two mirror images, which
    halves it.
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
    """Estimates before their margin, from whole periods of `period` values, each worked out once.

    Source: `pkg/prediction/dsp/estimators.go` of Crane.
    """

    def __init__(self, values: Floats, period: int, step: int) -> None:
        self._values, self._period, self._step = values, period, step
        self._found: dict[Estimator, Floats] = {}
        self._spectrum: Spectrum | None = None

    def of(self, estimator: Estimator) -> Floats:
        """One period; whoever changes it changes what the next one gets."""
        plain = replace(estimator, margin=0.0)
        if plain not in self._found:
            self._found[plain] = self._smooth(plain) if isinstance(plain, FourierEstimator) else self._highest()
        return self._found[plain]

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
    """How much of each component but the constant one stays: 1, a half (one mirror image of two) or 0."""
    power = components.real**2 + components.imag**2
    strong = power >= _threshold(estimator, power[: count // 2 - 1], count)
    slowest = _slow(estimator.high, count, step)
    kept = np.zeros(len(components))
    kept[:slowest] = 1.0 if estimator.folded else 0.5
    if not estimator.folded and slowest >= count - len(components):
        kept[count - slowest - 1 :] += 0.5
    return np.where(strong, 1.0, kept)


def _slow(high: float, count: int, step: int) -> int:
    """How many of the components, of all `count` but the constant one, are no faster than `high` (hertz)."""
    frequency = 1.0 / step
    slow = max(0, min(count - 1, int(high * step * count) + 2))
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
    """How wrong an estimate is, shortfalls counting more; the mean absolute error if an actual value is near 0 or below.

    Not a number if there are no values; `ValueError` if one has more values than the other.
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
    """The mean of (p - a) / a where the estimate p is enough, of -ln(1 - (a - p) / a) / ln 1.25 where it is short.

    Infinite if an estimate is 0, not a number if one is below.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        short = -np.log(1.0 - (actual - estimated) / actual) / _SHORTFALL
        return float(np.where(estimated >= actual, (estimated - actual) / actual, short).mean())
