"""Runs `ullage source usage`, on an interval until stopped, and `ullage source history`, once.

Of several instances of the first, the holder of the Lease works.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from agents.processes.process_lease import Turns, holder_lease
from agents.processes.process_telemetry import fitting_log, require_fitting, telemetry_for
from agents.processes.signals import pause, until_stopped
from agents.processes.source_clock import event_time
from agents.settings import cluster_factory, log_factory
from agents.settings.all_settings import Settings
from agents.settings.usage_source_settings import PrometheusSettings
from agents.telemetry import DependencyStatus, SourceMetrics, UsageMetrics
from agents.terminal.output import note
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.prometheus import AnswerLimits, Credentials, Prometheus
from streams.errors import BadInput, EdgeError, LogUnavailable
from streams.log_context import LogContext
from streams.sources.usage import promql
from streams.sources.usage.history_source import HistoryPeriod, HistoryProgress, HistorySource, MetricsStore, PodLabelQuery
from streams.sources.usage.metrics_api_usage import MetricsApiUsage
from streams.sources.usage.promql import MetricNames, PrometheusUsage
from streams.sources.usage.readings import Readings
from streams.sources.usage.usage_source import NAME, UsageOptions, UsageSource

_NAMES = {"prometheus": "Prometheus", "metrics-api": "the metrics API"}
STANDBY = 1.0
"""Seconds between two looks at whether another instance is still at work."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def usage(settings: Settings) -> None:
    """Publish what containers use, until stopped."""
    if settings.usage.reads == "remote-write":
        from agents.processes.source_remote_write import remote_write

        return remote_write(settings)
    topics, ours = log_factory.topics(settings), settings.usage
    read, where = _reader(settings)
    options = UsageOptions(Seconds(ours.interval_seconds), ours.missing_is_zero, when_empty(settings))
    server, turns = (
        DependencyStatus(_NAMES[ours.reads], not_yet=f"{where} was not asked for usage yet"),
        Turns(NAME, holder_lease("source-usage", settings)),
    )

    def reasons() -> Sequence[str]:
        return [] if turns.stands_by else server.reasons()

    def ask(at: datetime) -> Readings:
        # a server that takes too long shows in /readyz before the call comes back
        with server.asking(within=Seconds(ours.timeout_seconds)):
            return read(at)

    with until_stopped(), telemetry_for("usage", settings, reasons) as telemetry, fitting_log(settings) as log, turns.taken():
        log_metrics, metrics = SourceMetrics(telemetry.registry, topics, NAME), UsageMetrics(telemetry.registry)
        context = LogContext.of(telemetry.observe(log, log_metrics), topics, settings.cluster.name)
        source = UsageSource(ask, context, options)
        note(f"asking {where} for usage of cluster '{context.cluster}' every {ours.interval_seconds:g} s")
        if ours.reads == "prometheus":
            warn_of_clusters(metrics_store(settings), event_time(settings))
        while True:
            begun, wait = time.monotonic(), STANDBY
            if turns.at_work():
                scrape(source, event_time(settings), metrics, server)
                log_metrics.dropped(source.dropped)
                metrics.rows(source.counts, source.pending)
                metrics.used(settings.cluster.name, source.used)
                wait = ours.interval_seconds
            pause(max(0.0, begun + wait - time.monotonic()))


def prometheus(ours: PrometheusSettings, limits: AnswerLimits | None = None) -> Prometheus:
    """The server that the settings name; `limits`, if given, replace theirs. Raises BadInput."""
    credentials = Credentials(
        username=ours.username,
        password=ours.password.get_secret_value() if ours.password else None,
        password_file=ours.password_file,
        token=ours.token.get_secret_value() if ours.token else None,
        token_file=ours.token_file,
        headers=dict(_headers(ours.headers.get_secret_value() if ours.headers else "")),
    )
    limits = limits or AnswerLimits(Seconds(ours.timeout_seconds))
    return Prometheus(ours.url, credentials, limits=limits, insecure=ours.insecure, ca=ours.ca)


