"""The buckets of a histogram: where each starts and which one a value falls into. Upstream's options, upstream's rounding."""

import math
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agents.logic.usage.go_pow import power

EPSILON = 0.0001
"""A bucket that weighs less counts as empty when the ends of a histogram are sought."""

AMOUNT_LIMIT = 1e14
"""Upstream's largest amount, of millicores and of bytes."""


class Scale(Protocol):
    """How values are put into buckets."""

    starts: NDArray[np.float64]
    epsilon: float

    def find(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The bucket of each value."""
        ...


class Exponential:
    """Buckets that grow by `ratio`: start(n) = first * (ratio^n - 1) / (ratio - 1); the last one takes all above `maximum`."""

    def __init__(self, maximum: float, first: float, ratio: float = 1.05, epsilon: float = EPSILON) -> None:
        self.epsilon = epsilon
        self._first, self._growth, self._log = first, ratio - 1.0, math.log(ratio)
        self.starts = _starts(maximum, first, ratio)

    def find(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """index(v) = ln(v * (ratio - 1) / first + 1) / ln(ratio), cut to a whole number and to the range there is."""
        positive = np.maximum(values, 0.0)
        indices = (np.log(positive * self._growth / self._first + 1.0) / self._log).astype(np.int64)
        indices[values < self._first] = 0
        return np.minimum(indices, len(self.starts) - 1)


@lru_cache(maxsize=64)
def _starts(maximum: float, first: float, ratio: float) -> NDArray[np.float64]:
    """Where the buckets start; each power one by one, as upstream takes them, so it is kept."""
    count = math.ceil(math.log(maximum * (ratio - 1.0) / first + 1.0) / math.log(ratio)) + 1
    powers = np.concatenate([power(np.array([ratio]), n) for n in range(count)])
    return first * (powers - 1.0) / (ratio - 1.0)


def cpu_scale(growth: float) -> Exponential:
    """Cores: with upstream's growth of 0.05 there are 176 buckets, the first of 10 millicores."""
    return Exponential(maximum=1000.0, first=0.01, ratio=1.0 + growth)


def memory_scale(growth: float) -> Exponential:
    """Bytes: with upstream's growth of 0.05 there are 176 buckets, the first of 10 MB."""
    return Exponential(maximum=1e12, first=1e7, ratio=1.0 + growth)
