"""The history source: what a Prometheus server stored becomes facts in the log, before there are any live ones. It runs once.

It appends one record for each moment and partition, in order of time over all containers and marked as history, so a replay sees
what the recommender saw. A run that was stopped is continued by the next. The source refuses to add the past to a log that has
later usage, because none of it would count. A metrics store knows pods by name, and by labels if those are exported: the workload
of a pod that the log never knew follows from the VPAs whose selectors match, as upstream has it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import compress

import numpy as np
import structlog

from schemas import times
from schemas.facts.usage import MetricsScraped
from schemas.names import Workload
from schemas.policies.vpa import Requirement, VpaChanged, VpaRemoved
from schemas.units import Seconds
from streams import answer_bounds, compacted_copy, log_range, refused_records
from streams.answer_bounds import number
from streams.clients.prometheus import Prometheus, Series, TimeRange, duration
from streams.errors import BadInput, GiveUp, TryAgain, Unreachable
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.publishing.scrape_batches import ScrapeBatcher, ScrapeContext, UsageColumns
from streams.sources.usage.pod_workloads import READ_BACK, PodKey, PodWorkloads
from streams.sources.usage.promql import MetricNames, matchers, selector
from streams.sources.usage.readings import ContainerId, Floats, Readings, RejectedRow, reject_impossible

POINTS = 500_000
"""Most samples in one result, as far as we can estimate it: about 15 MB."""
MOMENTS = 10_000
"""Most moments in one result. Servers refuse more than 11,000."""


@dataclass(frozen=True, slots=True)
class UsageMatrix:
    """Cores and bytes, each (containers, moments), NaN where nothing was recorded. Moments are in seconds since the epoch."""

    moments: tuple[float, ...]
    containers: tuple[ContainerId, ...]
    cores: Floats
    memory: Floats


@dataclass(frozen=True, slots=True)
class UsageHistory:
    """The usage of one cluster that one server recorded. CPU is averaged over `step`."""

    server: Prometheus
    names: MetricNames
    step: Seconds

    def matrices(self, first: float, last: float) -> Iterator[UsageMatrix]:
        """From `first` to `last`, in seconds since the epoch and in order. Raises TryAgain and GiveUp."""
        steps = int((last - first) // self.step) + 1
        # Ranges are cut so that no result is large.
        at_once = max(1, min(MOMENTS, POINTS // max(1, self._count(last))))
        for begin in range(0, steps, at_once):
            moments = [first + self.step * i for i in range(begin, min(begin + at_once, steps))]
            yield self._matrix(tuple(moments))

    def _count(self, at: float) -> int:
        """How many containers there are, to know how many moments to ask for at once."""
        result = self.server.query(self.names.count(), times.from_seconds(at))
        return max((answer_bounds.count(answer_bounds.number(series.value[1])) for series in result if series.value), default=0)

    def _matrix(self, moments: tuple[float, ...]) -> UsageMatrix:
        cores = self._numbers(self.names.cpu(self.step), moments)
        memory = self._numbers(self.names.memory(), moments)
        containers = tuple(sorted(cores.keys() | memory.keys()))
        return UsageMatrix(moments, containers, *(_aligned(numbers, containers, moments) for numbers in (cores, memory)))

    def aligned(self, query: str, containers: Sequence[ContainerId], moments: tuple[float, ...]) -> Floats:
        """What a query gives of these containers at these moments (containers, moments), NaN for none. Raises as `matrices`."""
        return _aligned(self._numbers(query, moments), containers, moments)

    def _numbers(self, query: str, moments: tuple[float, ...]) -> dict[ContainerId, Floats]:
        numbers: dict[ContainerId, Floats] = {}
        for series in self._query(query, moments):
            column = numbers.setdefault(self.names.container(series), np.full(len(moments), np.nan))
            for at, text in series.values:
                place = answer_bounds.place(at, moments[0], self.step, len(moments))
                if place is not None:
                    column[place] = answer_bounds.number(text)
        return numbers

    def _query(self, query: str, moments: tuple[float, ...]) -> list[Series]:
        """The result, in halves where the server refuses the whole."""
        try:
            return self.server.query_range(query, TimeRange(moments[0], moments[-1], self.step))
        except Unreachable:  # it is a TryAgain, too, and halves would find nobody either
            raise
        except (GiveUp, TryAgain):  # the result may be too large for the server
            if len(moments) == 1:
                raise
        half = len(moments) // 2
        return [*self._query(query, moments[:half]), *self._query(query, moments[half:])]


def _aligned(numbers: Mapping[ContainerId, Floats], containers: Sequence[ContainerId], moments: Sequence[float]) -> Floats:
    none = np.full(len(moments), np.nan)
    return np.array([numbers.get(name, none) for name in containers]).reshape(len(containers), len(moments))


_ODD = re.compile(r"[^a-zA-Z0-9_]")
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodLabelQuery:
    """The metric that has pods' labels, and the names of its own labels. An empty `metric` means that there is none.

    `metric` may be a range selector, as upstream has it. Then the query is that selector. Otherwise `labels` tell the cluster
    from others on the same server.
    """

    metric: str = "kube_pod_labels"
    prefix: str = "label_"
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    labels: tuple[str, ...] = ()

    def ask(self, server: Prometheus, at: datetime, length: Seconds, step: Seconds) -> dict[PodKey, Labels]:
        """The labels that each pod had last in the `length` before `at`. Raises TryAgain and GiveUp."""
        if not self.metric:
            return {}
        is_range = self.metric.rstrip().endswith("]")
        chosen = self.metric if "{" in self.metric else self.metric + selector(matchers(self.labels))
        query = self.metric if is_range else f"max_over_time(timestamp({chosen})[{duration(length)}:{duration(step)}])"
        newest: dict[PodKey, tuple[float, Labels]] = {}
        for series in server.query(query, at):
            name = series.metric.get(self.namespace_label, ""), series.metric.get(self.pod_label, "")
            last = _last(series)
            # A pod whose labels changed has a series for each version of them.
            if last >= newest.get(name, (last, {}))[0]:
                newest[name] = last, self._labels(series)
        return {name: labels for name, (_, labels) in newest.items()}

    def _labels(self, series: Series) -> Labels:
        return {key.removeprefix(self.prefix): value for key, value in series.metric.items() if key.startswith(self.prefix)}


class PastWorkloads:
    """The workloads of one cluster's pods, existing and deleted."""

    def __init__(self, pods: PodWorkloads, served_vpas: Iterable[VpaChanged], labels: Mapping[PodKey, Labels]) -> None:
        self._pods, self._labels = pods, labels
        self._vpas: dict[str, list[VpaChanged]] = {}  # by age: of several that select a pod, the oldest gets it
        for vpa in sorted(served_vpas, key=lambda vpa: (vpa.created, vpa.name)):
            self._vpas.setdefault(vpa.namespace, []).append(vpa)
        self._workload_of: dict[PodKey, str | None] = {}

    def workload(self, namespace: str, pod: str) -> str | None:
        """The key of a pod's workload; None if neither the log nor a VPA shows it."""
        name = namespace, pod
        if name not in self._workload_of:
            # What a source saw is better than what labels suggest.
            logged = self._pods.workload(*name) or self._pods.former_workload(*name)
            self._workload_of[name] = logged or self._by_labels(*name)
        return self._workload_of[name]

    def _by_labels(self, namespace: str, pod: str) -> str | None:
        labels = self._labels.get((namespace, pod))
        if labels is None:
            return None
        return next((_target(vpa) for vpa in self._vpas.get(namespace, ()) if _matches(vpa, labels)), None)


