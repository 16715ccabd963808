"""The built-in rule, which is the Vertical Pod Autoscaler's, as a policy: a start for a rule of your own.

It is percentile, margin, confidence and minimum at their default settings, and decides what the estimator within Ullage decides,
to the last byte; a test holds both together. Try it: `ullage backtest FILE --policy examples/built_in_rule.py`.
"""

import numpy as np

from agents.logic.vertical.policy_code import EvidenceColumns, Floats, HistogramColumns, RecommendedColumns

DAY = 86_400.0
"""Seconds after which a bound is believed, if a sample came each minute."""
SHARES = (0.5, 0.9, 0.95)
"""Of the time, or of memory's peaks, that lower bound, target and upper bound cover."""
MARGIN = 0.15


def recommend(usage: EvidenceColumns) -> RecommendedColumns:
    """CPU in whole millicores, memory in whole bytes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sure = np.fmin((usage.last - usage.first) / DAY, usage.samples / 1440.0)
        narrow, wide = 1.0 + 0.001 / sure, 1.0 + 1.0 / sure
        spread = (1.0 / (narrow * narrow), np.ones(len(sure)), wide)
        cpu = _amounts(usage.cpu, spread, unit=0.001)
        memory = _amounts(usage.memory, spread, unit=1.0)
    return RecommendedColumns(
        *(np.maximum(amount, usage.least_cpu) for amount in cpu), *(np.maximum(amount, usage.least_memory) for amount in memory)
    )


def _amounts(of: HistogramColumns, spread: tuple[Floats, ...], *, unit: float) -> list[Floats]:
    """Lower bound, target and upper bound. Each step leaves whole units, as upstream's whole numbers do."""
    found = []
    for share, factor in zip(SHARES, spread, strict=True):
        amount = _whole(of.percentile(share) / unit)
        found.append(_whole((amount + _whole(amount * MARGIN)) * factor) * unit)
    return found


def _whole(amount: Floats) -> Floats:
    return np.minimum(np.fmax(np.trunc(amount), 0.0), 1e14)
