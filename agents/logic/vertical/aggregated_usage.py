"""The usage of container names: that of one aggregate, or the sum of all aggregates of a name.

Upstream adds up all pods' label sets at each recommendation. A VPA's checkpoints are such sums, too: they have all usage that
belongs to the VPA, including containers with mode Off, without the peaks of running windows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from agents.engine.tables.row_table import Floats, Indices, RowTable
from agents.logic.usage import histogram_checkpoints
from agents.logic.usage.buckets import cpu_buckets, memory_buckets
from agents.logic.usage.container_usage import ContainerUsage, aggregate_columns
from agents.logic.usage.histograms import Histograms
from agents.logic.vertical.container_index import ContainerIndex, MemberSelection
from agents.logic.vertical.usage_ingest import UsageIngest
from schemas.facts.usage import CheckpointSeen
from schemas.names import Workload
from schemas.times import NEVER

_MANY = 16
"""More aggregates of one name are added up by themselves; fewer together with those of other names."""

REACHED = (0.1, 0.01)
"""Shares of the time, or of memory's daily peaks, of which a decision says how much was used in them, or more.

Old samples lose weight: of a peak each day, one that is six days old still counts at the smaller share.
"""
_SHARES = tuple(1.0 - share + 1e-6 for share in REACHED)
"""As percentiles, beside those at which one of ten or of a hundred equal samples lies, where rounding alone would decide."""

LevelParts = Sequence[Sequence[int]]
"""For each container name the rows of its aggregates, in the order in which they are added."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Containers in one order; percentiles are lower, target, upper, in cores and in bytes."""

    cpu: list[Floats]
    memory: list[Floats]
    first: Floats
    last: Floats
    count: Floats
    peaks: Floats
    """The weight of all memory peaks."""
    reached: tuple[list[Floats], list[Floats]]
    """Cores, and bytes, that were used in each of the shares REACHED, as the ends of buckets."""


def gather(usage: ContainerUsage, these: MemberSelection, parts: Callable[[int], Sequence[int]]) -> Evidence:
    """The evidence for each member. `parts` gives the rows of the aggregates of one that has several, by its place."""
    single, shares = these.single, np.column_stack([these.rules[:, :6], np.full((len(these.rules), len(_SHARES)), _SHARES)])
    # Most names have one aggregate, which is read in place.
    if these.all_single:
        return _read(usage, single, shares, usage.memory_percentiles.find(single, shares[:, 3:]))
    alone, summed = np.flatnonzero(single >= 0), np.flatnonzero(single < 0)
    total, rows = added(usage, [parts(place) for place in summed.tolist()])
    evidence = [
        _read(usage, single[alone], shares[alone], usage.memory_percentiles.find(single[alone], shares[alone, 3:])),
        _read(total, rows, shares[summed], total.memory.percentiles(rows, list(shares[summed, 3:].T))),
    ]
    # Back into the order of the members.
    order = np.argsort(np.concatenate([alone, summed]), kind="stable")
    return _joined(evidence, order)


def _read(usage: "ContainerUsage | AggregateSum", rows: Indices, shares: Floats, memory: list[Floats]) -> Evidence:
    """The evidence in these rows, of which memory's percentiles are known."""
    cpu = usage.cpu.percentiles(rows, [*shares[:, :3].T, *_SHARES])
    first, last, count = history_of(usage, rows)
    return Evidence(
        cpu=cpu[:3],
        memory=memory[:3],
        reached=(cpu[3:], memory[3:]),
        first=first,
        last=last,
        count=count,
        peaks=usage.memory.total[rows],
    )


def history_of(usage: "ContainerUsage | AggregateSum", rows: Indices) -> tuple[Floats, Floats, Floats]:
    """Times of the first and the last sample of CPU in these rows, and how many there were."""
    columns = usage.aggregates
    return columns.floats("first")[rows], columns.floats("last")[rows], columns["count"][rows].astype(np.float64)


@dataclass(frozen=True, slots=True)
class AggregateSum:
    """Temporary aggregates."""

    aggregates: RowTable
    cpu: Histograms
    memory: Histograms


