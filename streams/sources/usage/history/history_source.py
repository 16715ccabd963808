"""The history source: what a Prometheus server remembers becomes facts in the log, before there are any live ones. Runs once.

One record for each moment and partition, in order of time over all containers, marked as history: so a replay sees what the
recommender saw. Amounts are cut to whole millicores and bytes, as upstream cuts them when it begins from Prometheus. Where a run
was ended, the next one goes on. It refuses to add the past to a log that holds usage from after it: none of it would count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import compress

import numpy as np
import structlog

from schemas import times
from schemas.facts.usage import MetricsScraped
from schemas.units import Seconds
from streams import log_range
from streams.clients.prometheus import Prometheus
from streams.codec.event_codec import Codec
from streams.errors import BadInput
from streams.log.port import Log, NewRecord
from streams.publishing.scrape_batches import Rows, Scraped, Scrapes
from streams.sources.usage.history.past_workloads import Owners, PodLabels, vpas
from streams.sources.usage.history.range_queries import Remembered, Table
from streams.sources.usage.pod_workloads import BACK, Name, Pods
from streams.sources.usage.promql import Words
from streams.sources.usage.readings import Bad, Readings, sieve
from streams.topics import Topics

_log = structlog.get_logger(__name__)
SOURCE = "/ullage/source/history"


@dataclass(frozen=True, slots=True)
class Period:
    """What is asked for: `length` up to `end`, a sample each `step`. Upstream's is eight days by the hour."""

    cluster: str
    end: datetime
    length: Seconds = Seconds(8 * 86_400.0)
    step: Seconds = Seconds(3600.0)

    @property
    def start(self) -> datetime:
        """The first moment."""
        return self.end - timedelta(seconds=self.length)


@dataclass(frozen=True, slots=True)
class Store:
    """A server that remembers, and what things are called there."""

    server: Prometheus
    words: Words = Words()
    labels: PodLabels = PodLabels()


@dataclass(slots=True)
class Progress:
    """How far: the moment, rows told so far, containers met, and pods that could be matched to no workload."""

    at: datetime
    rows: int = 0
    left_out: int = 0
    containers: set[tuple[str, str, str]] = field(default_factory=set)
    unmatched: set[Name] = field(default_factory=set)


class History:
    """One cluster's past into one log."""

    def __init__(self, store: Store, log: Log, topics: Topics, period: Period) -> None:
        self._store, self._log, self._topics, self._period = store, log, topics, period
        self._codec = Codec(topics)
        self._scrapes = Scrapes(topics, self._codec, period.cluster, SOURCE)

    def begin(self, *, force: bool = False) -> datetime:
        """The first moment to tell: the newest that is told already, if any. Raises BadInput where history comes too late."""
        told = self._period.start
        for event in self._said(told):
            if event.history:
                told = max(told, event.at)
            elif not force:
                raise BadInput(
                    f"the log holds usage of cluster '{self._period.cluster}' of {event.at:%Y-%m-%d %H:%M} UTC, later than the "
                    f"beginning of this history ({self._period.start:%Y-%m-%d %H:%M} UTC): what is older than the usage that "
                    "counts already would count as nothing. Read history before the usage source runs; --force adds it still"
                )
        return told

    def play(self, begin: datetime) -> Iterator[Progress]:
        """Tell everything from `begin` on, and say how far after each append.

        An append that fails ends it; the next run goes on there. Raises LogUnavailable, TryAgain, GiveUp and BadInput.
        """
        owners, progress = self._owners(), Progress(begin)
        remembered = Remembered(self._store.server, self._store.words, self._period.step)
        for table in remembered.tables(begin.timestamp(), self._period.end.timestamp()):
            for records in self._records(table, owners, progress):
                self._log.append(records)
            yield progress
        if not progress.containers:
            words = self._store.words
            job = f"job '{words.job}'" if words.job else "any job"
            raise BadInput(
                f"'{self._store.server.url}' remembers no containers of {job} from {begin:%Y-%m-%d %H:%M} UTC on; "
                f"prometheus.job and the labels '{words.namespace_label}', '{words.pod_label}' and '{words.container_label}' "
                "must be those of its cAdvisor metrics"
            )

    def _said(self, since: datetime) -> Iterator[MetricsScraped]:
        """What the log holds of this cluster's usage since then, history or not."""
        for record in log_range.read_range(self._log, [self._topics.wire("pod-metrics")], since=since):
            event = self._codec.decode_or_none(record)
            if isinstance(event, MetricsScraped) and event.cluster == self._period.cluster and event.at > since:
                yield event

    def _owners(self) -> Owners:
        period = self._period
        back = timedelta(seconds=period.length) + BACK
        pods = Pods(self._log, self._topics, self._codec, cluster=period.cluster, gone_for=back)
        pods.follow(period.end, back=back)
        labels = self._store.labels.ask(self._store.server, period.end, period.length, period.step)
        return Owners(pods, vpas(self._log, self._topics, self._codec, period.cluster), labels)

    def _records(self, table: Table, owners: Owners, progress: Progress) -> Iterator[Sequence[NewRecord]]:
        """A moment after the other. Of containers whose pods belong to nobody there is nothing.

        Each is an append of its own: where one fails in the middle, what all partitions have ends at the moment before.
        """
        progress.containers.update(table.containers)
        mine = np.array([owners.workload(*name[:2]) is not None for name in table.containers], np.bool_)
        progress.unmatched |= {name[:2] for name in compress(table.containers, (~mine).tolist())}
        names = list(compress(table.containers, mine.tolist()))
        namespaces, pods, containers = (tuple(name[part] for name in names) for part in range(3))
        cores, memory = np.trunc(table.cores[mine] * 1000) / 1000, np.trunc(table.memory[mine])
        for place, moment in enumerate(table.moments):
            progress.at = times.from_seconds(moment)
            ends = np.full(len(names), moment)
            rows = Readings(namespaces, pods, containers, cores[:, place], memory[:, place], ends, self._period.step)
            yield self._told(sieve(rows, progress.at), owners, progress)

    def _told(self, rows: Readings, owners: Owners, progress: Progress) -> Sequence[NewRecord]:
        self._complain(rows.bad)
        progress.left_out += len(rows.bad)
        if not len(rows):
            return ()
        progress.rows += len(rows)
        keys = [owners.workload(*name) or "" for name in zip(rows.namespaces, rows.pods, strict=True)]
        columns = Rows(keys, rows.pods, rows.containers, rows.cores, rows.memory)
        return self._scrapes.records(columns, Scraped(progress.at, self._period.step, history=True))

    def _complain(self, bad: Sequence[Bad]) -> None:
        for row in bad:
            where = f"{row.namespace}/{row.pod}"
            _log.warning("usage left out", pod=where, container=row.container, value=row.value, reason=row.reason)
