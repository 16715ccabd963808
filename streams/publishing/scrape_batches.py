"""Usage as records: rows are grouped by their workload's partition, in order, with a bounded number in one record.

Rows are sorted by workload, pod and container, so that a cluster whose containers stay the same gives the same name columns each
time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas import times
from schemas.facts.usage import MetricsScraped
from schemas.units import Seconds
from streams.codec.usage_columns import ROWS
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.topics import Topics

Floats = NDArray[np.float64]
ScrapeNames = tuple[Sequence[str], Sequence[str], Sequence[str]]
"""Workload keys, pod names and container names, of equal length."""


@dataclass(frozen=True, slots=True)
class UsageColumns:
    """Columns of equal length: workload keys, pod and container names, cores and bytes, which are NaN where nothing was seen.

    `ends` is when each row's window ended, in seconds since the epoch; None means at the time of the scrape.
    """

    workloads: Sequence[str]
    pods: Sequence[str]
    containers: Sequence[str]
    cores: Floats
    memory: Floats
    ends: Floats | None = None


@dataclass(frozen=True, slots=True)
class ScrapeContext:
    """What all records of one scrape share. `history` marks usage of the past that was imported."""

    at: datetime
    window: Seconds
    history: bool = False


@dataclass(frozen=True, slots=True)
class _Batch:
    """The rows of one record: their indexes among all rows, and their names."""

    partition: int
    rows: Any
    names: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(slots=True)
class ScrapeBatcher:
    """Makes the records of the usage of the context's cluster. `source` is the `ce_source` of the records."""

    context: LogContext
    source: str
    _names: ScrapeNames = ((), (), ())
    _batches: list[_Batch] = field(default_factory=list)

    def records(self, columns: UsageColumns, scrape: ScrapeContext) -> list[NewRecord]:
        """One record for each partition that has rows, more where one would be too long; by partition."""
        names = (columns.workloads, columns.pods, columns.containers)
        if names != self._names:  # else the same tuples again, which the codec recognises by identity
            self._names, self._batches = names, list(_cut(names, self.context.topics))
        ages = None if columns.ends is None else np.asarray(times.to_seconds(scrape.at) - columns.ends)
        return [self._record(columns, batch, ages, scrape) for batch in self._batches]

    def _record(self, columns: UsageColumns, batch: _Batch, ages: Floats | None, scrape: ScrapeContext) -> NewRecord:
        own_ages = () if ages is None or not ages[batch.rows].any() else ages[batch.rows]
        cluster = self.context.cluster
        event = MetricsScraped(
            scrape.at,
            cluster,
            *batch.names,
            cores=columns.cores[batch.rows],
            memory=columns.memory[batch.rows],
            window=Seconds(float(scrape.window)),
            ages=own_ages,
            history=scrape.history,
        )
        return self.context.codec.encode(event, topic="pod-metrics", key=cluster, partition=batch.partition, source=self.source)


def _cut(names: ScrapeNames, topics: Topics) -> Iterable[_Batch]:
    keys = list(zip(*names, strict=True))
    # The sort is stable, so rows of the same container stay in the order in which they were given.
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
    partition_of = {workload: topics.partition_of(workload) for workload in set(names[0])}
    partitions = np.array([partition_of[workload] for workload in names[0]], np.int64)[order]
    for partition in np.unique(partitions).tolist():
        mine = order[partitions == partition]
        for first in range(0, len(mine), ROWS):
            rows = mine[first : first + ROWS]
            columns = zip(*(keys[row] for row in rows.tolist()), strict=True)
            workloads, pods, containers = columns
            yield _Batch(partition, rows, (workloads, pods, containers))