def served_vpas(context: LogContext) -> list[VpaChanged]:
    """The VPAs of the context's cluster that have a target and a selector. Raises LogUnavailable."""
    vpas: dict[str, VpaChanged] = {}
    for record in compacted_copy.read_present(context.log, context.topics, "policies"):
        event = context.codec.decode_or_none(record)
        if isinstance(event, VpaChanged) and event.cluster == context.cluster:
            vpas[event.key] = event
        elif isinstance(event, VpaRemoved):
            vpas.pop(event.key, None)
    return list(_served(vpas.values()))


def _served(served_vpas: Iterable[VpaChanged]) -> Iterator[VpaChanged]:
    return (vpa for vpa in served_vpas if vpa.selector is not None and vpa.target_ref is not None and not vpa.unsupported)


def _target(vpa: VpaChanged) -> str | None:
    ref = vpa.target_ref
    return None if ref is None else Workload(vpa.cluster, vpa.namespace, ref.kind, ref.name).key


def _matches(vpa: VpaChanged, labels: Labels) -> bool:
    return vpa.selector is not None and all(_holds(requirement, labels) for requirement in vpa.selector)


def _holds(requirement: Requirement, labels: Labels) -> bool:
    # A metrics store changes the name of a label: what no label of a series may have becomes an underscore.
    return requirement.holds(labels.get(requirement.key, labels.get(_ODD.sub("_", requirement.key))))


def _last(series: Series) -> float:
    """When the newest sample was taken: the value, where the query asked for that, else the time of the last sample."""
    if series.value is not None:
        return number(series.value[1])
    return max((at for at, _ in series.values), default=0.0)


_log = structlog.get_logger(__name__)
SOURCE = "/ullage/source/history"


@dataclass(frozen=True, slots=True)
class HistoryPeriod:
    """What to ask for: `length` up to `end`, one sample each `step`. The defaults are upstream's: eight days by the hour."""

    end: datetime
    length: Seconds = Seconds(8 * 86_400.0)
    step: Seconds = Seconds(3600.0)

    @property
    def start(self) -> datetime:
        """The first moment."""
        return self.end - timedelta(seconds=self.length)


@dataclass(frozen=True, slots=True)
class MetricsStore:
    """A server that stores metrics, and their names there."""

    server: Prometheus
    names: MetricNames = MetricNames()
    labels: PodLabelQuery = PodLabelQuery()


