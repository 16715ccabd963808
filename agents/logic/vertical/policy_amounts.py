"""Applies a policy written as code in place of the built-in estimator: the same evidence in, the policy's amounts out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agents.engine.tables.row_table import Floats, Indices
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.usage.histograms import Histograms
from agents.logic.vertical.aggregated_usage import Evidence, added
from agents.logic.vertical.percentile_estimation import MILLI, Estimate, clamp
from agents.logic.vertical.policy_code import (
    CodePolicy,
    EvidenceColumns,
    HistogramColumns,
    PolicyFault,
    RecommendedColumns,
    answer,
)
from schemas.times import NEVER

_BLOCK = 1024
"""Containers that a policy sees at once; bounds the room that dense histograms take."""
_BOUNDS = ("lower", "target", "upper")


@dataclass(frozen=True, slots=True)
class JudgedContainers:
    """Containers in one order, with the built-in estimator's evidence and amounts.

    `single`: the row of the only aggregate of each, or -1 and then `parts` gives the rows of all.
    """

    single: Indices
    parts: Callable[[int], Sequence[int]]
    evidence: Evidence
    cpu: Estimate
    memory: Estimate


def overruled(usage: ContainerUsage, of: JudgedContainers, policy: CodePolicy) -> tuple[Estimate, Estimate, str]:
    """CPU and memory by the policy, and why it failed ("" if it did not); then they are the built-in estimator's.

    Raises PolicyFault for a strict policy.
    """
    blocks = [np.arange(start, min(start + _BLOCK, len(of.single))) for start in range(0, len(of.single), _BLOCK)]
    try:
        found = [answer(policy, seen(usage, of, places)) for places in blocks]
    except PolicyFault as fault:
        if policy.strict:
            raise
        return of.cpu, of.memory, str(fault)

    def column(name: str) -> Floats:
        return np.concatenate([getattr(each, name) for each in found])

    cpu = [_amounts(column(f"{bound}_cpu") * MILLI) for bound in _BOUNDS]
    memory = [_amounts(column(f"{bound}_memory")) for bound in _BOUNDS]
    return (
        replace(of.cpu, lower=cpu[0], target=cpu[1], upper=cpu[2]),
        replace(of.memory, lower=memory[0], target=memory[1], upper=memory[2]),
        "",
    )


def _amounts(amounts: Floats) -> Floats:
    """Whole millicores or bytes; NaN stays. A value just below the next one by a rounding error becomes that one."""
    return np.where(np.isnan(amounts), np.nan, clamp(np.round(amounts, 6)))


def seen(usage: ContainerUsage, of: JudgedContainers, places: Indices) -> EvidenceColumns:
    """What a policy sees of the containers at these places."""
    lists = [[int(row)] if row >= 0 else list(of.parts(int(place))) for place, row in zip(places, of.single[places], strict=True)]
    single = of.single[places]
    many = np.flatnonzero(single < 0)
    total, rows = added(usage, [lists[place] for place in many.tolist()])
    first = of.evidence.first[places]
    columns = EvidenceColumns(
        cpu=_histograms(usage.cpu, single, total.cpu, rows),
        memory=_histograms(usage.memory, single, total.memory, rows),
        recent_peak=_recent_peaks(usage, lists),
        first=np.where(first == NEVER, np.nan, first),
        last=np.where(of.evidence.last[places] == NEVER, np.nan, of.evidence.last[places]),
        samples=of.evidence.count[places],
        builtin=_builtin(of, places),
    )
    _freeze(columns)
    return columns


def _histograms(own: Histograms, single: Indices, total: Histograms, rows: Indices) -> HistogramColumns:
    weights = np.zeros((len(single), own.width))
    one, many = np.flatnonzero(single >= 0), np.flatnonzero(single < 0)
    weights[one] = _weights(own, single[one])
    weights[many] = _weights(total, rows)
    return HistogramColumns(own.scale.starts.copy(), weights)


def _weights(histograms: Histograms, rows: Indices) -> Floats:
    """Buckets outside the ends weigh next to nothing, and percentiles leave them out."""
    block = histograms.weights.dense(rows)
    index = np.arange(histograms.width)
    outside = (index < histograms.low[rows].astype(np.int64)[:, None]) | (index > histograms.high[rows].astype(np.int64)[:, None])
    return np.where(outside, 0.0, block)


def _recent_peaks(usage: ContainerUsage, lists: Sequence[Sequence[int]]) -> Floats:
    used = usage.containers.used()
    aggregates = usage.containers.whole("aggregate")[used]
    linked = aggregates >= 0
    known = np.array([row for rows in lists for row in rows], np.int64)
    peaks = np.zeros(int(max(aggregates.max(initial=0), known.max(initial=0))) + 1)
    np.maximum.at(peaks, aggregates[linked], usage.containers.floats("peak")[used][linked])
    return np.array([peaks[list(rows)].max(initial=0.0) for rows in lists])


def _builtin(of: JudgedContainers, places: Indices) -> RecommendedColumns:
    cpu = [getattr(of.cpu, bound)[places] / MILLI for bound in _BOUNDS]
    memory = [getattr(of.memory, bound)[places].copy() for bound in _BOUNDS]
    return RecommendedColumns(*cpu, *memory)


def _freeze(columns: EvidenceColumns) -> None:
    """Make arrays read-only, because a policy that writes into them would change what the next container sees."""
    histograms = (columns.cpu, columns.memory)
    arrays = [array for each in histograms for array in (each.starts, each.weights)]
    arrays += [columns.recent_peak, columns.first, columns.last, columns.samples]
    for array in (*arrays, *(array for _, array in columns.builtin.columns())):
        array.flags.writeable = False
