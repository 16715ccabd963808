"""How many replicas a workload needs for what it used and will use, and which nodes nobody needs.

Crane's recommenders Replicas and IdleNode (pkg/recommendation/recommender/replicas and idlenode), with their defaults.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.names import Amounts
from schemas.units import Fraction

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReplicaNeeds:
    """Crane's settings of the recommender."""

    least: int = 1
    """A workload with fewer pods is passed over, and no fewer are recommended."""
    ready: Fraction = Fraction(0.5)
    """Share of the pods that must be ready."""
    percentile: Fraction = Fraction(0.95)
    """Of the totals, over time."""
    utilization: Fraction = Fraction(0.5)
    """Share of its request that a pod is to use."""


@dataclass(frozen=True, slots=True)
class RecommendedReplicas:
    """So many replicas. `cpu` and `memory`: the percentiles of the totals, in cores and bytes; `by`: what asks for most."""

    replicas: int
    by: str
    cpu: float
    memory: float


def replicas(cpu: Floats, memory: Floats, request: Amounts, needs: ReplicaNeeds) -> RecommendedReplicas | None:
    """For totals of all pods over time, in cores and bytes, and the requests of one pod; None without a total or a request.

    A total that is no finite number is none.

    The larger of both resources: the percentile over what one pod is to use, rounded up.
    """
    cpu, memory = cpu[np.isfinite(cpu)], memory[np.isfinite(memory)]
    found = {}
    for name, totals, each in (("cpu", cpu, request.cpu), ("memory", memory, request.memory)):
        if len(totals) and each:
            wanted = _percentile(totals, needs) / (needs.utilization * each)
            if math.isfinite(wanted):
                found[name] = math.ceil(wanted)
    if not found:
        return None
    by = max(found, key=lambda name: found[name])
    return RecommendedReplicas(max(needs.least, found[by]), by, _percentile(cpu, needs), _percentile(memory, needs))


def idle(owners: Iterable[str]) -> bool:
    """Whether a node may go: the kinds of the controllers of its pods are all DaemonSets."""
    return all(kind == "DaemonSet" for kind in owners)


def _percentile(totals: Floats, needs: ReplicaNeeds) -> float:
    """The smallest total that at least this share of the totals does not exceed; 0 without any."""
    if not len(totals):
        return 0.0
    return float(np.sort(totals)[max(0, math.ceil(needs.percentile * len(totals)) - 1)])
