"""Applies a policy written as code in place of the built-in estimator: the same evidence in, the policy's amounts out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import Floats, Indices
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.usage.histograms import Histograms
from agents.logic.vertical.aggregated_usage import AggregateSum, added
from agents.logic.vertical.estimate_rules import MILLI, Estimate, clamp
from agents.logic.vertical.policy_code import (
    CodePolicy,
    EvidenceColumns,
    HistogramColumns,
    PolicyFault,
    PolicyState,
    RecommendedColumns,
    answer,
)
from schemas.times import NEVER

_BLOCK = 1024
"""Containers that a policy sees at once; bounds the room that dense histograms take."""
_BOUNDS = ("lower", "target", "upper")
_ERROR = 5e-7
"""Millicores or bytes by which rounding errors may be off."""


@dataclass(frozen=True, slots=True)
class JudgedContainers:
    """Containers in one order, with their history and what the built-in estimator says of them.

    `single`: the row of the only aggregate of each, or -1 and then `parts` gives the rows of all.
    """

    single: Indices
    parts: Callable[[int], Sequence[int]]
    history: tuple[Floats, Floats, Floats]
    """Times of the first and the last sample, and how many there were."""
    minimum: Floats
    """(2, n) The least millicores and bytes."""
    estimates: Callable[[], tuple[Estimate, Estimate]]
    """CPU and memory; made when they are asked for, as most of what a policy is shown does not need them."""
    in_place: NDArray[np.bool_]


def overruled(
    usage: ContainerUsage, of: JudgedContainers, policy: CodePolicy, state: PolicyState, places: Indices
) -> tuple[Estimate, Estimate, str]:
    """CPU and memory with the policy's amounts at these places, and why it failed ("" if it did not: then all stays).

    `state` is what the policy remembers of the containers at `places`. Raises PolicyFault for a strict policy.
    """
    cpu, memory = of.estimates()
    if not len(places):
        return cpu, memory, ""
    blocks = range(0, len(places), _BLOCK)
    parts = [state] if len(blocks) == 1 else [state.part(np.arange(begin, min(begin + _BLOCK, len(places)))) for begin in blocks]
    try:
        answers = [
            answer(policy, seen(usage, of, places[begin : begin + _BLOCK]), part)
            for begin, part in zip(blocks, parts, strict=True)
        ]
    except PolicyFault as fault:
        # `adaptive` is ours: a fault of it is a fault of the program, which must not hide behind the built-in estimator.
        if policy.strict:
            raise
        return cpu, memory, str(fault)
    amounts = answers[0] if len(answers) == 1 else np.concatenate(answers, axis=1)
    amounts[:3] *= MILLI
    amounts = _whole(amounts)
    return _with(cpu, places, amounts[:3]), _with(memory, places, amounts[3:]), ""


def _with(before: Estimate, places: Indices, amounts: Floats) -> Estimate:
    """An estimate with other lower bounds, targets and upper bounds at these places."""
    bounds = np.array([before.lower, before.target, before.upper])
    bounds[:, places] = amounts
    return replace(before, lower=bounds[0], target=bounds[1], upper=bounds[2])


def _whole(amounts: Floats) -> Floats:
    """Whole millicores or bytes; NaN stays. A value just below the next one by a rounding error becomes that one."""
    whole = np.rint(amounts)  # and not `round` to a digit, which multiplies and so changes large whole amounts, too
    return np.where(np.isnan(amounts), np.nan, clamp(np.where(np.abs(amounts - whole) <= _ERROR, whole, amounts)))


def seen(usage: ContainerUsage, of: JudgedContainers, places: Indices) -> EvidenceColumns:
    """What a policy sees of the containers at these places. All but its history is read when it is asked for."""
    single = of.single[places]
    lists = _Lists(usage, of, places)
    first, last, samples = (column[places] for column in of.history)
    columns = EvidenceColumns(
        cpu=_histograms(usage.cpu, single, lists, "cpu"),
        memory=_histograms(usage.memory, single, lists, "memory"),
        peaks=lambda: _recent_peaks(usage, lists.rows),
        first=np.where(first == NEVER, np.nan, first),
        last=np.where(last == NEVER, np.nan, last),
        samples=samples,
        estimated=lambda: _builtin(of, places),
        least_cpu=of.minimum[0, places] / MILLI,
        least_memory=of.minimum[1, places],
        in_place=of.in_place[places],
    )
    _freeze(columns)
    return columns


class _Lists:
    """The aggregates of some containers, and the sums of those that have several; found when they are asked for."""

    def __init__(self, usage: ContainerUsage, of: JudgedContainers, places: Indices) -> None:
        self._usage, self._of, self._places = usage, of, places

    @cached_property
    def rows(self) -> Sequence[Sequence[int]]:
        """The rows of the aggregates of each container."""
        single = self._of.single[self._places].tolist()
        return [
            [row] if row >= 0 else list(self._of.parts(place)) for place, row in zip(self._places.tolist(), single, strict=True)
        ]

    @cached_property
    def sums(self) -> tuple[AggregateSum, Indices]:
        """Of containers with several, in order."""
        return added(self._usage, [rows for rows, row in zip(self.rows, self._of.single[self._places], strict=True) if row < 0])


def _histograms(own: Histograms, single: Indices, lists: _Lists, resource: str) -> HistogramColumns:
    def weights() -> Floats:
        block, alone, several = np.zeros((len(single), own.width)), single >= 0, single < 0
        block[alone] = _weights(own, single[alone])
        if several.any():
            total, rows = lists.sums
            block[several] = _weights(getattr(total, resource), rows)
        return block

    def percentile(share: float) -> Floats:
        percentiles, alone, several = np.zeros(len(single)), single >= 0, single < 0
        percentiles[alone] = own.percentiles(single[alone], [share])[0]
        if several.any():
            total, rows = lists.sums
            summed: Histograms = getattr(total, resource)
            percentiles[several] = summed.percentiles(rows, [share])[0]
        return percentiles

    return HistogramColumns(own.scale.starts.copy(), weights, percentile)


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
    wanted = np.array([row for rows in lists for row in rows], np.int64)
    peaks = np.zeros(int(max(aggregates.max(initial=0), wanted.max(initial=0))) + 1)
    # The highest of all pods that share an aggregate.
    np.maximum.at(peaks, aggregates[linked], usage.containers.floats("peak")[used][linked])
    return np.array([peaks[list(rows)].max(initial=0.0) for rows in lists])


def _builtin(of: JudgedContainers, places: Indices) -> RecommendedColumns:
    cpu, memory = of.estimates()
    return RecommendedColumns(
        *(getattr(cpu, bound)[places] / MILLI for bound in _BOUNDS), *(getattr(memory, bound)[places].copy() for bound in _BOUNDS)
    )


def _freeze(columns: EvidenceColumns) -> None:
    """Make arrays read-only."""
    # A policy that writes into them would change what the next container sees.
    arrays = [columns.cpu.starts, columns.memory.starts, columns.first, columns.last, columns.samples]
    arrays += [columns.least_cpu, columns.least_memory]
    columns.in_place.flags.writeable = False
    for array in arrays:
        array.flags.writeable = False
