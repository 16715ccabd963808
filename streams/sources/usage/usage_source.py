"""The usage source: asks on an interval what containers used, and tells the log what is new of it.

Whoever is asked (`metrics_api`, `prometheus`), each row has its own window's end, is told once, and goes to the partition of its
pod's workload, which the log says. It judges nothing but what cannot be: such a row is left out with a line that names it, and
the rest of the scrape goes on. What was not seen is absent, never zero. It reads no clock: `at` is given.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import structlog

from schemas import times
from schemas.facts.sources import SourceReported
from schemas.units import Seconds
from streams.codec.event_codec import Codec
from streams.errors import EdgeError, LogUnavailable
from streams.log.port import Log, NewRecord
from streams.publishing.outbox import Outbox
from streams.publishing.scrape_batches import Rows, Scraped, Scrapes
from streams.sources.usage.deduplicator import Told
from streams.sources.usage.pending import Held
from streams.sources.usage.pod_workloads import Pods
from streams.sources.usage.readings import Bad, Floats, Readings, sieve
from streams.topics import Topics

_log = structlog.get_logger(__name__)
NAME = "usage"
SOURCE = f"/ullage/source/{NAME}"
NAMED = 20
"""Bad rows of one scrape that get a line each; of the rest there is one line for all."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How to tell. `missing_is_zero` is upstream's way: a resource that the server left out counts as none used."""

    cluster: str
    period: Seconds = Seconds(60.0)
    missing_is_zero: bool = False


class UsageSource:
    """The usage of one cluster into one log. `read`: what is used at a moment; raises TryAgain and GiveUp."""

    def __init__(
        self, read: Callable[[datetime], Readings], log: Log, *, topics: Topics, ways: Ways, outbox: Outbox | None = None
    ) -> None:
        """`outbox` is another one in tests of its bound."""
        self._read, self._log, self._topics, self._ways = read, log, topics, ways
        self._codec = Codec(topics)
        self._outbox = Outbox(log) if outbox is None else outbox
        self._pods = Pods(log, topics, self._codec, cluster=ways.cluster)
        self._told: Told | None = None
        self._held = Held()
        self._rows = Scrapes(topics, self._codec, ways.cluster, SOURCE)
        self._late = Scrapes(topics, self._codec, ways.cluster, SOURCE)
        self.counts: Counter[str] = Counter()
        """Rows since the start by what became of them. Never falls, so that a metric can follow it."""

    @property
    def dropped(self) -> Mapping[str, int]:
        """Records dropped since the start because the log was away for too long, by topic (wire name)."""
        return self._outbox.dropped

    @property
    def held(self) -> int:
        """Rows that wait for the word of their pod."""
        return len(self._held)

    def scrape(self, at: datetime) -> bool:
        """Look once and tell what is new; False when the log is away and the facts wait. Raises TryAgain and GiveUp.

        The first scrape needs the log, to know what was said before: it raises LogUnavailable without it.
        """
        told = self._look_back(at)
        try:
            readings = self._read(at)
        except EdgeError:
            self._outbox.put(facts=(), scrapes=self._report(at, sees=()))
            self._outbox.flush()
            raise
        fresh = self._fresh(readings, told, at)
        records = [*self._told_late(), *self._tell(fresh, self._rows, looks=0)]
        self._outbox.put(facts=(), scrapes=[*self._report(at, sees=("pod-metrics",)), *records])
        flushed = self._outbox.flush()
        if flushed:
            self._outbox.forget_losses()
        return flushed

    def _look_back(self, at: datetime) -> Told:
        """Follow the pods, and at the start read what was told. Later the log may be away for a while."""
        try:
            self._pods.follow(at)
            if self._told is None:
                told = Told(self._ways.cluster)
                told.read_back(self._log, self._topics, self._codec, at)
                self._told = told
        except LogUnavailable as error:
            if self._told is None:
                raise
            _log.warning("the log is away, pods are those known before", error=str(error))
        return self._told

    def _fresh(self, readings: Readings, told: Told, at: datetime) -> Readings:
        """What can be and was not told before."""
        if self._ways.missing_is_zero:
            readings = replace(readings, cores=_zero(readings.cores), memory=_zero(readings.memory))
        possible = sieve(readings, at)
        self._complain(possible.bad)
        fresh = possible.pick(told.news(possible))
        self.counts["repeated"] += len(possible) - len(fresh)
        return fresh

    def _complain(self, bad: Sequence[Bad]) -> None:
        for row in bad:
            self.counts[row.kind] += 1
        for row in bad[:NAMED]:
            where = f"{row.namespace}/{row.pod}"
            _log.warning("usage left out", pod=where, container=row.container, value=row.value, reason=row.reason)
        if len(bad) > NAMED:
            _log.warning("more usage left out", rows=len(bad) - NAMED)

    def _told_late(self) -> list[NewRecord]:
        """Of rows that were held, those whose pods are known now; in records of their own, before the newer ones."""
        batches = self._held.take()
        return [record for looks, batch in batches for record in self._tell(batch, self._late, looks=looks)]

    def _tell(self, readings: Readings, scrapes: Scrapes, *, looks: int) -> list[NewRecord]:
        """Records of the rows whose pods are known. The others are held, but for those of pods that are gone."""
        workloads = list(self._pods.workloads(readings.namespaces, readings.pods))
        known = np.array([workload is not None for workload in workloads], np.bool_)
        if not known.all():
            self._hold(readings.pick(~known), looks=looks + 1)
        told = readings.pick(known)
        if not len(told):
            return []
        self.counts["told"] += len(told)
        keys = [workload for workload in workloads if workload is not None]
        at = times.from_seconds(float(told.ends.max()))
        rows = Rows(keys, told.pods, told.containers, told.cores, told.memory, told.ends)
        return scrapes.records(rows, Scraped(at, told.window))

    def _hold(self, unknown: Readings, *, looks: int) -> None:
        rows = zip(unknown.namespaces, unknown.pods, (unknown.ends - unknown.window).tolist(), strict=True)
        here = np.array([not self._pods.is_gone(name, pod, since=begun) for name, pod, begun in rows], np.bool_)
        self.counts["gone"] += int((~here).sum())
        for let_go in self._held.keep(unknown.pick(here), looks=looks):
            self.counts["unknown"] += len(let_go)
            first = f"{let_go.namespaces[0]}/{let_go.pods[0]}"
            _log.warning("usage of pods that no source has told of was dropped", rows=len(let_go), first=first)

    def _report(self, at: datetime, *, sees: tuple[str, ...]) -> list[NewRecord]:
        """A word to every partition: who reads any of them needs to know."""
        event = SourceReported(at, self._ways.cluster, NAME, sees, self._ways.period)
        return self._codec.encode_for_all(event, topic="cluster-changes", key=self._ways.cluster, source=SOURCE)


def _zero(amounts: Floats) -> Floats:
    """Zero for what is absent."""
    return np.where(np.isnan(amounts), 0.0, amounts)
