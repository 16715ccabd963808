"""Crane's recommenders with their defaults: Replicas, IdleNode, Resource, and the estimators of its EVPA.

Resource and EVPA combine a high percentile of what the containers of one name used in all pods, plus a margin, with the need that
the last OOM kill shows. Sources: `pkg/recommendation/recommender`, `pkg/controller/evpa` and `pkg/oom` of Crane, as described in
guide/spec/ehpa.md, 7.1 and 7.3.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from agents.logic.forecast.percentile_predictor import LinearBuckets, PercentileSettings
from schemas.names import Amounts
from schemas.units import Bytes, Cores, Fraction, Seconds

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


MIB = 1 << 20
CPU_BUCKETS = LinearBuckets(100.0, 0.1)
"""Buckets for CPU, in cores."""
MEMORY_BUCKETS = LinearBuckets(104_857_600_000.0, 104_857_600.0)
"""Buckets for memory, in bytes."""
OOM_REACH = Seconds(7 * 86_400.0)
"""Older OOM kills do not count."""
OOM_LEAST = Bytes(100 * MIB)
"""An OOM kill raises memory by at least this much."""


class Estimators(StrEnum):
    """Whose rules apply: those of Crane's Resource recommender, or of its EffectiveVerticalPodAutoscaler's estimators (EVPA)."""

    RECOMMENDER = "recommender"
    EVPA = "evpa"


@dataclass(frozen=True, slots=True)
class ResourceNeeds:
    """Crane's settings. Histories are in seconds; a request off by no more than `tolerance` stays (None: no tolerance)."""

    cpu_history: Seconds = Seconds(168 * 3600.0)
    memory_history: Seconds = Seconds(168 * 3600.0)
    percentile: Fraction = Fraction(0.99)
    margin: Fraction = Fraction(0.15)
    utilization: Fraction = Fraction(1.0)
    oom_ratio: float = 1.2
    oom_priority: bool = False
    """Whether the estimate from an OOM kill replaces that of the percentile; otherwise it is only a floor."""
    tolerance: Amounts | None = None

    @property
    def cpu(self) -> PercentileSettings:
        """The predictor of CPU, in cores."""
        return self._predictor(self.cpu_history, CPU_BUCKETS)

    @property
    def memory(self) -> PercentileSettings:
        """The predictor of memory, in bytes."""
        return self._predictor(self.memory_history, MEMORY_BUCKETS)

    def _predictor(self, history: Seconds, buckets: LinearBuckets) -> PercentileSettings:
        return PercentileSettings(
            history=history, buckets=buckets, percentile=self.percentile, margin=self.margin, utilization=self.utilization
        )


NEEDS = {
    Estimators.RECOMMENDER: ResourceNeeds(),
    Estimators.EVPA: ResourceNeeds(
        Seconds(24 * 3600.0),
        Seconds(48 * 3600.0),
        oom_priority=True,
        tolerance=Amounts(Cores(0.1), Bytes(100 * MIB)),
    ),
}


@dataclass(frozen=True, slots=True)
class RecommendedResources:
    """What a container should request, and whether that differs from what it requests now."""

    target: Amounts
    changes: bool


def after_oom(requested: Bytes, ratio: float = 1.2) -> Bytes:
    """The memory, in bytes, for a container that was killed at this request: `ratio` times as much, and at least 100 MiB more."""
    return Bytes(max(requested + OOM_LEAST, math.trunc(requested * ratio)))


def recommend(
    estimates: tuple[float, float],
    request: Amounts,
    killed_at: Bytes | None,
    needs: ResourceNeeds,
    sizes: Sequence[Amounts] = (),
) -> RecommendedResources | None:
    """The recommendation for estimates of CPU (cores) and memory (bytes); None if too little is known.

    `killed_at` is the request at which an OOM kill of the last seven days happened. `sizes`: take the smallest that holds both.
    """
    if not all(math.isfinite(estimate) for estimate in estimates):
        return None
    cpu, memory = Cores(math.trunc(1000 * estimates[0]) / 1000), math.trunc(estimates[1])
    if memory <= 0:
        return None
    if killed_at is not None:
        floor = after_oom(killed_at, needs.oom_ratio)
        # The EVPA prefers the need that the kill shows, even where the percentile is higher; the recommender takes it for a
        # floor.
        memory = floor if needs.oom_priority else max(memory, floor)
    target = normalised(Amounts(cpu, Bytes(memory)), sizes)
    if needs.tolerance is not None and _near(target, request, needs.tolerance):
        target = request
    return RecommendedResources(target, target != request)


def normalised(wanted: Amounts, sizes: Sequence[Amounts]) -> Amounts:
    """The smallest size, by CPU and then memory, that holds at least the wanted amounts; the wanted amounts if none does."""
    fits = [size for size in sizes if (size.cpu or 0) >= (wanted.cpu or 0) and (size.memory or 0) >= (wanted.memory or 0)]
    return min(fits, key=lambda size: (size.cpu or 0, size.memory or 0), default=wanted)


def sizes_of(text: str) -> tuple[Amounts, ...]:
    """The sizes in a text such as `0.25c0.25g,1c2g`, in cores and GiB. Raises ValueError for any other text."""
    return tuple(_size(part.strip()) for part in text.split(",") if part.strip())


def _size(text: str) -> Amounts:
    cpu, c, memory = text.partition("c")
    try:
        cores, gib = float(cpu), float(memory.removesuffix("g"))
    except ValueError:
        cores = gib = math.nan
    if not c or not memory.endswith("g") or not (0 < cores < math.inf and 0 < gib < math.inf):
        raise ValueError(f"'{text}' is no size such as '1c2g', cores and GiB")
    return Amounts(Cores(cores), Bytes(round(gib * (1 << 30))))


def _near(target: Amounts, request: Amounts, tolerance: Amounts) -> bool:
    """Whether CPU and memory are set on both sides and differ by no more than the tolerance."""
    if target.cpu is None or request.cpu is None or target.memory is None or request.memory is None:
        return False
    cpu, memory = abs(target.cpu - request.cpu), abs(target.memory - request.memory)
    # A difference of 0.1 cores is a little more than 0.1 in floats, and still within a tolerance of 0.1.
    return round(cpu, 9) <= (tolerance.cpu or 0) and memory <= (tolerance.memory or 0)
