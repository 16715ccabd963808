"""The usage of many containers: an aggregate of histograms for all that is counted as one, and each container's own marks.

An aggregate is what VPA folds together; a container is one instance in one pod, with its last sample times and its memory window.
Scrapes are folded whole. What is absent (NaN) is absent and not zero. The caller decides which aggregate a container belongs to,
and whether it counts at all. Which usage is too old to count follows upstream's rules.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import ColumnSpec, Floats, Indices, RowKey, RowTable
from agents.logic.usage.buckets import cpu_buckets, memory_buckets
from agents.logic.usage.histograms import Histograms
from agents.logic.usage.memory_peaks import COLUMNS as _SERIES
from agents.logic.usage.memory_peaks import HourlyMinima, MemoryPeaks
from agents.logic.usage.pod_index import SEED
from agents.logic.usage.scrape_lookup import ScrapeLayer, ScrapeLookup
from schemas.bounds import AMOUNT_LIMIT
from schemas.facts.usage import MetricsScraped
from schemas.times import NEVER
from schemas.units import Seconds


class PercentileCache:
    """Finds `count` percentiles of rows of `histograms`, of which it alone takes the marks of what changed.

    It is for histograms that few samples change, such as memory's daily peaks: a row is searched only when it has changed.
    """

    def __init__(self, histograms: Histograms, count: int = 3) -> None:
        self._of = histograms
        self._shares = [np.zeros(0) for _ in range(count)]
        self._percentiles = [np.zeros(0) for _ in range(count)]

    def find(self, rows: Indices, shares: Floats) -> list[Floats]:
        """For each column of `shares` (rows, count) the percentiles, one element for each row."""
        more = len(self._of.total) - len(self._percentiles[0])
        if more > 0:
            self._shares, self._percentiles = (
                [np.append(column, np.zeros(more)) for column in columns] for columns in (self._shares, self._percentiles)
            )
        # A row's percentiles depend only on its weights and total, which `changed` tells of, and on the shares asked for.
        again = self._of.changed[rows]
        for before, share in zip(self._shares, shares.T, strict=True):
            again |= before[rows] != share
        if np.count_nonzero(again):
            stale, wanted = rows[again], list(shares[again].T)
            for cached, now in ((self._percentiles, self._of.percentiles(stale, wanted)), (self._shares, wanted)):
                for column, values in zip(cached, now, strict=True):
                    column[stale] = values
            self._of.changed[stale] = False
        return [column[rows] for column in self._percentiles]


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """Half lives of the histograms, the window of a memory peak, and what an OOM kill adds to it."""

    cpu_half_life: Seconds = Seconds(86_400.0)
    memory_half_life: Seconds = Seconds(86_400.0)
    window: Seconds = Seconds(86_400.0)
    oom_ratio: float = 1.2
    oom_minimum: float = 104_857_600.0
    expires: Seconds = Seconds(8 * 86_400.0)
    growth: float = 0.05
    """Each histogram bucket is wider than the one before by this share. Part of the state: never change it under a changelog."""
    zero_is_absent: bool = False
    """A memory sample of 0 is no sample. Upstream takes it, and then no other of the same window."""
    window_peaks: bool = False
    """Memory is the highest use within a scrape's window, where its source knows that. Upstream's sources do not."""
    cpu_peaks: bool = False
    """Likewise CPU."""
    leak_hours: int = 0
    """Hours in a row in which the lowest memory use of a leaking container rose; 0 looks for no leaks."""


CPU_WEIGHT = 0.1
"""Weight of every CPU sample, whatever the container requests."""

_CONTAINERS = {
    "aggregate": ColumnSpec(np.int32, -1),
    "last_cpu": ColumnSpec(default=NEVER),
    "last_memory": ColumnSpec(default=NEVER),
    "window_end": ColumnSpec(default=NEVER),
    "peak": ColumnSpec(),
    "killed": ColumnSpec(),
    "limit": ColumnSpec(np.float32),
    "restarts": ColumnSpec(np.int32),
    **_SERIES,
}
"""`limit`: of memory, in bytes, 0 where none is known; `restarts`: what its pod says."""


@dataclass(frozen=True, slots=True)
class OomBump:
    """What an OOM kill adds: needed = max(used + minimum, int(used * ratio)), and not more than `most`."""

    ratio: float
    minimum: float
    most: float = math.inf


class ContainerUsage:
    """Aggregates and containers. `aggregate_of` returns the aggregate of (workload, pod, container), or None."""

    def __init__(self, settings: UsageSettings, aggregate_of: Callable[[str, str, str], RowKey | None]) -> None:
        self.settings, self._aggregate_of = settings, aggregate_of
        self.aggregates = RowTable("aggregates", aggregate_columns(settings))
        self.containers = RowTable("containers", _CONTAINERS)
        self.cpu = Histograms(self.aggregates, "cpu", cpu_buckets(settings.growth))
        self.memory = Histograms(self.aggregates, "memory", memory_buckets(settings.growth))
        self.memory_percentiles = PercentileCache(self.memory, count=5)
        self.minima = HourlyMinima(self.containers, settings.leak_hours)
        self.peaks = MemoryPeaks(self.containers, self.memory, self.minima, zero_is_absent=settings.zero_is_absent)
        self.lookup = ScrapeLookup(self.containers, self.see)
        self.now = NEVER
        """The time that a new aggregate is said to be made at."""
        self.turn = 0
        """The turn in which what is folded now changes something."""
        self.added: list[RowKey] = []
        """Aggregates made since somebody took this list."""
        self.made: Callable[[int, RowKey], None] = lambda _row, _key: None
        """Told of each aggregate that is made, before anything is folded into it."""

    def scrape(self, scrape: MetricsScraped, at: float, *, offset: int) -> None:
        """Fold one scrape, whose time is `at`; `offset` is its place, for the cause of what follows from it."""
        cores, memory = self.amounts(scrape)
        ends = at - np.asarray(scrape.ages, np.float64) if len(scrape.ages) else None
        for layer in self.lookup.find(scrape.workloads, scrape.pods, scrape.containers):
            order = layer.order
            times = np.full(len(layer.containers), at) if ends is None else ends if order is None else ends[order]
            self.fold(layer, cores if order is None else cores[order], memory if order is None else memory[order], times)
            self.aggregates["offset"][layer.aggregates] = offset

    def amounts(self, scrape: MetricsScraped) -> tuple[Floats, Floats]:
        """Cores and bytes of each row, as they count: the highest within the window where that is known and wanted."""
        cores, memory = np.asarray(scrape.cores, np.float64), np.asarray(scrape.memory, np.float64)
        if self.settings.cpu_peaks and len(scrape.cores_max):
            cores = np.fmax(cores, np.asarray(scrape.cores_max, np.float64))
        if self.settings.window_peaks and len(scrape.memory_max):
            memory = np.fmax(memory, np.asarray(scrape.memory_max, np.float64))
        return cores, memory

    def fold(self, layer: ScrapeLayer, cores: Floats, memory: Floats, at: Floats) -> None:
        """Fold one sample of each resource for distinct containers."""
        self._cpu(layer, cores, at)
        self.peaks.add(layer.containers, layer.aggregates, memory, at, apart=layer.apart)
        self.minima.load(layer.containers, cores)
        self.aggregates["changed"][layer.aggregates] = self.turn
        self.aggregates.touch_chunks(layer.aggregate_chunks)
        self.containers.touch_chunks(layer.container_chunks)

    def _cpu(self, layer: ScrapeLayer, cores: Floats, at: Floats) -> None:
        rows, aggregates = layer.containers, layer.aggregates
        last = self.containers.floats("last_cpu")
        with np.errstate(invalid="ignore"):
            # NaN compares as False, so an absent sample drops out here, too.
            good = (cores >= 0.0) & (at > last[rows])
        if not good.all():
            rows, aggregates, cores, at = rows[good], aggregates[good], cores[good], at[good]
        last[rows] = at
        self.cpu.add(aggregates, cores, CPU_WEIGHT, at, apart=layer.apart)
        self._seen(aggregates, at, apart=layer.apart)

    def _seen(self, aggregates: Indices, at: Floats, *, apart: bool) -> None:
        """Update first and last time and the count, which confidence rests on; only CPU samples change them."""
        first, last = self.aggregates.floats("first"), self.aggregates.floats("last")
        if apart:
            # Plain indexing is several times as fast as `.at`, but counts a row that stands twice only once.
            before = first[aggregates]
            first[aggregates] = np.where(before == NEVER, at, np.minimum(before, at))
            last[aggregates] = np.maximum(last[aggregates], at)
            self.aggregates.whole("count")[aggregates] += 1
            return
        first[aggregates[first[aggregates] == NEVER]] = np.inf
        np.minimum.at(first, aggregates, at)
        np.maximum.at(last, aggregates, at)
        np.add.at(self.aggregates["count"], aggregates, 1)

    def kill(self, key: RowKey, requested: float, at: float, bump: OomBump | None = None) -> bool:
        """Fold an OOM kill of (workload, pod, container); False if it does not count or is too old."""
        row = self.see(*key)
        if row < 0:
            return False
        aggregate = int(self.containers.whole("aggregate")[row])
        last = self.containers.floats("last_memory")[row]
        # A kill older than a window belongs to one that is over, whose peak has been counted.
        if last != NEVER and at < last - self.aggregates.floats("window")[aggregate]:
            return False
        bump = bump or OomBump(self.settings.oom_ratio, self.settings.oom_minimum)
        # A container that was killed early in a window has shown less than it had asked for.
        used = max(requested, float(self.containers.floats("peak")[row]))
        # Upstream's RecordOOM (pkg/recommender/model/container.go), which cuts the product to whole bytes.
        needed = min(max(used + bump.minimum, min(float(int(used * bump.ratio)), AMOUNT_LIMIT)), max(bump.most, used))
        self.peaks.kill(row, aggregate, needed, at)
        self.aggregates["changed"][aggregate] = self.turn
        self.aggregates.touch([aggregate])
        self.containers.touch([row])
        return True

    def see(self, workload: str, pod: str, container: str) -> int:
        """The row of a container, created if new, linked to its present aggregate; -1 if it does not count."""
        key = (workload, pod, container)
        # A container whose aggregate was dropped keeps its row and its window, and gets another aggregate.
        row = self.containers.find(key)
        if row is not None and self.containers["aggregate"][row] >= 0:
            return row
        aggregate_key = self._aggregate_of(workload, pod, container)
        if aggregate_key is None:
            return -1
        if row is None:
            row = self.containers.add(key)
        self.containers["aggregate"][row] = self.aggregate(aggregate_key)
        self.containers.touch([row])
        return row

    def aggregate(self, key: RowKey) -> int:
        """The row of an aggregate, made when new."""
        row = self.aggregates.find(key)
        if row is None:
            row = self.aggregates.add(key)
            self.aggregates["created"][row] = self.now
            self.aggregates["changed"][row] = self.turn
            self.added.append(key)
            self.made(row, key)
        return row

    def unlink(self, rows: Indices) -> None:
        """Look up these containers' aggregates again."""
        self.containers["aggregate"][rows] = -1
        self.containers.touch(rows)
        self.containers.freed += rows.tolist()

    def forget(self, key: RowKey) -> None:
        """A container is gone: its window goes, its aggregate stays."""
        if key in self.containers:
            self.containers.free(key)

    def drop(self, keys: Collection[RowKey]) -> None:
        """Aggregates are gone; their containers get new ones with their next sample."""
        # Containers must not keep the number of a row that is free: the next aggregate would get their samples.
        rows = np.array([self.aggregates.find(key) for key in keys], np.int64)
        used = self.containers.used()
        self.unlink(used[np.isin(self.containers["aggregate"][used], rows)])
        for key in keys:
            self.aggregates.free(key)
        self.aggregates.freed.clear()


