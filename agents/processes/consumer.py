"""Runs `ullage consumer`: one thread and one connection to the log for each consumer, until stopped.

What answers the API server, and what computes replicas, is imported where it is made: cryptography and NumPy take 8 and 12 MiB.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from contextvars import copy_context
from datetime import timedelta
from typing import Protocol

from prometheus_client import CollectorRegistry

from agents.logic.vertical.vertical_settings import NAME as RECOMMENDER
from agents.processes import dependency_probes
from agents.processes.process_lease import holder_lease, real_time, webhook_leases
from agents.processes.process_telemetry import await_fitting, telemetry_for
from agents.processes.signals import pause, until_stopped
from agents.processes.source_asg import connect_aws
from agents.run import rules_in_log
from agents.settings import cluster_factory, log_factory
from agents.settings.all_settings import Settings
from agents.telemetry import ConsumerMetrics, DependencyMonitor, MetricsApiMetrics, WebhookMetrics
from agents.terminal.output import note
from schemas.policies.vpa import DEFAULT_RECOMMENDER
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.cluster_client import KubernetesClient
from streams.clients.kube.event_recorder import EventRecorder, RecordEvent
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.clients.kube.vpa_status_client import VpaStatusClient
from streams.codec.event_codec import Codec
from streams.consumers.evictor import AdmissionLease, FindObjection, evictor, nothing_objects
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.holder_lease import HolderLease
from streams.consumers.nodes.asg_consumer import asg_consumer
from streams.consumers.nodes.buffer_status import CapacityBufferClient
from streams.consumers.nodes.expander_consumer import BestOptions, expander_consumer
from streams.consumers.nodes.node_removal import NodeWorld, RemovalOptions
from streams.consumers.resizer import resizer
from streams.consumers.vpa_status_consumer import StatusConsumer, StatusOptions
from streams.errors import BadInput, GiveUp, UllageError
from streams.log.log_port import Log
from streams.log_context import LogContext
from streams.publishing import source_reports


def expander(context: LogContext, settings: Settings) -> Executor:
    """The expander consumer with these settings. Raises BadInput as `server`."""
    return expander_consumer(context, server(settings))


def server(settings: Settings) -> BestOptions:
    """Who is asked. Raises BadInput where the settings name no server, or gRPC is not installed."""
    from streams.clients.expander_client import ExpanderClient

    ours = settings.expander
    return ExpanderClient(ours.url, ours.certificate, Seconds(ours.timeout_seconds))


_STOP = 15.0
"""Seconds for a consumer to finish what it began; the webhook goes on answering for a while."""


class Consumer(Protocol):
    """Something that runs in a thread of its own."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""

    def reasons(self) -> Sequence[str]:
        """Why not ready; empty when ready."""


def status(context: LogContext, settings: Settings) -> StatusConsumer:
    """The status consumer with these settings."""
    how, vertical = settings.status, settings.vertical
    return StatusConsumer(
        context,
        VpaStatusClient(Api(cluster_factory.connection(settings.cluster)), settings.cluster.namespaces),
        StatusOptions(how.writers, how.rate, how.burst, vertical.recommender, vertical.humanize_memory),
        lease=holder_lease("status", settings),
    )


def eviction_objection(settings: Settings) -> FindObjection:
    """The objection to all evictions, by these settings."""
    if not settings.evictor.needs_webhook:
        return nothing_objects
    objects = webhook_leases(settings, Api(cluster_factory.connection(settings.cluster)))
    most = timedelta(seconds=settings.evictor.webhook_seconds)
    return AdmissionLease(objects, settings.webhook.lease, most=most, now=real_time).objection


def admission(settings: Settings) -> Callable[[], None]:
    """Whether a webhook is running, without which the evictor evicts nobody."""
    objection = eviction_objection(settings)

    def look() -> None:
        if (answer := objection()) is not None:
            raise GiveUp(doing="looking for the webhook's Lease", to=settings.webhook.lease, answer=answer)

    return look