def added(usage: ContainerUsage, parts: LevelParts) -> tuple[AggregateSum, Indices]:
    """One new aggregate for each element of `parts`, and their rows. An element with no rows is empty."""
    rows = RowTable("sums", aggregate_columns(usage.settings))
    rows.reserve(len(parts))
    growth = usage.settings.growth
    total = AggregateSum(rows, Histograms(rows, "cpu", cpu_buckets(growth)), Histograms(rows, "memory", memory_buckets(growth)))
    for into, part in enumerate(parts):
        if len(part) > _MANY:
            _add_all(usage, np.array(part, np.int64), total, into)
    # Layer by layer: the first aggregate of each name, then the second, which adds up as many names at once as there are.
    few = [part if len(part) <= _MANY else () for part in parts]
    for layer in range(max((len(part) for part in few), default=0)):
        into_all = np.array([i for i, part in enumerate(few) if len(part) > layer], np.int64)
        _add(usage, np.array([few[i][layer] for i in into_all.tolist()], np.int64), total, into_all)
    return total, np.arange(len(parts))


def _add_all(usage: ContainerUsage, others: Indices, total: AggregateSum, into: int) -> None:
    """As `_add` with each of these aggregates in turn."""
    for mine, theirs in ((total.cpu, usage.cpu), (total.memory, usage.memory)):
        # All aggregates of a name are folded by one policy, so their half lives are equal.
        mine.half_life[into] = theirs.half_life[others[-1]]
        mine.absorb_all(into, theirs, others)
    columns = usage.aggregates
    first = columns.floats("first")[others]
    total.aggregates.floats("first")[into] = first[first != NEVER].min() if (first != NEVER).any() else NEVER
    total.aggregates.floats("last")[into] = columns.floats("last")[others].max()
    total.aggregates.whole("count")[into] = columns.whole("count")[others].sum()


def _add(usage: ContainerUsage, others: Indices, total: AggregateSum, into: Indices) -> None:
    """Histograms add up; the first sample is the earliest there is, the last the latest."""
    for mine, theirs in ((total.cpu, usage.cpu), (total.memory, usage.memory)):
        mine.half_life[into] = theirs.half_life[others]
        mine.absorb(into, theirs, others)
    columns = usage.aggregates
    first, earlier = total.aggregates.floats("first"), columns.floats("first")[others]
    earliest = (first[into] != NEVER) & ((earlier == NEVER) | (first[into] <= earlier))
    first[into] = np.where(earliest, first[into], earlier)
    last = total.aggregates.floats("last")
    last[into] = np.maximum(last[into], columns.floats("last")[others])
    total.aggregates.whole("count")[into] += columns.whole("count")[others]


def _joined(evidence: Sequence[Evidence], order: Indices) -> Evidence:
    def join(parts: Sequence[Floats]) -> Floats:
        return np.concatenate(parts)[order]

    def reached(resource: int) -> list[Floats]:
        return [join([part.reached[resource][i] for part in evidence]) for i in range(len(REACHED))]

    return Evidence(
        cpu=[join([part.cpu[i] for part in evidence]) for i in range(3)],
        memory=[join([part.memory[i] for part in evidence]) for i in range(3)],
        first=join([part.first for part in evidence]),
        last=join([part.last for part in evidence]),
        count=join([part.count for part in evidence]),
        peaks=join([part.peaks for part in evidence]),
        reached=(reached(0), reached(1)),
    )


def export(intake: UsageIngest, members: ContainerIndex, workload: Workload, at: datetime) -> tuple[CheckpointSeen, ...]:
    """The checkpoints of a workload's VPA, sorted by container; none where it has no VPA that is ours."""
    governing = intake.policies.of(workload.key)
    if governing is None or governing.policy.vpa is None or governing.policy.foreign:
        return ()
    containers = members.containers(workload.key)
    about = workload, governing.policy.vpa.name
    return tuple(_checkpoint(intake, members.rows(member), (*about, name), at) for name, member in containers)


def _checkpoint(intake: UsageIngest, parts: Sequence[int], name: tuple[Workload, str, str], at: datetime) -> CheckpointSeen:
    usage = intake.usage
    rows = np.array(parts, np.int64)
    total, (row,) = added(usage, [parts])
    used = usage.containers.used()
    live = used[np.isin(usage.containers["aggregate"][used], rows)]
    # A peak of a running window is not final: upstream's recommender would count it a second time when the window ends.
    histogram_checkpoints.take_running_peaks(usage, total.memory, int(row), live, at.timestamp())
    numbers = total.aggregates
    return CheckpointSeen(
        at,
        *name,
        version=histogram_checkpoints.VERSION,
        first=numbers.floats("first").item(row),
        last=numbers.floats("last").item(row),
        count=numbers.whole("count").item(row),
        cpu=histogram_checkpoints.saved(total.cpu, int(row)),
        memory=histogram_checkpoints.saved(total.memory, int(row)),
    )
