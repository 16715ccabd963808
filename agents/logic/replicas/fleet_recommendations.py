"""How many replicas a workload needs for its past and forecast usage, and which nodes nobody needs.

Crane's recommenders Replicas and IdleNode (pkg/recommendation/recommender/replicas and idlenode), with their defaults.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.names import Amounts
from schemas.units import Fraction

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReplicaNeeds:
    """Crane's settings of the recommender."""

    least: int = 1
    """Skip a workload with fewer pods, and never recommend fewer."""
    ready: Fraction = Fraction(0.5)
    """Share of the pods that must be ready."""
    percentile: Fraction = Fraction(0.95)
    """The percentile of the totals over time, as a share."""
    utilization: Fraction = Fraction(0.5)
    """Share of its request that a pod should use."""


@dataclass(frozen=True, slots=True)
class RecommendedReplicas:
    """The replicas needed. `cpu` and `memory`: percentiles of the totals, in cores and bytes; `by`: what needs most."""

    replicas: int
    by: str
    cpu: float
    memory: float


def replicas(cpu: Floats, memory: Floats, request: Amounts, needs: ReplicaNeeds) -> RecommendedReplicas | None:
    """The replicas for totals of all pods over time (cores and bytes) and one pod's requests; None without a total or a request.

    The resource that needs more decides: its percentile over what one pod should use, rounded up.
    """
    # A single NaN would spoil the percentile.
    cpu, memory = cpu[np.isfinite(cpu)], memory[np.isfinite(memory)]
    counts = {}
    for name, totals, amount in (("cpu", cpu, request.cpu), ("memory", memory, request.memory)):
        if len(totals) and amount:
            wanted = _percentile(totals, needs) / (needs.utilization * amount)
            if math.isfinite(wanted):
                counts[name] = math.ceil(wanted)
    if not counts:
        return None
    by = max(counts, key=lambda name: counts[name])
    return RecommendedReplicas(max(needs.least, counts[by]), by, _percentile(cpu, needs), _percentile(memory, needs))


def idle(owners: Iterable[str]) -> bool:
    """Whether nobody needs a node: DaemonSets control all its pods. `owners` are the kinds of the pods' controllers."""
    return all(kind == "DaemonSet" for kind in owners)


def _percentile(totals: Floats, needs: ReplicaNeeds) -> float:
    """The smallest total that is at least as large as this share of all totals; 0 if there are none."""
    if not len(totals):
        return 0.0
    return float(np.sort(totals)[max(0, math.ceil(needs.percentile * len(totals)) - 1)])