def begun(names: Sequence[str], settings: Settings) -> str:
    """The line that is printed when these consumers begin; those that share a Lease may have to stand by."""
    if not of_cluster(names):
        return f"expander at work for cluster '{settings.cluster.name}', asks {settings.expander.url}"
    where = f"cluster '{settings.cluster.name}' at {cluster_factory.address(settings.cluster)}"
    in_turns = [name for name in names if name in MAKERS]
    if not in_turns:
        return f"{', '.join(names)} at work on {where}"
    if cluster_factory.lease_namespace(settings.cluster) is not None:
        leases = ", ".join(f"ullage-{name}" for name in in_turns)
        return f"{', '.join(names)} running for {where}; acts while it holds the Lease {leases}, else stands by"
    return (
        f"{', '.join(names)} at work on {where}. There is no Lease, so a second instance would act as well: "
        "set cluster.lease_namespace to let it stand by"
    )


def of_cluster(names: Sequence[str]) -> bool:
    """Whether one of these consumers asks the cluster for anything."""
    return set(names) != {"expander"}


def recorder(consumer: str, settings: Settings) -> RecordEvent:
    """Writes this consumer's Kubernetes Events."""
    return EventRecorder(Api(cluster_factory.connection(settings.cluster)), f"ullage-{consumer}", real_time).record


def _autoscalers(context: Callable[[], LogContext], settings: Settings) -> Consumer:
    from agents.processes.consumer_autoscalers import autoscalers

    return autoscalers(context, settings, holder_lease("autoscalers", settings), recorder("autoscalers", settings))


MAKERS: dict[str, Callable[[Callable[[], LogContext], Settings], Consumer]] = {
    "resizer": lambda context, settings: resizer(
        context(), connect(settings), holder_lease("resizer", settings), recorder("resizer", settings)
    ),
    "evictor": lambda context, settings: evictor(
        context(),
        connect(settings),
        eviction_objection(settings),
        holder_lease("evictor", settings),
        recorder("evictor", settings),
    ),
    "status": lambda context, settings: status(context(), settings),
    "autoscalers": _autoscalers,
    "asg": lambda context, settings: asg(context(), settings, holder_lease("asg", settings), recorder("asg", settings)),
}
"""How each consumer that no server belongs to is made; the function that it gets opens the log, once for each thread."""


_SERVING_VPAS = frozenset({"status", "webhook"})
"""Consumers that look for themselves which VPAs are served here."""


def require_same_recommender(context: LogContext, settings: Settings) -> None:
    """Raise BadInput where the workers serve VPAs of another recommender, by the rules in the log, than these settings say."""
    rules = rules_in_log.in_log(context).get(RECOMMENDER)
    theirs = None if rules is None else rules.settings.get("recommender", DEFAULT_RECOMMENDER)
    ours = settings.vertical.recommender
    if theirs is not None and theirs != ours:
        raise BadInput(
            f"the workers serve VPAs of the recommender '{theirs}', says the log, and vertical.recommender is '{ours}' here: "
            f"set vertical.recommender={theirs}, or change it for all with `ullage settings apply`"
        )


class _Readiness:
    """Readiness for the health server, which starts before the consumers."""

    def __init__(self) -> None:
        self.consumers: Mapping[str, Consumer] = {}

    def reasons(self) -> Sequence[str]:
        """Why not ready; each reason names its consumer."""
        if not self.consumers:
            return ["no consumer is at work yet"]
        return [f"{name}: {reason}" for name, consumer in self.consumers.items() for reason in consumer.reasons()]


class ConsumerDied(UllageError):
    """A consumer's thread ended by itself."""


