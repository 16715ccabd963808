"""Rings: the last hours or days of each container, each at the place of its number, NaN where nothing was seen."""

import numpy as np
from numpy.typing import NDArray

F4 = np.float32
Singles = NDArray[np.floating]
"""Numbers in half the size; a container's experts have hundreds."""
Wholes = NDArray[np.signedinteger]


def put(ring: Singles, before: Wholes, now: Wholes, highest: Singles) -> Singles:
    """(n, size) A ring in which `highest` stands for the hour or day `before`, and holes for those between it and `now`."""
    size, rows, ring = ring.shape[1], np.arange(len(ring)), ring.copy()
    ring[rows, before % size] = highest
    for gap in range(1, min(int((now - before).max()), size)):
        missed = np.flatnonzero(before + gap < now)
        ring[missed, (before[missed] + gap) % size] = np.nan
    ring[now - before > size] = np.nan
    return ring
