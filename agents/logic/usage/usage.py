"""The usage of many containers: an aggregate of histograms for all that is recommended as one, and each container's own marks.

An aggregate is what VPA folds together; a container is one instance in one pod, with its last sample times and its memory
window. Scrapes are folded whole. What is absent (NaN) is absent and not zero.
"""

from collections.abc import Callable

import numpy as np

from agents.logic.tables.rows import Column, Floats, Indices, Key, Rows
from agents.logic.usage.buckets import AMOUNT_LIMIT, cpu_scale, memory_scale
from agents.logic.usage.histograms import NEVER, Histograms
from agents.logic.usage.lookup import Layer, Lookup
from agents.logic.usage.peaks import Peaks
from agents.logic.usage.settings import UsageSettings
from schemas.facts import MetricsScraped

CPU_WEIGHT = 0.1
"""Weight of every CPU sample, whatever the container requests."""

_AGGREGATES = {
    "first": Column(default=NEVER),
    "last": Column(default=NEVER),
    "count": Column(np.int64),
    "created": Column(default=NEVER),
    "changed": Column(np.int64),
    "offset": Column(np.int64, -1),
}

_CONTAINERS = {
    "aggregate": Column(np.int32),
    "last_cpu": Column(default=NEVER),
    "last_memory": Column(default=NEVER),
    "window_end": Column(default=NEVER),
    "peak": Column(),
    "killed": Column(),
}


class Usage:
    """Aggregates and containers. `aggregate_of` gives the aggregate of (workload, pod, container)."""

    def __init__(self, settings: UsageSettings, aggregate_of: Callable[[str, str, str], Key]) -> None:
        self.settings, self._aggregate_of = settings, aggregate_of
        cpu, memory = cpu_scale(settings.growth), memory_scale(settings.growth)
        columns = {**Histograms.columns("cpu", cpu), **Histograms.columns("memory", memory), **_AGGREGATES}
        self.aggregates = Rows("aggregates", columns)
        self.containers = Rows("containers", _CONTAINERS)
        self.cpu = Histograms(self.aggregates, "cpu", cpu, settings.cpu_half_life)
        self.memory = Histograms(self.aggregates, "memory", memory, settings.memory_half_life)
        self.peaks = Peaks(self.containers, self.memory, settings.window)
        self._lookup = Lookup(self.containers, self._row)
        self._at = NEVER
        self.added: list[Key] = []
        """Aggregates made since somebody took this list."""

    def scrape(self, scrape: MetricsScraped, at: float, *, turn: int, offset: int) -> None:
        """Fold one scrape, whose time is `at`, in a turn; `offset` is its place, for the cause of what follows from it."""
        self._at = at
        cores, memory = np.asarray(scrape.cores, np.float64), np.asarray(scrape.memory, np.float64)
        for layer in self._lookup.find(scrape.workloads, scrape.pods, scrape.containers):
            order = layer.order
            self._cpu(layer, cores if order is None else cores[order], at)
            self.peaks.add(layer.containers, layer.aggregates, memory if order is None else memory[order], at)
            self.aggregates["changed"][layer.aggregates] = turn
            self.aggregates["offset"][layer.aggregates] = offset
            self.aggregates.touch_chunks(layer.aggregate_chunks)
            self.containers.touch_chunks(layer.container_chunks)

    def _cpu(self, layer: Layer, cores: Floats, at: float) -> None:
        rows, aggregates = layer.containers, layer.aggregates
        last = self.containers.floats("last_cpu")
        with np.errstate(invalid="ignore"):
            good = (cores >= 0.0) & (at > last[rows])
        if not good.all():
            rows, aggregates, cores = rows[good], aggregates[good], cores[good]
        last[rows] = at
        self.cpu.add(aggregates, cores, CPU_WEIGHT, at)
        self._seen(aggregates, at)

    def _seen(self, aggregates: Indices, at: float) -> None:
        """First and last time and the count; CPU samples alone move them, and confidence rests on them."""
        first, last = self.aggregates.floats("first"), self.aggregates.floats("last")
        before = first[aggregates]
        first[aggregates] = np.where((before == NEVER) | (before > at), at, before)
        last[aggregates] = np.maximum(last[aggregates], at)
        np.add.at(self.aggregates["count"], aggregates, 1)

    def kill(self, key: tuple[str, str, str], requested: float, at: float, *, turn: int) -> bool:
        """Fold an OOM kill of (workload, pod, container); False if it is too old to say anything.

        needed = max(used + minimum, int(used * ratio)) where used is the larger of the request and the window's usage peak.
        """
        self._at = at
        row = self._row(*key)
        last = self.containers.floats("last_memory")[row]
        if last != NEVER and at < last - self.settings.window:
            return False
        used = max(requested, float(self.containers.floats("peak")[row]))
        needed = max(used + self.settings.oom_minimum, min(float(int(used * self.settings.oom_ratio)), AMOUNT_LIMIT))
        aggregate = int(self.containers.whole("aggregate")[row])
        self.peaks.kill(row, aggregate, needed, at)
        self.aggregates["changed"][aggregate] = turn
        self.aggregates.touch([aggregate])
        self.containers.touch([row])
        return True

    def forget(self, key: tuple[str, str, str]) -> None:
        """A container is gone: its window goes, its aggregate stays."""
        if key in self.containers:
            self.containers.free(key)

    def expire(self, at: float) -> list[Key]:
        """Drop containers without a sample for so long, then aggregates without one; the aggregates dropped, sorted."""
        since = at - self.settings.expires
        rows = self.containers.used()
        newest = np.maximum(self.containers.floats("last_cpu")[rows], self.containers.floats("last_memory")[rows])
        for row in rows[newest <= since]:
            self.containers.free(self.containers.key(int(row)))
        linked = self.containers["aggregate"][self.containers.used()]
        rows = np.setdiff1d(self.aggregates.used(), linked)
        last, created = self.aggregates.floats("last")[rows], self.aggregates.floats("created")[rows]
        gone = sorted(self.aggregates.key(int(row)) for row in rows[np.where(last == NEVER, created, last) <= since])
        for key in gone:
            self.aggregates.free(key)
        self.aggregates.freed.clear()
        return gone

    def _row(self, workload: str, pod: str, container: str) -> int:
        """The row of a container; made, and its aggregate too, when new."""
        key = (workload, pod, container)
        row = self.containers.find(key)
        if row is None:
            row = self.containers.add(key)
            aggregate_key = self._aggregate_of(workload, pod, container)
            aggregate = self.aggregates.find(aggregate_key)
            if aggregate is None:
                aggregate = self.aggregates.add(aggregate_key)
                self.aggregates["created"][aggregate] = self._at
                self.added.append(aggregate_key)
            self.containers["aggregate"][row] = aggregate
        return row
