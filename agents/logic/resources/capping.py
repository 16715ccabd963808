"""Bounds on amounts: those of a policy.

A policy's bound for a resource that it does not name comes from the settings. Amounts are raised to the least allowed, then
lowered to the most allowed, which wins.
"""

import numpy as np

from agents.engine.tables.row_table import Floats
from schemas.names import Amounts
from schemas.policies.vertical import ContainerPolicy

NOTHING = Amounts()


def limits_of(entry: ContainerPolicy, maximum: Amounts = NOTHING) -> tuple[float, float, float, float]:
    """Least and most millicores, least and most bytes; NaN where nothing is set. Zero is not set, as upstream has it."""
    least, most = entry.min_allowed, entry.max_allowed
    cpu = most.cpu if most.cpu is not None else maximum.cpu
    memory = most.memory if most.memory is not None else maximum.memory
    return (_bound(least.cpu, 1000.0), _bound(cpu, 1000.0), _bound(least.memory, 1.0), _bound(memory, 1.0))


def _bound(amount: float | None, scale: float) -> float:
    return round(amount * scale, 6) if amount else float("nan")


def cap(amounts: Floats, least: Floats, most: Floats) -> Floats:
    """min(max(amount, least), most), where a bound that is NaN is none; what is NaN stays so."""
    return np.where(np.isnan(amounts), np.nan, np.fmin(np.fmax(amounts, least), most))
