"""Buckets of equal width; we use none, but upstream's vectors do, and the rest of a histogram is the same."""

import math

import numpy as np

from agents.engine.tables.row_table import Floats, Indices


class Linear:
    """`width` wide, up to `maximum`."""

    def __init__(self, maximum: float, width: float, epsilon: float) -> None:
        self.epsilon, self._width = epsilon, width
        self.starts: Floats = np.arange(math.ceil(maximum / width) + 1) * width

    def find(self, values: Floats) -> Indices:
        """The bucket of each value."""
        return np.clip(values / self._width, 0, len(self.starts) - 1).astype(np.int64)
