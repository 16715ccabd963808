"""From histograms to VPA's amounts: percentile, margin, confidence, minimum, rounding.

Each step is upstream's, including where it truncates. Amounts are whole millicores and whole bytes in float64 arrays, one element
for each container.
"""

from dataclasses import dataclass

import numpy as np

from agents.engine.tables.row_table import Floats
from agents.logic.usage.buckets import power
from schemas.bounds import AMOUNT_LIMIT

MILLI = 1000.0
"""Millicores of a core."""


@dataclass(frozen=True, slots=True)
class ConfidenceBound:
    """amount * (1 + multiplier / confidence) ^ exponent: far away while little is known, close once much is."""

    multiplier: float
    exponent: int


LOWER = ConfidenceBound(0.001, -2)
UPPER = ConfidenceBound(1.0, 1)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One resource of many containers: percentiles as found, and the amounts made of them. One element for each container."""

    percentiles: tuple[Floats, Floats, Floats]
    """Lower, target, upper; in cores or bytes."""
    confidence: Floats
    minimum: Floats
    lower: Floats
    target: Floats
    upper: Floats
    """Amounts and the minimum are in millicores or bytes."""


def clamp(amounts: Floats) -> Floats:
    """An amount is a whole number from 0 to 1e14; what is no number (0 times infinity) is 0, as the minimum follows anyway."""
    whole = np.trunc(amounts)
    np.fmax(whole, 0.0, out=whole)
    np.fmin(whole, AMOUNT_LIMIT, out=whole)
    whole += 0.0  # truncation may leave -0
    return whole


def with_margin(amounts: Floats, margin: Floats | float) -> Floats:
    """An amount and its margin: base + int(base * margin)."""
    # Upstream cuts the margin to a whole number before it adds it.
    return clamp(amounts + clamp(amounts * margin))


def confidence(first: Floats, last: Floats, count: Floats, interval: float) -> Floats:
    """min((last - first) / interval, count / (interval in minutes)); one sample a minute for N days gives N."""
    return np.minimum((last - first) / interval, count / (interval / 60.0))


def with_confidence(amounts: Floats, sure: Floats, bound: ConfidenceBound) -> Floats:
    """A bound: amount * (1 + m / c) ^ e; c = 0 makes the factor 0 or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # A confidence of 0 makes the factor 0 or infinite.
        return clamp(amounts * power(1.0 + bound.multiplier / sure, bound.exponent))


def rounded(amounts: Floats, step: int) -> Floats:
    """Up to the next multiple of `step`; a step of 1 or less leaves the amounts."""
    return amounts if step <= 1 else np.ceil(amounts / step) * step


def estimate(percentiles: Floats, sure: Floats, *, margin: Floats, minimum: Floats) -> tuple[Floats, Floats, Floats]:
    """Lower, target and upper amounts by upstream's chain: percentile, margin, confidence, minimum.

    `percentiles` holds three of them in amounts, one on its first axis each; the other arguments have the shape of one of them.
    """
    # Every step works element by element, so several resources go through it at once as one more axis.
    lower, target, upper = with_margin(clamp(percentiles), margin)
    return (
        np.maximum(with_confidence(lower, sure, LOWER), minimum),
        np.maximum(target, minimum),
        np.maximum(with_confidence(upper, sure, UPPER), minimum),
    )
