"""Bounds that a policy sets: amounts are raised to the least allowed, then lowered to the most allowed, which wins."""

import numpy as np

from agents.logic.tables.rows import Floats
from schemas.names import Amounts
from schemas.policies import ContainerPolicy


def limits_of(entry: ContainerPolicy) -> tuple[float, float, float, float]:
    """Least and most millicores, least and most bytes; NaN where nothing is set. Zero is not set, as upstream has it."""
    return (*_pair(entry.min_allowed, entry.max_allowed, "cpu"), *_pair(entry.min_allowed, entry.max_allowed, "memory"))


def _pair(least: Amounts, most: Amounts, resource: str) -> tuple[float, float]:
    scale = 1000.0 if resource == "cpu" else 1.0
    low, high = getattr(least, resource), getattr(most, resource)
    nothing = float("nan")
    return (low * scale if low else nothing, high * scale if high else nothing)


def cap(amounts: Floats, least: Floats, most: Floats) -> Floats:
    """min(max(amount, least), most), where a bound that is NaN is none."""
    return np.fmin(np.fmax(amounts, least), most)
