"""Reads pods and usage for `ullage scan`, and runs the recommender on them: all in memory, without a log or Kafka.

The recommender's stage is the one that workers run. A store of metrics is read as `ullage source history` reads it, a metrics API
as `ullage source usage` does, a cluster as `ullage source kube` does; a trace is played as a backtest plays it.
"""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from agents.backtest.event_runner import EventRunner, RoutedEvent
from agents.engine.stage import Stage
from agents.engine.turn import BatchDecided, DeferredBatch
from agents.processes import component_rights
from agents.processes.source_clock import event_time
from agents.processes.source_usage import history_period, metrics_store, warn_of_clusters
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.run.stage_topics import input_topics
from agents.settings import cluster_factory
from agents.settings.all_settings import Settings, for_partitions
from agents.telemetry import logging_setup
from agents.terminal.output import note
from schemas import times
from schemas.catalogue import Event
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.units import Seconds
from streams.clients.kube.api import Api, ApiRequest
from streams.errors import BadInput, EdgeError, Unreachable
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.log_range import read_range
from streams.sources.clock import TickWriter
from streams.sources.kube.kube_source import SourceOptions
from streams.sources.kube.watch_threads import WatchThreads
from streams.sources.traces import Trace, TraceMoments
from streams.sources.usage.history_source import HistorySource
from streams.sources.usage.metrics_api_usage import MetricsApiUsage
from streams.sources.usage.prometheus_export import ExportedPods
from streams.sources.usage.usage_source import UsageOptions, UsageSource
from streams.topics import TOPICS, Topics

_SCAN = Topics("scan", 1)
_ANSWER = Seconds(5.0)
"""Seconds in which an API server must answer at all."""
_OK = 200
_PATIENCE = 60.0
"""Seconds in which an API server must have listed everything."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What was found: the newest recommendation and the pods of each workload, by its key, and the time it is of."""

    at: datetime
    decisions: Mapping[str, RequestsRecommended]
    pods: Mapping[str, Sequence[PodChanged]]


class ScannedPods:
    """The pods of each workload that are there, or its last one, by name in whatever order they were said."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, PodChanged]] = {}

    def take(self, event: Event | None) -> None:
        """The next event, in order of time; only those about pods matter."""
        if isinstance(event, PodChanged):
            self._pods.setdefault(event.workload.key, {})[event.pod.uid] = event
        elif isinstance(event, PodDeleted):
            pods = self._pods.get(event.workload.key, {})
            # the last pod stays, because its requests are those of a workload that runs now and then
            if len(pods) > 1:
                pods.pop(event.pod.uid, None)

    def by_workload(self) -> dict[str, list[PodChanged]]:
        """The pods by the key of their workload."""
        return {key: sorted(pods.values(), key=lambda pod: (pod.pod.name, pod.pod.uid)) for key, pods in self._pods.items()}


def of_trace(settings: Settings, file: Path) -> Scanned:
    """From a file of recorded usage."""
    decisions: dict[str, RequestsRecommended | tuple[DeferredBatch, int]] = {}
    pods = ScannedPods()
    events: list[RoutedEvent] = []
    leaving: list[RoutedEvent] = []
    at = times.EPOCH
    note(f"reading '{file}'")
    with Trace(file) as trace:
        for fault in trace.faults:
            note(fault)
        runner = EventRunner([_recommender(settings)], _SCAN, input_topics())
        for moment in TraceMoments(trace, _SCAN, settings.cluster.name):
            # What is gone with the trace's end was there at its end, so a pod goes with the facts of the next moment.
            events += leaving
            for fact in leaving:
                pods.take(fact.event)
            facts = [RoutedEvent(fact.fact, fact.topic, fact.partition) for fact in moment.facts]
            leaving = [fact for fact in facts if isinstance(fact.event, PodDeleted)]
            for fact in facts:
                if not isinstance(fact.event, PodDeleted):
                    pods.take(fact.event)
                    events.append(fact)
            if moment.ends:
                at = moment.at
                [taken] = runner.turn(times.nearest_ms(at), events)
                decided, events = taken.decided, []
                if isinstance(decided, BatchDecided):
                    # thousands of recommendations a turn, of which only the last of each workload is built as an event
                    decisions |= {subject: (decided.batch, number) for number, subject in enumerate(decided.batch.subjects)}
                    decided = decided.others
                decisions |= {e.event.workload.key: e.event for e in decided if isinstance(e.event, RequestsRecommended)}
    return Scanned(at, {key: _built(decision) for key, decision in decisions.items()}, pods.by_workload())


def _built(decision: RequestsRecommended | tuple[DeferredBatch, int]) -> RequestsRecommended:
    if isinstance(decision, RequestsRecommended):
        return decision
    batch, number = decision
    event = batch.decision(number).event
    if not isinstance(event, RequestsRecommended):
        raise TypeError(f"the recommender decided a {type(event).__name__}")
    return event


def of_prometheus(settings: Settings, *, from_cluster: bool, until: datetime | None = None) -> Scanned:
    """From the history of a Prometheus server up to `until`, without it up to now.

    Pods come from the cluster's API server or, without one, from kube-state-metrics.
    """
    context, store, period = _context(settings), metrics_store(settings), history_period(settings, until)
    warn_of_clusters(store, period.end)
    if from_cluster:
        _list_cluster(settings, context)
    else:
        exported = ExportedPods(store.server, settings.cluster.name, period.end, period.length, settings.prometheus.labels)
        _publish_exported(context, exported, period.start)
    source = HistorySource(store, context, period)
    for progress in source.publish(source.begin()):
        note(f"{progress.rows:,} samples of {len(progress.containers):,} containers, up to {progress.at:%Y-%m-%d %H:%M} UTC")
    return _recommended(settings, context, period.end)


def of_metrics_api(settings: Settings, samples: int) -> Scanned:
    """From the cluster's metrics API, so many samples one interval apart. It keeps no history, so a single sample says little."""
    context, ours = _context(settings), settings.usage
    _list_cluster(settings, context)
    api = Api(cluster_factory.connection(settings.cluster), timeout=Seconds(ours.timeout_seconds))
    usage = MetricsApiUsage(api, cluster=settings.cluster.name, namespaces=settings.cluster.namespaces)
    source = UsageSource(usage.read, context, UsageOptions(Seconds(ours.interval_seconds), ours.missing_is_zero))
    for number in range(samples):
        if number:
            time.sleep(ours.interval_seconds)
        source.scrape(event_time(settings))
        note(f"sample {number + 1} of {samples}")
    return _recommended(settings, context, event_time(settings))


