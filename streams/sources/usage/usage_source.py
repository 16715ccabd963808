"""The usage source: polls what containers used, and publishes what is new.

Whether a metrics API or a Prometheus server answers, each row has the end of its own window, is published once, and goes to the
partition of its pod's workload, which comes from the log. What was not seen is absent, never zero. The source reads no clock:
`at` is given.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import structlog

from schemas import times
from schemas.facts.sources import SourceReported
from schemas.facts.usage import MetricsScraped
from schemas.units import Seconds
from streams import log_range
from streams.errors import EdgeError, LogUnavailable
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.publishing.scrape_batches import ScrapeBatcher, ScrapeContext, ScrapeNames, UsageColumns
from streams.sources.usage.pod_workloads import PodWorkloads
from streams.sources.usage.readings import (
    BEHIND,
    ContainerId,
    Floats,
    Readings,
    RejectedRow,
    reject_impossible,
    used_by_namespace,
)

READ_BACK = timedelta(minutes=5)
"""How much of the log to read after a restart. A server without news for longer is published once more, which does no harm."""
_NEVER = float("-inf")


class Deduplicator:
    """Which usage was published already: the end of the newest published window of each container of one cluster."""

    def __init__(self) -> None:
        self._names: ScrapeNames = ((), (), ())
        self._ends: Floats = np.empty(0)
        self._absent: dict[ContainerId, float] = {}
        """Containers that the last answer left out, until nothing as old as their windows could be news any more."""

    def news(self, readings: Readings) -> Any:
        """Which rows are new, as an array of booleans. They then count as published."""
        # Metrics servers measure less often than they are asked, so most answers repeat what was published before.
        names = (readings.namespaces, readings.pods, readings.containers)
        published = self._ends if names == self._names else self._newest(names)
        # A server that falls back to an older answer must not make known windows news again.
        self._names, self._ends = names, np.maximum(readings.ends, published)
        return readings.ends > published

    def restore(self, context: LogContext, at: datetime) -> None:
        """Read the end of the log. Raises LogUnavailable."""
        ends: dict[ContainerId, float] = {}
        for record in log_range.read_range(context.log, [context.topics.wire("pod-metrics")], since=at - READ_BACK):
            event = context.codec.decode_or_none(record)
            if isinstance(event, MetricsScraped) and event.cluster == context.cluster and not event.history:
                _record_ends(ends, event)
        if ends:
            namespaces, pods, containers = zip(*ends, strict=True)
            self._names, self._ends = (namespaces, pods, containers), np.array(list(ends.values()))

    def _newest(self, names: ScrapeNames) -> Floats:
        """When the newest window of each of these containers ended. The others count as absent from now on."""
        ends = self._absent | dict(zip(zip(*self._names, strict=True), self._ends.tolist(), strict=True))
        keys = list(zip(*names, strict=True))
        newest = np.fromiter((ends.get(key, _NEVER) for key in keys), np.float64, len(keys))
        oldest = max(ends.values(), default=_NEVER) - BEHIND
        here = set(keys)
        self._absent = {key: end for key, end in ends.items() if end > oldest and key not in here}
        return newest


def _record_ends(ends: dict[ContainerId, float], event: MetricsScraped) -> None:
    ages = np.asarray(event.ages, np.float64) if len(event.ages) else np.zeros(len(event.pods))
    moments = (times.to_seconds(event.at) - ages).tolist()
    for workload, pod, container, end in zip(event.workloads, event.pods, event.containers, moments, strict=True):
        name = workload.split("/")[1], pod, container
        ends[name] = max(end, ends.get(name, _NEVER))


_log = structlog.get_logger(__name__)
NAME = "usage"
SOURCE = f"/ullage/source/{NAME}"
MOST_LINES = 20
"""Rejected rows of one scrape that get a line each; the others share one line."""


@dataclass(frozen=True, slots=True)
class UsageOptions:
    """`period` is the interval of `scrape`. With `missing_is_zero`, as upstream, a missing resource counts as unused.

    `when_empty` is what to look at when an answer names no container.
    """

    period: Seconds = Seconds(60.0)
    missing_is_zero: bool = False
    when_empty: str = ""


class UsageSource:
    """The usage of one cluster into one log. `read` returns what is used at a moment; it raises TryAgain and GiveUp."""

    def __init__(
        self,
        read: Callable[[datetime], Readings],
        context: LogContext,
        options: UsageOptions | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        """`outbox` is another one in tests of its bound."""
        self._read, self._context, self._options = read, context, options or UsageOptions()
        self._outbox = Outbox(context) if outbox is None else outbox
        self._workloads = PodWorkloads(context)
        self._deduplicator: Deduplicator | None = None
        self._pending = PendingRows()
        self._batcher, self._late_batcher = ScrapeBatcher(context, SOURCE), ScrapeBatcher(context, SOURCE)
        self.counts: Counter[str] = Counter()
        """Rows since the start by what became of them, in the words of the metric `ullage_usage_rows`. No count ever falls."""

        self.used: Mapping[str, tuple[float, float]] = {}
        """Cores and bytes that each namespace used, by the newest answer."""

    @property
    def dropped(self) -> Mapping[str, int]:
        """Records dropped since the start because the log was away for too long, by topic (wire name)."""
        return self._outbox.dropped

    @property
    def pending(self) -> int:
        """Rows whose pods are not known yet."""
        return len(self._pending)

    def scrape(self, at: datetime) -> bool:
        """Poll once and publish what is new. False when the log is away and the facts wait. Raises TryAgain and GiveUp.

        The first scrape needs the log, to know what was published before. It raises LogUnavailable without it.
        """
        deduplicator = self._catch_up(at)
        try:
            readings = self._read(at)
        except EdgeError:
            # The report says that usage is missing, and not that the cluster is idle.
            self._outbox.publish(facts=(), scrapes=self._report(at, sees=()))
            self._outbox.flush()
            raise
        fresh, unknown = self._fresh(readings, deduplicator, at), self.counts["unknown"]
        records = [*self._pending_records(), *self._records(fresh, self._batcher, looks=0)]
        lacks = self._lacks(readings, dropped=self.counts["unknown"] - unknown)
        self._outbox.publish(facts=(), scrapes=[*self._report(at, sees=("pod-metrics",), lacks=lacks), *records])
        flushed = self._outbox.flush()
        if flushed:
            self._outbox.report_losses()
        return flushed

    def _catch_up(self, at: datetime) -> Deduplicator:
        """Follow the pods, and at the start read what was published. Later the log may be away for a while."""
        try:
            self._workloads.catch_up(at)
            if self._deduplicator is None:
                deduplicator = Deduplicator()
                deduplicator.restore(self._context, at)
                self._deduplicator = deduplicator
        except LogUnavailable:
            if self._deduplicator is None:
                raise
        return self._deduplicator

    def _fresh(self, readings: Readings, deduplicator: Deduplicator, at: datetime) -> Readings:
        """The possible rows that were not published before."""
        if self._options.missing_is_zero:
            readings = replace(readings, cores=_zero_if_missing(readings.cores), memory=_zero_if_missing(readings.memory))
        possible = reject_impossible(readings, at)
        self.used = used_by_namespace(possible)
        self._log_rejected(possible.rejected)
        fresh = possible.pick(deduplicator.news(possible))
        self.counts["repeated"] += len(possible) - len(fresh)
        return fresh

    def _log_rejected(self, rejected: Sequence[RejectedRow]) -> None:
        for row in rejected:
            self.counts[row.kind] += 1
        for row in rejected[:MOST_LINES]:
            pod = f"{row.namespace}/{row.pod}"
            _log.warning("usage left out", pod=pod, container=row.container, value=row.value, reason=row.reason)
        if len(rejected) > MOST_LINES:
            _log.warning("more usage left out", rows=len(rejected) - MOST_LINES)

    def _pending_records(self) -> list[NewRecord]:
        """Of the rows that waited, those whose pods are known now: in records of their own, before the newer ones."""
        batches = self._pending.drain()
        return [record for looks, batch in batches for record in self._records(batch, self._late_batcher, looks=looks)]

    def _records(self, readings: Readings, batcher: ScrapeBatcher, *, looks: int) -> list[NewRecord]:
        """Records of the rows whose pods are known. The others wait, except those of pods that are gone."""
        workloads = list(self._workloads.workloads(readings.namespaces, readings.pods))
        has_workload = np.array([workload is not None for workload in workloads], np.bool_)
        if not has_workload.all():
            self._keep_pending(readings.pick(~has_workload), looks=looks + 1)
        ready = readings.pick(has_workload)
        if not len(ready):
            return []
        self.counts["told"] += len(ready)
        keys = [workload for workload in workloads if workload is not None]
        # Event time is that of the measurement, and each row's age is counted from it.
        at = times.from_seconds(float(ready.ends.max()))
        columns = UsageColumns(keys, ready.pods, ready.containers, ready.cores, ready.memory, ready.ends)
        return batcher.records(columns, ScrapeContext(at, ready.window))

    def _keep_pending(self, unknown: Readings, *, looks: int) -> None:
        rows = zip(unknown.namespaces, unknown.pods, (unknown.ends - unknown.window).tolist(), strict=True)
        here = np.array([not self._workloads.is_gone(name, pod, since=begun) for name, pod, begun in rows], np.bool_)
        self.counts["gone"] += int((~here).sum())
        for dropped in self._pending.keep(unknown.pick(here), looks=looks):
            self.counts["unknown"] += len(dropped)
            first = f"{dropped.namespaces[0]}/{dropped.pods[0]}"
            _log.warning("usage of pods that no source has published was dropped", rows=len(dropped), first=first)

    def _lacks(self, readings: Readings, *, dropped: int) -> tuple[str, ...]:
        """What somebody should look at although the server answered."""
        if not len(readings) and not readings.rejected:
            hint = f": {self._options.when_empty}" if self._options.when_empty else ""
            return (f"the answer names no container{hint}",)
        if dropped:
            return (f"{dropped} rows are of pods that no source has published: is `ullage source kube` at work?",)
        return ()

    def _report(self, at: datetime, *, sees: tuple[str, ...], lacks: tuple[str, ...] = ()) -> list[NewRecord]:
        """Report to every partition that this source is running."""
        cluster = self._context.cluster
        event = SourceReported(at, cluster, NAME, sees, self._options.period, lacks)
        # A worker reads its own partitions and no others, and judges by these reports whether facts are missing.
        return self._context.codec.encode_for_all(event, topic="cluster-changes", key=cluster, source=SOURCE)


def _zero_if_missing(amounts: Floats) -> Floats:
    return np.where(np.isnan(amounts), 0.0, amounts)


MOST_LOOKS = 5  # a new pod's fact may come a moment after its usage
MOST_ROWS = 200_000
"""Two scrapes of a large cluster, some 60 MB."""


@dataclass(slots=True)
class PendingRows:
    """Usage of pods that no source has published yet: batches, with the number of scrapes that looked in vain, oldest first."""

    batches: deque[tuple[int, Readings]] = field(default_factory=deque)

    def __len__(self) -> int:
        """How many rows are kept."""
        return sum(len(batch) for _, batch in self.batches)

    def drain(self) -> list[tuple[int, Readings]]:
        """Every batch. The caller keeps again what is still unknown."""
        batches = list(self.batches)
        self.batches.clear()
        return batches

    def keep(self, readings: Readings, *, looks: int) -> list[Readings]:
        """Keep rows after this many looks. Returns the rows that are given up instead."""
        if not len(readings):
            return []
        if looks >= MOST_LOOKS:
            return [readings]
        self.batches.append((looks, readings))
        given_up = []
        while len(self) > MOST_ROWS:
            # The oldest: their pods are the least likely to appear still.
            given_up.append(self.batches.popleft()[1])
        return given_up
