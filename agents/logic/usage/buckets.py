"""The buckets of a histogram: where each starts and which one a value falls into. Upstream's options, upstream's rounding."""

import math
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

EPSILON = 0.0001
"""A bucket that weighs less counts as empty when the ends of a histogram are sought."""


class Buckets(Protocol):
    """How values are put into buckets."""

    starts: NDArray[np.float64]
    epsilon: float

    def find(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The bucket of each value."""
        ...


class ExponentialBuckets:
    """Buckets that grow by `ratio`: start(n) = first * (ratio^n - 1) / (ratio - 1); the last one takes all above `maximum`."""

    def __init__(self, maximum: float, first: float, ratio: float = 1.05, epsilon: float = EPSILON) -> None:
        self.epsilon = epsilon
        self._first, self._growth, self._log = first, ratio - 1.0, math.log(ratio)
        self.starts = _starts(maximum, first, ratio)

    def find(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """index(v) = ln(v * (ratio - 1) / first + 1) / ln(ratio), cut to a whole number and to the range there is."""
        positive = np.maximum(values, 0.0)
        indices = (np.log(positive * self._growth / self._first + 1.0) / self._log).astype(np.int64)
        # Where the second bucket starts both logarithms are the same, so it is 1. But numpy's vector instructions differ from the
        # library's by a bit on some processors, and would put 10 millicores, say, into the first bucket there.
        indices = np.where(values < self._first, 0, np.maximum(indices, 1))
        return np.minimum(indices, len(self.starts) - 1)


@lru_cache(maxsize=64)
def _starts(maximum: float, first: float, ratio: float) -> NDArray[np.float64]:
    # Upstream's newExponentialHistogramOptions (pkg/recommender/util/histogram_options.go) counts the buckets like this.
    count = math.ceil(math.log(maximum * (ratio - 1.0) / first + 1.0) / math.log(ratio)) + 1
    return first * (powers(ratio, count) - 1.0) / (ratio - 1.0)


def powers(base: float, count: int) -> NDArray[np.float64]:
    """base^0, base^1, ... for a positive finite base, in one pass over the exponents' bits; to the bit what `power` gives."""
    exponents = np.arange(count)
    mantissa, scale = math.frexp(base)
    result, power_of_two = np.ones(count), np.zeros(count, np.int32)
    for bit in range(max(0, count - 1).bit_length()):
        taking = (exponents >> bit & 1).astype(np.bool_)
        result[taking] *= mantissa
        power_of_two[taking] += scale
        mantissa, scale = mantissa * mantissa, scale * 2
        if mantissa < 0.5:  # noqa: PLR2004  # frexp keeps mantissas in [0.5, 1)
            mantissa, scale = mantissa * 2, scale - 1
    return np.ldexp(result, power_of_two)


def cpu_buckets(growth: float) -> ExponentialBuckets:
    """Cores: with upstream's growth of 0.05 there are 176 buckets, the first of 10 millicores."""
    return ExponentialBuckets(maximum=1000.0, first=0.01, ratio=1.0 + growth)


def memory_buckets(growth: float) -> ExponentialBuckets:
    """Bytes: with upstream's growth of 0.05 there are 176 buckets, the first of 10 MB."""
    return ExponentialBuckets(maximum=1e12, first=1e7, ratio=1.0 + growth)


_LOWER = -2
"""Upstream's exponent of the lower bound, which every recommendation needs."""
_FINE = 1e-290
"""Squares above it keep all their bits."""


def power(base: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """base^exponent, element by element, for positive bases (infinity included) and whole exponents."""
    if exponent == 0:
        return np.ones_like(base)
    if exponent == 1:
        return base
    if exponent == _LOWER and base.size:
        with np.errstate(over="ignore", under="ignore"):
            square = base * base
        if square.min() > _FINE and square.max() < np.inf:
            return 1.0 / square  # the same bits: nothing is lost below or above
    finite = np.isfinite(base)
    # Go's math.Pow multiplies mantissas by squaring and adds exponents; the C library's pow differs from it in the last bit.
    mantissa, scale = np.frexp(np.where(finite, base, 1.0))
    result, power_of_two = np.ones_like(mantissa), np.zeros_like(scale)
    remaining = abs(exponent)
    while remaining:
        if remaining & 1:
            result, power_of_two = result * mantissa, power_of_two + scale
        remaining >>= 1
        if remaining:
            mantissa, scale = mantissa * mantissa, scale * 2
            small = mantissa < 0.5  # noqa: PLR2004  # frexp keeps mantissas in [0.5, 1)
            mantissa, scale = np.where(small, mantissa * 2, mantissa), scale - small
    if exponent < 0:
        result, power_of_two = 1.0 / result, -power_of_two
    return np.where(finite, np.ldexp(result, power_of_two), 0.0 if exponent < 0 else np.inf)