def run(settings: Settings, names: Sequence[str]) -> None:
    """Run these consumers until stopped. Raises ConsumerDied when one ends by itself."""
    if "expander" in names:
        server(settings)  # refuses settings before anything is waited for, as the next line does
    aws = dependency_probes.aws(settings) if "asg" in names else None
    stop = threading.Event()
    topics = log_factory.topics(settings)
    ready = _Readiness()
    with until_stopped(), telemetry_for("consumer", settings, ready.reasons) as telemetry, ExitStack() as stack:
        metrics = ConsumerMetrics(telemetry.registry, topics)
        stack.callback(stop.set)

        def log() -> Log:
            return telemetry.observe(stack.enter_context(log_factory.log(settings)), metrics)

        def opened() -> LogContext:
            return LogContext(log(), topics, Codec(topics), settings.cluster.name, another=log)

        first = opened()
        await_fitting(first.log, settings)
        source_reports.require_cluster(first, settings.cluster.name)
        if _SERVING_VPAS.intersection(names):
            require_same_recommender(opened(), settings)
        _watch_cluster(telemetry.dependencies, names, settings)
        if aws is not None:
            telemetry.dependencies.watch(dependency_probes.AWS, aws)
            telemetry.dependencies.watch(dependency_probes.RIGHTS_IN_CLUSTER, dependency_probes.rights(settings, "consumer asg"))
        consumers = {name: _made(name, opened, settings, telemetry.registry) for name in names}
        ready.consumers = consumers
        if isinstance(status := consumers.get("status"), StatusConsumer):
            metrics.watch_memory_limited(lambda: status.memory_limited)
        threads = [
            # a thread begins with an empty context, and the part of the process that it works for stands in ours
            threading.Thread(target=copy_context().run, args=(consumer.run, stop), name=name, daemon=True)
            for name, consumer in consumers.items()
        ]
        # before the logs close, which the stack does after it
        stack.callback(_join, threads, stop)
        for thread in threads:
            thread.start()
        note(begun(names, settings))
        # one that ends by itself ends all: Kubernetes restarts a whole process, and half a one looks healthy
        while all(thread.is_alive() for thread in threads):
            pause(0.2)
        dead = next(thread.name for thread in threads if not thread.is_alive())
        raise ConsumerDied(f"the {dead} ended by itself; the lines above say why")


def _watch_cluster(dependencies: DependencyMonitor, names: Sequence[str], settings: Settings) -> None:
    """Look at the API server, and at the webhook where pods are evicted, as far as these consumers need them."""
    if of_cluster(names):
        dependencies.watch(dependency_probes.API_SERVER, dependency_probes.api_server(settings))
    if "evictor" in names and settings.evictor.needs_webhook:
        dependencies.watch(dependency_probes.WEBHOOK, admission(settings), server=False)


def _made(name: str, opened: Callable[[], LogContext], settings: Settings, registry: CollectorRegistry) -> Consumer:
    """The consumer of this name."""
    if name == "webhook":
        from agents.processes.consumer_webhook import webhook

        return webhook(opened, settings, WebhookMetrics(registry))
    if name == "expander":
        return expander(opened(), settings)
    if name == "metrics-api":
        from agents.processes.consumer_metrics_api import metrics_api

        return metrics_api(opened, settings, MetricsApiMetrics(registry))
    return MAKERS[name](opened, settings)


def connect(settings: Settings) -> KubernetesClient:
    """A client for the cluster that the settings name."""
    return KubernetesClient(settings.cluster.name, cluster_factory.connection(settings.cluster))


def _join(threads: Sequence[threading.Thread], stop: threading.Event) -> None:
    """Let each consumer finish what it began, within a time limit."""
    stop.set()
    for thread in threads:
        thread.join(timeout=_STOP)


# Puts the asg consumer together: AWS, the cluster's nodes, and how a node is emptied, by the settings.


def asg(context: LogContext, settings: Settings, lease: HolderLease | None, record: RecordEvent) -> Executor:
    """The asg consumer with these settings. Raises BadInput where the AWS SDK is not installed."""
    api = Api(cluster_factory.connection(settings.cluster))
    ours = settings.drain
    options = RemovalOptions(
        cordon=ours.cordon,
        delay=Seconds(ours.delay_seconds),
        gone_margin=Seconds(ours.gone_margin_seconds),
        hooks=Seconds(ours.hooks_seconds),
        evictions=ours.evictions,
        protect=settings.aws.protect_instances,
    )
    world = NodeWorld(connect_aws(settings.aws), NodeDrainClient(api), CapacityBufferClient(api), real_time, record)
    return asg_consumer(context, world, options, lease)
