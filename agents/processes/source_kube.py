"""Runs `ullage source kube`: watches a real cluster and publishes its facts, until stopped.

Of several instances the holder of the Lease works; one that loses it ends, and stands by when it is started again.
"""

import gc
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import structlog

from agents.logic import stage_rules
from agents.logic.nodes.growth.expanders import Expander
from agents.logic.replicas import adapter_rules
from agents.logic.replicas.adapter_rules import MetricRule
from agents.logic.replicas.ehpa_manifest import ehpa_of
from agents.logic.replicas.metric_queries import escaped
from agents.logic.updates.update_settings import UpdateSettings
from agents.processes import dependency_probes
from agents.processes.process_lease import holder_lease
from agents.processes.process_telemetry import fitting_log, telemetry_for
from agents.processes.signals import ending, until_stopped
from agents.processes.source_clock import event_time
from agents.settings import cluster_factory, log_factory
from agents.settings.all_settings import Settings
from agents.telemetry import SourceMetrics
from agents.terminal.output import note
from schemas.policies.ehpa import EhpaChanged
from streams import yaml_reader
from streams.admin import kafka_users
from streams.clients.kube import commanding_objects
from streams.clients.kube.api import Api
from streams.consumers.executing.holder_lease import HolderLease
from streams.errors import BadInput
from streams.log_context import LogContext
from streams.sources.kube.kube_source import NAME, SourceOptions
from streams.sources.kube.publish.cluster_control import ControlDoor
from streams.sources.kube.publish.policy_objects import PolicyDoor
from streams.sources.kube.watch.watched_resources import PrioritiesMap, WebhookLease
from streams.sources.kube.watch_threads import WatchThreads

_log = structlog.get_logger(__name__)


class AdapterQueries:
    """The queries of EHPAs. Raises BadInput at the start for an unusable file; later the last good one counts."""

    def __init__(self, path: Path | None, labels: Sequence[str]) -> None:
        self._path = path
        self._extra = tuple(f'{key}="{escaped(value)}"' for key, _, value in (label.partition("=") for label in labels))
        self._read_at, self._rules = self._load() if path is not None else (0, ())

    def __call__(self, ehpa: EhpaChanged) -> Mapping[str, str]:
        """The queries that the rules give for its metrics, by identifier."""
        self._follow()
        if not self._rules:
            return {}
        try:
            read = ehpa_of(ehpa)
        except ValueError:  # it is published as unsupported
            return {}
        queries = {metric.identifier: adapter_rules.query(read, metric, self._rules, self._extra) for metric in read.metrics}
        return {identifier: query for identifier, query in queries.items() if query}

    def _follow(self) -> None:
        if self._path is None:
            return
        try:
            if self._path.stat().st_mtime_ns != self._read_at:
                self._read_at, self._rules = self._load()
        except (OSError, BadInput) as error:
            _log.warning("the rules of prometheus-adapter are as they were", reason=str(error))
            # one warning for each bad version of the file, and not one for each EHPA
            self._read_at = self._path.stat().st_mtime_ns if self._path.exists() else self._read_at

    def _load(self) -> tuple[int, tuple[MetricRule, ...]]:
        path = self._path
        if path is None:
            return 0, ()
        try:
            config = yaml_reader.read_file(path, f"cluster.adapter_rules '{path}'")
            return path.stat().st_mtime_ns, adapter_rules.read(config if isinstance(config, Mapping) else {})
        except (OSError, ValueError) as error:
            raise BadInput(f"cluster.adapter_rules '{path}': {error}") from error


def run(settings: Settings) -> None:
    """Watch until stopped. The process is ready once every resource has been listed. Raises BadInput."""
    # nodes that look empty by a part of the pods would be removed
    if settings.cluster.nodes and settings.cluster.namespaces:
        raise BadInput("cluster.nodes needs the pods of all namespaces; cluster.namespaces must be empty with it")
    ours, topics, readiness = settings.cluster, log_factory.topics(settings), _Readiness()
    api = Api(cluster_factory.connection(ours))
    with until_stopped(), telemetry_for(NAME, settings, readiness.reasons) as telemetry, fitting_log(settings) as log:
        telemetry.dependencies.watch(dependency_probes.API_SERVER, dependency_probes.api_server(settings))
        metrics = SourceMetrics(telemetry.registry, topics, NAME)
        context = LogContext.of(telemetry.observe(log, metrics), topics, ours.name)
        options = SourceOptions(
            partial(event_time, settings),
            ours.namespaces,
            nodes=ours.nodes,
            replicas=ours.replicas,
            queries=AdapterQueries(ours.adapter_rules, ours.adapter_labels),
            webhook=WebhookLease(settings.webhook.lease_namespace or settings.webhook.namespace, settings.webhook.lease),
            priorities=_priorities(settings),
            control=ControlDoor(partial(commanding_objects.write_control_status, api), partial(_why_open, settings))
            if ours.control
            else None,
            policies=PolicyDoor(partial(commanding_objects.write_policy_status, api), partial(stage_rules.fault, UpdateSettings))
            if ours.policies
            else None,
        )
        readiness.threads = threads = WatchThreads(api, context, options)
        note(f"watching cluster '{ours.name}' at {cluster_factory.address(ours)}")

        def after() -> None:
            metrics.dropped(threads.source.dropped)
            readiness.settle()

        lease = readiness.lease = holder_lease("source-kube", settings)
        with nullcontext() if lease is None else lease.renewed(NAME):
            threads.run(ending(), after=after, held=lambda: lease is None or lease.held)


def _priorities(settings: Settings) -> PrioritiesMap | None:
    """The ConfigMap of the priority expander, if that expander is configured. Raises BadInput."""
    if Expander.PRIORITY not in settings.nodes.chain():
        return None
    namespace, slash, name = settings.cluster.priorities.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise BadInput(f"cluster.priorities is '{settings.cluster.priorities}'; it must be NAMESPACE/NAME of a ConfigMap")
    return PrioritiesMap(namespace, name)


def _why_open(settings: Settings) -> str | None:
    """Why anybody may command through this log; None when only those with rights may."""
    return None if settings.log.kind != "kafka" else kafka_users.why_open(log_factory.connection(settings))


class _Readiness:
    """Whether everything was listed. The health server starts before the watches, so at first there are none."""

    threads: WatchThreads | None = None
    settled = False
    lease: HolderLease | None = None

    def settle(self) -> None:
        """Once everything is listed, exempt it from garbage collection."""
        if not self.settled and not self.reasons():
            self.settled = True
            # what was listed lives long, and examining it again and again costs CPU
            gc.collect()
            gc.freeze()

    def reasons(self) -> Sequence[str]:
        """Why not ready. An instance that stands by for another one is."""
        if self.lease is not None and self.lease.elsewhere:
            return []
        return ["nothing is watched yet"] if self.threads is None else self.threads.sync_status.reasons()
