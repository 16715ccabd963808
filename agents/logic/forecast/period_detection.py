"""Finds the period of a series: peaks of the spectrum above the level of chance, each tested on the autocorrelation."""

import math
from dataclasses import dataclass

import numpy as np

from agents.logic.forecast.load_series import Floats

DAY = 86_400
WEEK = 7 * DAY

_CHANCE = (99 - 1 / 3) / (100 + 1 / 3)
"""The probability that chance stays below the second largest of a hundred maxima (its median rank, by Benard's formula)."""

_LARGEST = 64
"""How many of the largest values the level of chance takes one by one; the rest cannot stand out enough to matter."""

_SLOPES = np.geomspace(1.0, 8.0, 24)
"""Where to look for the best bound, as multiples of its place when no value stands out."""

_FLANK = 4 * 3600
"""Seconds on either side of a peak over which the autocorrelation must rise and fall."""

_FLAT = 1e-9
"""A series whose standard deviation is a smaller share of its mean is constant apart from rounding."""


@dataclass(frozen=True, slots=True)
class DetectedPeriod:
    """Samples in a period, and the autocorrelation there."""

    samples: int
    strength: float


def whole(values: Floats, *, step: int, period: int) -> tuple[Floats, int]:
    """The newest whole periods (seconds) of a series, and how many of them there are."""
    samples = period / step
    count = int(len(values) / samples)
    kept = int(count * samples)
    return values[len(values) - kept :], count


def searched(values: Floats, *, step: int) -> Floats:
    """The part of a series to search for a period: whole weeks if there are two, else whole days if there are two."""
    for unit in (WEEK, DAY):
        part, count = whole(values, step=step, period=unit)
        if count > 1:
            return part
    return values[:0]


def constant(values: Floats) -> bool:
    """Whether all values are equal apart from rounding."""
    return not len(values) or bool(values.std() <= _FLAT * abs(values.mean()))


def find(values: Floats, *, step: int) -> DetectedPeriod | None:
    """The strongest period of evenly spaced values, or None. `searched` cuts them to whole weeks or days first.

    Source: `pkg/prediction/dsp/signal.go` and `prediction.go` of Crane.
    """
    count = len(values)
    if count < 4:  # noqa: PLR2004  # the spectrum of fewer has no frequency to look at
        return None
    mean, power = _power(values)
    variance = _variance(power, count)
    if variance <= _FLAT * abs(mean) * _FLAT * abs(mean):
        return None
    hints = np.flatnonzero(power[2 : count // 2] > chance(values - mean, variance) ** 2) + 2
    if not len(hints):
        return None
    correlation = _correlation(power, variance, count)
    candidates = np.unique(count // hints)[::-1]
    # The strongest first; of equals the longest, as `candidates` descend.
    order = np.argsort(-correlation[candidates], kind="stable")
    for candidate in candidates[order].tolist():
        if correlation[candidate] <= 0.0:
            return None
        if is_peak(correlation, candidate, min(_FLANK // step, candidate // 2)):
            return DetectedPeriod(candidate, float(correlation[candidate]))
    return None


def refined(values: Floats, samples: int) -> int:
    """The period near `samples` at which the series resembles itself most."""
    # The spectrum has only whole fractions of the history's length, so a long period may be off by a tenth and more.
    count = len(values)
    reach = max(1, min(samples * samples // count + 1, samples // 4))
    lags = np.arange(max(1, samples - reach), min(samples + reach + 1, count // 2 + 1))
    if not len(lags):
        return samples
    off = values - values.mean()
    # Twice as long, so that the end of the series does not meet its beginning.
    spectrum = np.fft.rfft(off, 2 * count)
    likeness = np.fft.irfft(spectrum * spectrum.conj(), 2 * count)[lags] / (count - lags)
    return int(lags[np.argmax(likeness)])


def chance(off: Floats, variance: float) -> float:
    """The modulus that the strongest frequency of the shuffled series stays below in 98 of 100 cases.

    Upstream estimates this level by shuffling the series a hundred times. The spectrum of shuffled values is known in theory: a
    frequency is a sum of the values with random phases. So it is computed, and is the same each time. A test compares the two.

    `off` is how far each value lies from the mean. A sum of values with random phases exceeds t with a probability of about
    exp(K(s) - s t), K(s) being the sum of ln I0(s |off|), for the best s (Chernoff). Where no value stands out, K(s) = P s^2 / 4
    for the power P, and this is exp(-t^2 / P); a single spike has a level near its own height. The probability that all of M
    frequencies stay below t is the complement of that one, to the power of M.
    """
    count = len(off)
    rarity = -math.log1p(-(_CHANCE ** (1 / max(count // 2 - 1, 1))))
    power = count * count / (count - 1) * variance
    size = np.abs(off)
    largest = np.partition(size, count - _LARGEST)[count - _LARGEST :] if count > _LARGEST else size
    slopes = 2 * math.sqrt(rarity / power) * _SLOPES
    others = max(power - float(largest @ largest), 0.0)
    grown = np.log(np.i0(slopes[:, None] * largest)).sum(axis=1) + slopes**2 * others / 4
    return float(((grown + rarity) / slopes).min())


def _power(values: Floats) -> tuple[float, Floats]:
    """The mean, and the power of each frequency; the power at frequency 0, the mean's own, is set to 0."""
    spectrum = np.fft.rfft(values)
    mean, spectrum[0] = float(spectrum[0].real) / len(values), 0.0
    return mean, np.asarray(spectrum.real**2 + spectrum.imag**2)


def _variance(power: Floats, count: int) -> float:
    """The variance by Parseval: each frequency stands for its mirror image, too, except the highest of an even count."""
    return float(2 * power.sum() - (power[-1] if count % 2 == 0 else 0.0)) / count**2


def _correlation(power: Floats, variance: float, count: int) -> Floats:
    return np.asarray(np.fft.irfft(power, count) / (count * variance))


def is_peak(correlation: Floats, place: int, radius: int) -> bool:
    """Whether the line fitted to `radius` values before a place rises and the one after it falls; the last place needs no fall.

    Source: `pkg/prediction/dsp/peak.go` of Crane.
    """
    if place >= len(correlation):
        return False
    before, after = correlation[max(place - radius, 0) : place + 1], correlation[place : place + radius + 1]
    return _slope(before) > 0.0 and (len(after) == 1 or _slope(after) < 0.0)


def _slope(values: Floats) -> float:
    """The slope of the least-squares line, up to a positive factor."""
    ramp = np.arange(len(values)) - (len(values) - 1) / 2
    return float(ramp @ values)
