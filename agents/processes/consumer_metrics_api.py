"""Puts `ullage consumer metrics-api` together from the settings."""

from collections.abc import Callable
from datetime import datetime

from agents.logic.replicas.served_metrics import ServedMetrics
from agents.processes.process_lease import real_time
from agents.processes.server_certificate import certificate_source, service_names
from agents.settings import cluster_factory
from agents.settings.all_settings import ClockSettings, Settings
from agents.settings.consumer_settings import MetricsApiSettings
from agents.telemetry.consumer_metrics import MetricsApiMetrics
from schemas import times
from schemas.units import Seconds
from streams.clients.kube import json_objects
from streams.clients.kube.api import Api
from streams.clients.kube.json_objects import PlainObjects
from streams.clock_rules import TimeBase
from streams.consumers.metrics_api import api_service, metrics_endpoint
from streams.consumers.metrics_api.api_service import CUSTOM, EXTERNAL, ApiServiceKeeper, ServedAt
from streams.consumers.metrics_api.metrics_api_consumer import MetricsApiConsumer, MetricsApiParts, MetricsView
from streams.consumers.metrics_api.metrics_endpoint import MetricsEndpoint
from streams.log_context import LogContext
from streams.serving.certificate_rotation import CertificateRotation
from streams.serving.https_server import CertificateHolder, ServerLimits

ROLE = "ullage-metrics-api"
"""The ClusterRole of deploy/helm/ullage/rbac."""


def metrics_api(context: Callable[[], LogContext], settings: Settings, metrics: MetricsApiMetrics) -> MetricsApiConsumer:
    """The consumer. `context` opens the log, for a thread of its own."""
    ours, api = settings.metrics_api, Api(cluster_factory.connection(settings.cluster))
    view = MetricsView(context())
    served = ServedMetrics(settings.cluster.name, view.latest, upstream_crons=settings.replicas.upstream_crons)
    view.feed(served)
    metrics.look_at(lambda: view.age)
    holder = CertificateHolder(asks_clients=True)
    parts = MetricsApiParts(
        view=view,
        endpoint=MetricsEndpoint(served, metrics, not_ready=view.reasons, now=event_clock(settings.clock)),
        keeper=CertificateRotation(certificate_source(ours, service_names(ours), api), holder, metrics),
        holder=holder,
        config_maps=PlainObjects(api, metrics_endpoint.CONFIG_MAPS, "ConfigMap"),
        registered=_registered(ours, api),
    )
    limits = ServerLimits(linger=Seconds(ours.linger_seconds))
    return MetricsApiConsumer(parts, (ours.host, ours.port), real_time, limits)


def event_clock(clock: ClockSettings) -> Callable[[], datetime]:
    """Event time by this machine's clock: it goes on while the log is away, so that forecasts expire then, too."""
    base = TimeBase(clock.origin_ms, clock.anchor_ms, clock.speed)
    return lambda: times.from_ms(base.event(times.to_ms(real_time())))


def _registered(ours: MetricsApiSettings, api: Api) -> list[ApiServiceKeeper]:
    """Registrations for external metrics, and, if configured, for custom ones."""
    # a certificate from files, registered by others: nothing of the registration changes here
    if not ours.self_register and ours.certificate is not None:
        return []
    # an API group has one server, and that of custom metrics is often prometheus-adapter already
    groups = (EXTERNAL, CUSTOM) if ours.custom else (EXTERNAL,)
    services = json_objects.owned(api, api_service.PATH, "APIService", ROLE)
    return [
        ApiServiceKeeper(services, ServedAt(ours.namespace, ours.service, ours.service_port, own=ours.self_register, group=group))
        for group in groups
    ]
