"""Policies beside one another: each scored by workload, and the difference between two of them with its uncertainty.

A comparison is paired: the same workloads over the same recording, so that what differs between workloads cancels out. Its
uncertainty is that of the choice of workloads: a bootstrap draws as many workloads with replacement and sums again (Efron and
Tibshirani, An Introduction to the Bootstrap, chapter 13, percentile intervals).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from agents.backtest.price_list import GIB, PriceList
from agents.backtest.score_card import ScoreCard
from agents.backtest.workload_sums import ResourceTotal, WorkloadTotal

DRAWS = 2_000
# so many draws at a time, because a draw has a number for each workload
_AT_ONCE = 50
_SEED = 1
_COVERED = 0.95
FEW = 5
"""With fewer workloads there are so few different draws that no percentile of them reaches far enough."""
_HOUR = 3600.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WorkloadFigures:
    """One workload under one policy: core-hours and GiB-hours; `over`: the share of time in which use was over the request."""

    workload: str
    containers: int
    container_hours: float
    cpu_requested: float
    cpu_used: float
    cpu_slack: float
    cpu_over: float
    memory_requested: float
    memory_used: float
    memory_slack: float
    memory_over: float
    kills: int
    changes: int
    cost: float
    """Over the whole recording, at the price list."""
    cpu_over_first_12h: float = 0.0
    """The share of the first 12 hours of each container in which CPU use was over the request."""
    first_12h_hours: float = 0.0
    """How many container hours these are."""


@dataclass(frozen=True, slots=True)
class PolicyScore:
    """One policy. `card` is None where no stage decided: for the recording's own requests, and the oracle."""

    name: str
    workloads: Mapping[str, WorkloadFigures]
    card: ScoreCard | None = None

    def total(self, field: str) -> float:
        """The sum of one figure over all workloads."""
        return float(sum(getattr(workload, field) for workload in self.workloads.values()))

    @property
    def gated_kills(self) -> int:
        """What `--max-oom` counts: those of the card where there is one."""
        return round(self.total("kills")) if self.card is None else self.card.gated_kills


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, and the ends of its 95 % interval."""

    estimate: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class PolicyDifference:
    """A policy against a baseline. Costs and slack are relative (0.1 is 10 % more), kills and changes differences of counts."""

    baseline: str
    policy: str
    cost: Interval
    cpu_slack: Interval
    memory_slack: Interval
    kills: Interval
    changes: Interval
    kills_before: float = 0.0
    """Kills under the baseline."""

    @property
    def regression(self) -> float:
        """How much worse it is at worst, in cost or in kills, as a share; infinite with kills where the baseline has none."""
        return max(self.cost.estimate, self._kills)

    @property
    def _kills(self) -> float:
        if self.kills.estimate <= 0:
            return min(0.0, self.kills.estimate / self.kills_before) if self.kills_before else 0.0
        return self.kills.estimate / self.kills_before if self.kills_before else float("inf")


def figures(
    totals: Sequence[WorkloadTotal], recorded: Mapping[str, tuple[float, float]], prices: PriceList
) -> dict[str, WorkloadFigures]:
    """By workload. `recorded`: seconds of CPU and of memory that were recorded of each workload, in which a policy is priced."""
    by_workload = {}
    for total in totals:
        cpu_seconds, memory_seconds = recorded.get(total.workload, (0.0, 0.0))
        cpu, memory = total.cpu, total.memory
        # the mean over all of the time: before the first recommendation a policy may request nothing, which must not make it
        # cheap
        cost = prices.cost(_mean(cpu.requested, cpu) * cpu_seconds, _mean(memory.requested, memory) * memory_seconds)
        cores = [_mean(amount, cpu) * cpu_seconds / _HOUR for amount in (cpu.requested, cpu.used, cpu.slack)]
        size = [_mean(amount, memory) * memory_seconds / _HOUR / GIB for amount in (memory.requested, memory.used, memory.slack)]
        by_workload[total.workload] = WorkloadFigures(
            workload=total.workload,
            containers=total.containers,
            container_hours=max(cpu_seconds, memory_seconds) / _HOUR,
            cpu_requested=cores[0],
            cpu_used=cores[1],
            cpu_slack=cores[2],
            cpu_over=_mean(cpu.over, cpu),
            memory_requested=size[0],
            memory_used=size[1],
            memory_slack=size[2],
            memory_over=_mean(memory.over, memory),
            kills=total.kills,
            changes=total.changes,
            cost=cost,
            cpu_over_first_12h=cpu.early_over / cpu.early_seconds if cpu.early_seconds else 0.0,
            first_12h_hours=cpu.early_seconds / _HOUR,
        )
    return by_workload


def difference(baseline: PolicyScore, policy: PolicyScore) -> PolicyDifference:
    """The policy against the baseline, over the workloads that both have."""
    shares = {field: relative(baseline, policy, field) for field in ("cost", "cpu_slack", "memory_slack")}
    absolute = {field: _absolute(*_shared(baseline, policy, field)) for field in ("kills", "changes")}
    kills_before = float(_shared(baseline, policy, "kills")[0].sum())
    return PolicyDifference(baseline.name, policy.name, **shares, **absolute, kills_before=kills_before)


def relative(baseline: PolicyScore, policy: PolicyScore, field: str) -> Interval:
    """By how much a figure's sum differs over the workloads that both have, as a share of the baseline's."""
    return _relative(*_shared(baseline, policy, field))


def _shared(baseline: PolicyScore, policy: PolicyScore, field: str) -> tuple[Floats, Floats]:
    """(workloads,) each: a figure of the workloads that both have, of the baseline and of the policy."""
    # in the order of one side, so that the two arrays are of the same workloads
    shared = [name for name in baseline.workloads if name in policy.workloads]
    before, after = (
        np.array([getattr(side.workloads[name], field) for name in shared], np.float64) for side in (baseline, policy)
    )
    return before, after


def _mean(amount: float, total: ResourceTotal) -> float:
    return amount / total.seconds if total.seconds else 0.0


def _relative(before: Floats, after: Floats) -> Interval:
    total = before.sum()
    if total <= 0:
        return Interval(0.0, 0.0, 0.0)
    # a draw may consist of workloads that cost nothing
    drawn = [float(after @ weights) / max(float(before @ weights), 1e-300) - 1 for weights in _draws(len(before))]
    return Interval(float(after.sum() / total - 1), *_ends(drawn, len(before)))


def _absolute(before: Floats, after: Floats) -> Interval:
    by_workload = after - before
    return Interval(
        float(by_workload.sum()), *_ends([float(by_workload @ weights) for weights in _draws(len(before))], len(before))
    )


def _draws(count: int) -> Iterator[Floats]:
    """How often each workload is drawn, for each draw."""
    # seeded, so that the same scores give the same intervals, and a gate in CI does not flicker
    chance = np.random.default_rng(_SEED)
    shares = np.full(count, 1 / max(count, 1))
    for _ in range(DRAWS // _AT_ONCE if count else 0):
        yield from chance.multinomial(count, shares, _AT_ONCE).astype(np.float64)


def _ends(drawn: Sequence[float], workloads: int) -> tuple[float, float]:
    if not drawn:
        return 0.0, 0.0
    # Percentile intervals of few workloads are too narrow, so the percentiles lie further out, the further the fewer:
    # Hesterberg, What Teachers Should Know About the Bootstrap, 2015, section 3.3, expanded percentile intervals.
    tail = 100 * _tail(workloads)
    low, high = np.percentile(np.array(drawn), (tail, 100 - tail))
    return float(low), float(high)


def _tail(workloads: int) -> float:
    """The share of draws below the interval: that beyond Student's quantile, widened by sqrt(n / (n - 1)), on a normal curve."""
    normal, freedom = NormalDist(), workloads - 1
    z = normal.inv_cdf((1 + _COVERED) / 2)
    if not freedom:
        return 0.0
    # Student's quantile as a series in 1 / freedom (Abramowitz and Stegun, 26.7.5); 0.2 % off at four degrees, less beyond
    student = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    student += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    return normal.cdf(-sqrt(workloads / freedom) * student)