@dataclass(slots=True)
class HistoryProgress:
    """How far the source is: the moment, rows published so far, containers found, and pods that match no workload."""

    at: datetime
    rows: int = 0
    left_out: int = 0
    containers: set[tuple[str, str, str]] = field(default_factory=set)
    unmatched: set[PodKey] = field(default_factory=set)


class HistorySource:
    """The past of the context's cluster into its log."""

    def __init__(self, store: MetricsStore, context: LogContext, period: HistoryPeriod) -> None:
        self._store, self._context, self._period = store, context, period
        self._batcher = ScrapeBatcher(context, SOURCE)

    def begin(self, *, force: bool = False) -> datetime:
        """The first moment to publish: the newest that is published, if any. Raises BadInput where history comes too late."""
        newest = self._period.start
        for event in self._published(newest):
            if event.history:
                newest = max(newest, event.at)
            elif not force:
                raise BadInput(
                    f"the log holds usage of cluster '{self._context.cluster}' of {event.at:%Y-%m-%d %H:%M} UTC, later than the "
                    f"beginning of this history ({self._period.start:%Y-%m-%d %H:%M} UTC): what is older than the usage that "
                    "counts already would count as nothing. Read history before the usage source runs; --force adds it still"
                )
        return newest

    def publish(self, begin: datetime) -> Iterator[HistoryProgress]:
        """Publish everything from `begin` on, and yield how far it is after each part.

        An append that fails ends it; the next run continues there. Raises LogUnavailable, TryAgain, GiveUp and BadInput.
        """
        workloads, progress = self._workloads(), HistoryProgress(begin)
        usage = UsageHistory(self._store.server, self._store.names, self._period.step)
        for matrix in usage.matrices(times.to_seconds(begin), times.to_seconds(self._period.end)):
            for records in self._records(matrix, workloads, progress):
                refused_records.append(self._context.log, self._context.topics, records)
            yield progress
        if not progress.containers:
            names = self._store.names
            job = f"job '{names.job}'" if names.job else "any job"
            raise BadInput(
                f"'{self._store.server.url}' remembers no containers of {job} from {begin:%Y-%m-%d %H:%M} UTC on; "
                f"prometheus.job and the labels '{names.namespace_label}', '{names.pod_label}' and '{names.container_label}' "
                "must be those of its cAdvisor metrics"
            )

    def _published(self, since: datetime) -> Iterator[MetricsScraped]:
        """The usage of this cluster that the log holds since then, history or not."""
        context = self._context
        for record in log_range.read_range(context.log, [context.topics.wire("pod-metrics")], since=since):
            event = context.codec.decode_or_none(record)
            if isinstance(event, MetricsScraped) and event.cluster == context.cluster and event.at > since:
                yield event

    def _workloads(self) -> PastWorkloads:
        period = self._period
        read_back = timedelta(seconds=period.length) + READ_BACK
        pods = PodWorkloads(self._context, remember_deleted=read_back)
        pods.catch_up(period.end, read_back=read_back)
        labels = self._store.labels.ask(self._store.server, period.end, period.length, period.step)
        return PastWorkloads(pods, served_vpas(self._context), labels)

    def _records(self, matrix: UsageMatrix, workloads: PastWorkloads, progress: HistoryProgress) -> Iterator[Sequence[NewRecord]]:
        """One moment after the other, without containers whose pods match no workload."""
        progress.containers.update(matrix.containers)
        matched = np.array([workloads.workload(*name[:2]) is not None for name in matrix.containers], np.bool_)
        progress.unmatched |= {name[:2] for name in compress(matrix.containers, (~matched).tolist())}
        names = list(compress(matrix.containers, matched.tolist()))
        namespaces, pods, containers = (tuple(name[part] for name in names) for part in range(3))
        # Cut to whole millicores and bytes, as upstream cuts them when it starts from Prometheus.
        cores, memory = np.trunc(matrix.cores[matched] * 1000) / 1000, np.trunc(matrix.memory[matched])
        # Each moment is an append of its own: if one fails, what every partition has ends at the moment before.
        for column, moment in enumerate(matrix.moments):
            progress.at = times.from_seconds(moment)
            ends = np.full(len(names), moment)
            rows = Readings(namespaces, pods, containers, cores[:, column], memory[:, column], ends, self._period.step)
            yield self._moment_records(reject_impossible(rows, progress.at), workloads, progress)

    def _moment_records(self, rows: Readings, workloads: PastWorkloads, progress: HistoryProgress) -> Sequence[NewRecord]:
        _log_rejected(rows.rejected)
        progress.left_out += len(rows.rejected)
        if not len(rows):
            return ()
        progress.rows += len(rows)
        keys = [workloads.workload(*name) or "" for name in zip(rows.namespaces, rows.pods, strict=True)]
        columns = UsageColumns(keys, rows.pods, rows.containers, rows.cores, rows.memory)
        return self._batcher.records(columns, ScrapeContext(progress.at, self._period.step, history=True))


def _log_rejected(rejected: Sequence[RejectedRow]) -> None:
    for row in rejected:
        pod = f"{row.namespace}/{row.pod}"
        _log.warning("usage left out", pod=pod, container=row.container, value=row.value, reason=row.reason)