def _headers(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of `Name: value` lines."""
    for number, line in enumerate(text.splitlines(), start=1):
        name, colon, value = line.partition(":")
        if line.strip():
            if not colon or not _HEADER.fullmatch(name.strip()):
                # without the value, which is a secret
                raise BadInput(f"line {number} of prometheus.headers is no header such as 'X-Scope-OrgID: shop'")
            yield name.strip(), value.strip()


def metric_names(settings: Settings) -> MetricNames:
    """The names of metrics and labels on that server."""
    ours = settings.prometheus
    return MetricNames(
        cpu_metric=ours.cpu_metric,
        memory_metric=ours.memory_metric,
        job=ours.job,
        namespaces=settings.cluster.namespaces,
        namespace_label=ours.namespace_label,
        pod_label=ours.pod_label,
        container_label=ours.container_label,
        labels=ours.labels,
    )


def when_empty(settings: Settings) -> str:
    """What to look at when the server's answer names no container."""
    if settings.usage.reads == "metrics-api":
        return "is metrics-server at work, and are there pods in cluster.namespaces?"
    job = settings.prometheus.job
    what = f"are prometheus.job '{job}'" if job else "are"
    where = "this server has" if settings.usage.reads == "prometheus" else "senders bring"
    return f"{what}, prometheus.labels and the names of metrics what {where}? An empty prometheus.job asks for any"


def _reader(settings: Settings) -> tuple[Callable[[datetime], Readings], str]:
    """A function that reads usage, and a description of the server that it asks."""
    ours = settings.usage
    if ours.reads == "prometheus":
        server = prometheus(settings.prometheus)
        return PrometheusUsage(server, metric_names(settings), Seconds(ours.rate_seconds)).read, server.url
    api = Api(cluster_factory.connection(settings.cluster), timeout=Seconds(ours.timeout_seconds))
    return MetricsApiUsage(
        api, cluster=settings.cluster.name, namespaces=settings.cluster.namespaces
    ).read, cluster_factory.address(settings.cluster)


def scrape(source: UsageSource, at: datetime, metrics: UsageMetrics, server: DependencyStatus) -> None:
    """Scrape once. A failure is counted, and the next scrape tries again."""
    begun = time.monotonic()
    try:
        source.scrape(at)
    except EdgeError as error:
        metrics.failed()
        server.failed(str(error))
    except LogUnavailable:  # the telemetry of the log reports that
        metrics.failed()
    else:
        metrics.scraped(time.monotonic() - begun)
        server.answered()


def history_period(settings: Settings, until: datetime | None = None) -> HistoryPeriod:
    """The period that the settings name, up to `until` or else to now. Raises BadInput for a time without an offset from UTC."""
    if until is not None and until.tzinfo is None:
        raise BadInput(f"--until '{until.isoformat()}' has no offset from UTC; say {until.isoformat()}+00:00 if it is UTC")
    # whole seconds, as the server's steps are
    ours, end = settings.history, (until or event_time(settings)).replace(microsecond=0)
    return HistoryPeriod(end, Seconds(ours.length_seconds), Seconds(ours.resolution_seconds))


def history(settings: Settings, *, until: datetime | None, force: bool) -> None:
    """Publish what the Prometheus server remembers of the time before `until`, and end."""
    topics, store, period = log_factory.topics(settings), metrics_store(settings), history_period(settings, until)
    with until_stopped(), telemetry_for("history", settings) as telemetry, log_factory.log(settings) as log:
        require_fitting(log, settings)
        observed = telemetry.observe(log, SourceMetrics(telemetry.registry, topics, "history"))
        context = LogContext.of(observed, topics, settings.cluster.name)
        source = HistorySource(store, context, period)
        begin = source.begin(force=force)
        note(f"asking {store.server.url} what cluster '{context.cluster}' used from {begin:%Y-%m-%d %H:%M} UTC on")
        warn_of_clusters(store, period.end)
        progress = HistoryProgress(begin)
        for progress in source.publish(begin):
            note(f"{progress.rows} samples of {len(progress.containers)} containers, up to {progress.at:%Y-%m-%d %H:%M} UTC")
        note(_ended(progress))


def metrics_store(settings: Settings) -> MetricsStore:
    """The server that the settings name, and what usage and pods' labels are called there. Raises BadInput."""
    ours = settings.prometheus
    labels = PodLabelQuery(ours.pod_labels, ours.pod_labels_prefix, ours.pod_labels_namespace, ours.pod_labels_pod, ours.labels)
    return MetricsStore(prometheus(ours), metric_names(settings), labels)


def warn_of_clusters(store: MetricsStore, at: datetime) -> None:
    """Say it where the server has several clusters and nothing chooses one of them."""
    try:
        warning = promql.several_clusters(store.server.query(store.names.clusters(), at))
    except EdgeError:
        return  # whoever reads usage next says so
    if warning is not None:
        note(warning)


def _ended(progress: HistoryProgress) -> str:
    summary = f"history is in the log: {progress.rows} samples, {progress.left_out} left out"
    if not progress.unmatched:
        return f"{summary}; every pod belongs to a workload"
    first = "/".join(min(progress.unmatched))
    return f"{summary}; {len(progress.unmatched)} pods could be matched to no workload, such as {first}"
