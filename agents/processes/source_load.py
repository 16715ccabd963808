"""Runs `ullage source load`: queries Prometheus for the loads that workloads are scaled by, until stopped."""

import time
from collections.abc import Sequence

from agents.logic.replicas.metric_series import WantedLoads
from agents.processes.process_telemetry import fitting_log, telemetry_for
from agents.processes.signals import pause, until_stopped
from agents.processes.source_clock import event_time
from agents.processes.source_usage import prometheus
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.telemetry import DependencyStatus, SourceMetrics
from agents.terminal.output import note
from schemas.catalogue import Event
from schemas.units import Bytes, Seconds
from streams.clients.prometheus import AnswerLimits
from streams.errors import EdgeError, LogUnavailable
from streams.log_context import LogContext
from streams.sources.load_queries import LoadQueries
from streams.sources.load_source import NAME, LoadOptions, LoadSource, LoadWish
from streams.sources.usage.promql import matchers


class LoadWishesOfObjects:
    """The series that EHPAs and TimeSeriesPredictions need, in the source's form."""

    def __init__(self, wanted: WantedLoads) -> None:
        self._wanted = wanted

    def apply(self, event: Event) -> None:
        """Take in one event of `policies`."""
        self._wanted.apply(event)

    def series(self) -> Sequence[LoadWish]:
        """Every series that some query gives, each once."""
        return [LoadWish(load.workload, load.series, load.asked, load.scraped, load.by_tenant) for load in self._wanted.series()]


def run(settings: Settings) -> None:
    """Publish what loads are, until stopped. The process is ready once the server has answered, and not while it does not."""
    ours, topics = settings.load, log_factory.topics(settings)
    limits = AnswerLimits(Seconds(ours.timeout_seconds), Bytes(ours.most_bytes))
    server = prometheus(settings.prometheus, limits)
    status = DependencyStatus("Prometheus", not_yet=f"{server.url} was not asked for loads yet")
    with until_stopped(), telemetry_for(NAME, settings, status.reasons) as telemetry, fitting_log(settings) as log:
        metrics = SourceMetrics(telemetry.registry, topics, NAME)
        context = LogContext.of(telemetry.observe(log, metrics), topics, settings.cluster.name)
        labels = matchers(settings.prometheus.labels)
        wanted = WantedLoads(context.cluster, topics.partition_of, settings.replicas.most_metrics, labels)
        options = LoadOptions(
            Seconds(ours.interval_seconds), Seconds(ours.history_seconds), ours.histories, ours.concurrency, ours.tenant_queries
        )
        source = LoadSource(LoadQueries(server), context, LoadWishesOfObjects(wanted), options)
        note(f"asking {server.url} for the loads of cluster '{context.cluster}' every {ours.interval_seconds:g} s")
        try:
            while True:
                begun = time.monotonic()
                _scrape(source, settings, status)
                metrics.dropped(source.dropped)
                pause(max(0.0, begun + ours.interval_seconds - time.monotonic()))
        finally:
            source.close()


def _scrape(source: LoadSource, settings: Settings, status: DependencyStatus) -> None:
    """One round. After a failure the next one tries again."""
    try:
        source.scrape(event_time(settings))
    except EdgeError as error:
        status.failed(str(error))
    except LogUnavailable:  # the telemetry of the log reports that
        return
    else:
        status.answered()
