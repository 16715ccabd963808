"""Estimators of a period from the whole periods before it, and how far an estimate was from what came.

Both are upstream's. A Fourier estimator keeps the strong and the slow components of the spectrum and repeats what they say of
the last period; it is symmetric to the bit, where rounding in upstream's transform drops one of two mirror images at times.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from agents.logic.forecast.series import Floats

FLOOR = 0.01
"""What a Fourier estimate says in place of anything not above 0."""

_MEASURABLE = 0.001
"""Actual values below make a relative error meaningless; the absolute one is taken."""

_SHORTFALL = math.log(1.25)
"""An estimate that is 20 % short counts 1."""


@dataclass(frozen=True, slots=True)
class Maximum:
    """The largest value at each phase, and a margin (a share) on top."""

    margin: float = 0.0


@dataclass(frozen=True, slots=True)
class Fourier:
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


Estimator = Maximum | Fourier


def estimate(estimator: Estimator, values: Floats, period: int, *, step: int) -> Floats:
    """One period of `period` values from whole periods of evenly spaced values (at least one)."""
    return shape(estimator, values, period, step=step) * (1.0 + estimator.margin)


def shape(estimator: Estimator, values: Floats, period: int, *, step: int) -> Floats:
    """The estimate before its margin; equal for estimators that differ in nothing else (`marginless`).

    Source: `pkg/prediction/dsp/estimator.go` of Crane.
    """
    if isinstance(estimator, Maximum):
        return np.asarray(values.reshape(-1, period).max(axis=0))
    spectrum = np.fft.rfft(values)
    spectrum[1:] *= _kept(estimator, spectrum, len(values), step)
    smooth = np.fft.irfft(spectrum, len(values))[-period:]
    return np.where(smooth > 0.0, smooth, FLOOR)


def _kept(estimator: Fourier, spectrum: np.ndarray[tuple[int], np.dtype[np.complex128]], count: int, step: int) -> Floats:
    """How much of each component but the constant one stays: 1, a half (one mirror image of two) or 0."""
    amplitudes = np.abs(spectrum[1:]) / count
    strong = amplitudes >= _threshold(estimator, amplitudes[: count // 2 - 1])
    if estimator.folded:
        highest = math.floor(estimator.high * step * count)
        return np.where(strong | (np.arange(1, len(spectrum)) <= highest), 1.0, 0.0)
    places = np.arange(1, len(spectrum))
    frequency = 1.0 / step
    slow = (places * frequency / count <= estimator.high).astype(np.float64)
    mirrored = ((count - places) * frequency / count <= estimator.high).astype(np.float64)
    return np.where(strong, 1.0, (slow + mirrored) / 2)


def _threshold(estimator: Fourier, amplitudes: Floats) -> float:
    """The amplitude from which a component counts as strong."""
    count = len(amplitudes)
    if not count:
        return estimator.low
    most, fewest = min(estimator.most, count), estimator.fewest
    wanted = [count - most, *([count - fewest] if 0 < fewest <= count else [])]
    ordered = np.partition(amplitudes, wanted)
    threshold = max(float(ordered[count - most]), estimator.low)
    return min(threshold, float(ordered[count - fewest])) if len(wanted) > 1 else threshold


def marginless(estimator: Estimator) -> Estimator:
    """The estimator without its margin."""
    return replace(estimator, margin=0.0)


def error(actual: Floats, estimated: Floats) -> float:
    """How wrong an estimate is, shortfalls counting more; the mean absolute error if an actual value is near 0 or below.

    Not a number if there are no values; `ValueError` if one has more values than the other.
    Source: `pkg/prediction/accuracy/error.go`, `PredictionError`, of Crane.
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