def aggregate_columns(settings: UsageSettings) -> dict[str, ColumnSpec]:
    """The columns of each aggregate. An aggregate may have its own `window` and `expires`."""
    cpu, memory = cpu_buckets(settings.growth), memory_buckets(settings.growth)
    return {
        **Histograms.columns("cpu", cpu, settings.cpu_half_life),
        **Histograms.columns("memory", memory, settings.memory_half_life),
        "first": ColumnSpec(default=NEVER),
        "last": ColumnSpec(default=NEVER),
        "count": ColumnSpec(np.int64),
        "created": ColumnSpec(default=NEVER),
        "changed": ColumnSpec(np.int64),
        "offset": ColumnSpec(np.int64, -1),
        "window": ColumnSpec(default=settings.window),
        "expires": ColumnSpec(default=settings.expires),
    }


Contributive = Callable[[], Collection[RowKey]]


def expire(usage: ContainerUsage, at: float, contributive: Contributive, known: Callable[[str, str], bool]) -> list[RowKey]:
    """Drop aggregates that have expired, or that never had a sample and have no pod; what was dropped, sorted.

    `contributive` finds the aggregates of pods that run or whose controller lives. `known`: was this pod (workload, name)
    reported?
    """
    _forget_containers(usage, at, known)
    rows = usage.aggregates.used()
    gone = rows[_expired(usage, rows, at) | _useless(usage, rows, contributive)]
    keys = {usage.aggregates.key(row) for row in gone.tolist()}
    # A seed stays as long as its container has other usage, as in upstream, which also keeps it beside the live one.
    seeds = {key for key in keys if key[-1].startswith(SEED)}
    if seeds:
        every = map(usage.aggregates.key, rows.tolist())
        living = {key[:-1] for key in every if key not in keys and not key[-1].startswith(SEED)}
        keys -= {key for key in seeds if key[:-1] in living}
    usage.drop(keys)
    return sorted(keys)


