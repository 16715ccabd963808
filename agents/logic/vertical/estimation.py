"""From histograms to VPA's amounts: percentile, margin, confidence, minimum. Each step is upstream's, rounding included.

Amounts are whole millicores and whole bytes in float64 arrays, one element for each container.
"""

from dataclasses import dataclass

import numpy as np

from agents.logic.tables.rows import Floats, Indices
from agents.logic.usage.buckets import AMOUNT_LIMIT
from agents.logic.usage.power import power
from agents.logic.usage.usage import Usage
from agents.logic.vertical.settings import VerticalSettings

MILLI = 1000.0
"""Millicores of a core."""


@dataclass(frozen=True, slots=True)
class Bound:
    """amount * (1 + multiplier / confidence) ^ exponent: far away while little is known, close once much is."""

    multiplier: float
    exponent: int


LOWER = Bound(0.001, -2)
UPPER = Bound(1.0, 1)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One resource of many containers: percentiles as found, and the amounts made of them."""

    percentiles: tuple[Floats, Floats, Floats]
    """Lower, target, upper; cores or bytes."""
    confidence: Floats
    minimum: Floats
    lower: Floats
    target: Floats
    upper: Floats


def clamp(amounts: Floats) -> Floats:
    """An amount is a whole number from 0 to 1e14; what is no number (0 times infinity) is 0, as the minimum follows anyway."""
    with np.errstate(invalid="ignore"):
        return np.where(amounts > AMOUNT_LIMIT, AMOUNT_LIMIT, np.where(amounts > 0.0, np.trunc(amounts), 0.0))


def with_margin(amounts: Floats, margin: float) -> Floats:
    """An amount and its margin: base + int(base * margin)."""
    return clamp(amounts + clamp(amounts * margin))


def confidence(first: Floats, last: Floats, count: Floats, interval: float) -> Floats:
    """min((last - first) / interval, count / (interval in minutes)); one sample a minute for N days gives N."""
    return np.minimum((last - first) / interval, count / (interval / 60.0))


def with_confidence(amounts: Floats, sure: Floats, bound: Bound) -> Floats:
    """A bound: amount * (1 + m / c) ^ e; c = 0 makes the factor 0 or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return clamp(amounts * power(1.0 + bound.multiplier / sure, bound.exponent))


def estimate_cpu(usage: Usage, rows: Indices, siblings: Floats, settings: VerticalSettings) -> Estimate:
    """Millicores for these aggregates; `siblings`: how many containers share each one's pod."""
    shares = (settings.lower_cpu_percentile, settings.target_cpu_percentile, settings.upper_cpu_percentile)
    found = usage.cpu.percentiles(rows, shares)
    sure = confidence(*history(usage, rows), settings.cpu_confidence)
    minimum = clamp(settings.pod_minimum_cpu * MILLI / siblings)
    return _estimate([cores * MILLI for cores in found], found, sure, (minimum, settings.margin))


def estimate_memory(usage: Usage, rows: Indices, siblings: Floats, settings: VerticalSettings) -> Estimate:
    """Bytes for these aggregates. Confidence rests on CPU samples here too, as upstream's does."""
    shares = (settings.lower_memory_percentile, settings.target_memory_percentile, settings.upper_memory_percentile)
    found = usage.memory.percentiles(rows, shares)
    sure = confidence(*history(usage, rows), settings.memory_confidence)
    minimum = clamp(settings.pod_minimum_memory / siblings)
    return _estimate(found, found, sure, (minimum, settings.margin))


def history(usage: Usage, rows: Indices) -> tuple[Floats, Floats, Floats]:
    """First and last time and count of the CPU samples."""
    aggregates = usage.aggregates
    return aggregates.floats("first")[rows], aggregates.floats("last")[rows], aggregates["count"][rows].astype(np.float64)


def _estimate(amounts: list[Floats], found: list[Floats], sure: Floats, floor: tuple[Floats, float]) -> Estimate:
    """The chain from inside out: percentile -> margin -> confidence -> minimum."""
    minimum, margin = floor
    lower, target, upper = (with_margin(clamp(amount), margin) for amount in amounts)
    return Estimate(
        percentiles=(found[0], found[1], found[2]),
        confidence=sure,
        minimum=minimum,
        lower=np.maximum(with_confidence(lower, sure, LOWER), minimum),
        target=np.maximum(target, minimum),
        upper=np.maximum(with_confidence(upper, sure, UPPER), minimum),
    )