def _context(settings: Settings) -> LogContext:
    log = MemoryLog()
    for topic in TOPICS:
        log.create(_SCAN.wire(topic.name), _SCAN.count(topic.name))
    return LogContext.of(log, _SCAN, settings.cluster.name)


def _recommender(settings: Settings) -> Stage:
    return next(stage for stage in stages(for_partitions(settings, _SCAN.partitions)) if stage.name == "recommender")


def _publish_exported(context: LogContext, exported: ExportedPods, begin: datetime) -> None:
    """Append them as facts."""
    for pod in exported.read():
        fact = pod.event
        gone = () if pod.alive else (PodDeleted(exported.at, fact.workload, fact.pod),)
        # a pod that is gone was there from the beginning, so that its usage still counts for its workload
        for event in (fact if pod.alive else replace(fact, at=begin, created=begin), *gone):
            for topic, key in (("pod-changes", fact.workload.key), ("pod-changes-by-cluster", fact.workload.cluster)):
                context.log.append([context.codec.encode(event, topic=topic, key=key, partition=0, source="/ullage/source/scan")])


def _list_cluster(settings: Settings, context: LogContext) -> None:
    """Let the kube source publish everything once. Raises BadInput when that takes too long."""
    api = Api(cluster_factory.connection(settings.cluster), timeout=_ANSWER)
    where = cluster_factory.address(settings.cluster)
    try:
        answer = api.send(ApiRequest("/version", "asking for its version", where))
    except Unreachable as error:
        raise BadInput(f"nobody answers at '{where.partition('://')[2] or where}', the cluster that is named") from error
    if answer.code != _OK:
        raise BadInput(f"'{where}' answers HTTP {answer.code}: are the credentials right?")
    logging_setup.set_up("scan")
    options = SourceOptions(lambda: event_time(settings), settings.cluster.namespaces)
    threads, stop = WatchThreads(api, context, options), threading.Event()
    until, settled = time.monotonic() + _PATIENCE, 0

    _require_rights(api, settings, threads.sync_status.kinds)

    def after() -> None:
        nonlocal settled
        reasons = threads.sync_status.reasons()
        # several rounds in a row, because a list that has just come may ask for further look-ups
        settled = 0 if reasons else settled + 1
        if threads.sync_status.refusals() or settled > 2 or time.monotonic() > until:  # noqa: PLR2004  # rounds in which look-ups came back
            stop.set()

    threads.run(stop, after=after)
    if refused := threads.sync_status.refusals():
        raise BadInput(f"'{where}' does not let this account see what a scan needs: {refused[0]}")
    if reasons := threads.sync_status.reasons():
        raise BadInput(f"'{where}' did not list everything within {_PATIENCE:g} s: {reasons[0]}")


def _require_rights(api: Api, settings: Settings, kinds: Collection[str]) -> None:
    """Raise BadInput if the account may not list in all namespaces."""
    # rights in single namespaces are not looked at: the list request will say it
    if settings.cluster.namespaces:
        return
    needed = [right for right in component_rights.RIGHTS["source kube"] if right.resource in kinds]
    try:
        missing = component_rights.missing(api, needed, namespace="")
    except EdgeError:
        return  # a refusal will be reported by the list request
    if missing:
        where = cluster_factory.address(settings.cluster)
        raise BadInput(
            f"this account may not {component_rights.listed(missing)} in '{where}': give it the role of "
            "deploy/helm/ullage/rbac/source-kube.yaml, or name the namespaces that it may see in cluster.namespaces"
        )


def _recommended(settings: Settings, context: LogContext, at: datetime) -> Scanned:
    """One turn that holds everything."""
    # after all facts, because a turn takes what lies before its tick
    TickWriter(context.log, context.topics).write(times.nearest_ms(at))
    Runner([_recommender(settings)], context).run()
    wires = [context.topics.wire(name) for name in ("recommendations", "pod-changes")]
    events = (context.codec.decode_or_none(record) for record in read_range(context.log, wires))
    decisions: dict[str, RequestsRecommended] = {}
    pods = ScannedPods()
    for event in events:
        pods.take(event)
        if isinstance(event, RequestsRecommended):
            decisions[event.workload.key] = event
    return Scanned(at, decisions, pods.by_workload())