def _expired(usage: ContainerUsage, rows: Indices, at: float) -> NDArray[np.bool_]:
    """The last CPU sample, or without one the last that was seen of memory, is `expires` ago."""
    columns = usage.aggregates
    last, created = columns.floats("last")[rows], columns.floats("created")[rows]
    # Upstream takes the creation, and so forgets the kills of containers that run for seconds, which nobody ever measures, every
    # eighth day (kubernetes/autoscaler#10211). Turns are milliseconds.
    seen = np.fmax(created, columns["changed"][rows].astype(np.float64) / 1000.0)
    return np.asarray(at - np.where(last == NEVER, seen, last) >= columns.floats("expires")[rows])


def _useless(usage: ContainerUsage, rows: Indices, contributive: Contributive) -> NDArray[np.bool_]:
    """No sample of anything, and no pod that could still give one: upstream's isEmpty beside its contributive aggregates."""
    blank = (usage.aggregates["count"][rows] == 0) & (usage.memory.total[rows] == 0.0)
    places = np.flatnonzero(blank)
    useless = np.zeros(len(rows), np.bool_)
    if len(places):
        # It examines every pod, so it is asked for only if some aggregate had no sample.
        alive = contributive()
        useless[places] = [usage.aggregates.key(row) not in alive for row in rows[places].tolist()]
    return useless


def _forget_containers(usage: ContainerUsage, at: float, known: Callable[[str, str], bool]) -> None:
    containers = usage.containers
    rows = containers.used()
    newest = np.maximum(containers.floats("last_cpu")[rows], containers.floats("last_memory")[rows])
    for row in rows[at - newest >= usage.settings.expires].tolist():
        workload, pod, _ = key = containers.key(row)
        # The containers of a pod that no source reported cannot be seen to go, so they go when they have been silent for so long.
        if not known(workload, pod):
            containers.free(key)
