"""Rows of usage to records: cut by the partition of their workload, in order, at most so many in one record.

In the order of workload, pod and container, so that a cluster whose containers stay the same gives the same name columns again
and again; and the cut is kept for as long as the names stay, so that the codec knows the columns by identity.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.facts.usage import MetricsScraped
from schemas.units import Seconds
from streams.codec.event_codec import Codec
from streams.codec.usage_columns import ROWS
from streams.log.port import NewRecord
from streams.topics import Topics

Floats = NDArray[np.float64]
Names = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length: workload keys, pod and container names, and amounts, NaN where nothing was seen.

    `ends`: when each row's window ended, in seconds since the epoch; none means at the time of the scrape.
    """

    workloads: Sequence[str]
    pods: Sequence[str]
    containers: Sequence[str]
    cores: Floats
    memory: Floats
    ends: Floats | None = None


@dataclass(frozen=True, slots=True)
class Scraped:
    """What all records of one scrape share."""

    at: datetime
    window: Seconds
    history: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows that go into one record: where they stand among all, and their names."""

    partition: int
    rows: Any
    names: Names


@dataclass(slots=True)
class Scrapes:
    """Makes the records of one cluster's usage. `source`: who tells, as records name it."""

    topics: Topics
    codec: Codec
    cluster: str
    source: str
    _names: tuple[Sequence[str], Sequence[str], Sequence[str]] = ((), (), ())
    _parts: list[_Part] = field(default_factory=list)

    def records(self, rows: Rows, scraped: Scraped) -> list[NewRecord]:
        """One record for each partition that has rows, more where one would be too long; by partition."""
        names = (rows.workloads, rows.pods, rows.containers)
        if names != self._names:
            self._names, self._parts = names, list(_cut(names, self.topics))
        ages = None if rows.ends is None else np.asarray(scraped.at.timestamp() - rows.ends)
        return [self._record(rows, part, ages, scraped) for part in self._parts]

    def _record(self, rows: Rows, part: _Part, ages: Floats | None, scraped: Scraped) -> NewRecord:
        own = () if ages is None or not ages[part.rows].any() else ages[part.rows]
        event = MetricsScraped(
            scraped.at,
            self.cluster,
            *part.names,
            cores=rows.cores[part.rows],
            memory=rows.memory[part.rows],
            window=Seconds(float(scraped.window)),
            ages=own,
            history=scraped.history,
        )
        return self.codec.encode(event, topic="pod-metrics", key=self.cluster, partition=part.partition, source=self.source)


def _cut(names: tuple[Sequence[str], Sequence[str], Sequence[str]], topics: Topics) -> Iterable[_Part]:
    """The sort is stable: rows of the same container stay in the order they were given in."""
    keys = list(zip(*names, strict=True))
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
    of = {workload: topics.partition_of(workload) for workload in set(names[0])}
    partitions = np.array([of[workload] for workload in names[0]], np.int64)[order]
    for partition in np.unique(partitions).tolist():
        mine = order[partitions == partition]
        for first in range(0, len(mine), ROWS):
            rows = mine[first : first + ROWS]
            columns = zip(*(keys[row] for row in rows.tolist()), strict=True)
            workloads, pods, containers = columns
            yield _Part(partition, rows, (workloads, pods, containers))
