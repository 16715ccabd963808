"""Puts `ullage consumer webhook` together from the settings."""

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from urllib.parse import urlsplit

from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.logic.updates.update_settings import UpdateRules
from agents.processes.admission_reviewer import AdmissionReviewer
from agents.processes.process_lease import real_time, webhook_leases
from agents.processes.server_certificate import certificate_source, service_names
from agents.run import python_gc
from agents.settings import cluster_factory
from agents.settings.all_settings import Settings
from agents.settings.consumer_settings import WebhookSettings
from agents.telemetry.consumer_metrics import WebhookMetrics
from schemas import exact_quantity
from schemas.units import Seconds
from streams.clients.kube import json_objects
from streams.clients.kube.api import Api
from streams.consumers.webhook.admission import AdmissionView
from streams.consumers.webhook.controller_lookups import ControllerChain
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.consumers.webhook.registration import PATH, Registrar, Registration, StatusLease
from streams.consumers.webhook.webhook_consumer import Parts, Serving, WebhookConsumer
from streams.log_context import LogContext
from streams.serving.certificate_rotation import CertificateRotation
from streams.serving.https_server import CertificateHolder, ServerLimits

ROLE = "ullage-webhook"
"""The ClusterRole of deploy/helm/ullage/rbac."""
# Outcomes are written and a heartbeat of recommendations is read while pods are admitted, and one answer waits for its turn some
# five times: with Python's own five milliseconds that were 25 of them.
SWITCH = 0.0001
"""Seconds after which Python lets another thread work."""


def webhook(context: Callable[[], LogContext], settings: Settings, metrics: WebhookMetrics) -> WebhookConsumer:
    """The webhook. `context` opens the log for a thread of its own."""
    sys.setswitchinterval(SWITCH)
    ours = settings.webhook
    # a look-up for a review gives up by itself earlier; the registration and the Lease need more patience
    api = Api(cluster_factory.connection(settings.cluster), timeout=Seconds(max(ours.lookup_seconds, 3.0)))
    make = partial(
        AdmissionReviewer,
        settings.cluster.name,
        settings=_admission(ours),
        own=UpdateRules(**asdict(settings.updates), recommender=settings.vertical.recommender),
    )  # fmt: skip
    view = AdmissionView(context(), make, heartbeat=Seconds(settings.vertical.heartbeat), ready=_ready)
    outcomes, holder = OutcomeQueue(context()), CertificateHolder()
    metrics.look_at(
        lambda: view.age,
        lambda: float(len(outcomes)),
        lambda: float(outcomes.dropped),
        lambda: float(view.offers.paused(view.control.now)),
    )
    follows = ours.self_register or ours.certificate is None
    objects = json_objects.owned(api, PATH, "MutatingWebhookConfiguration", ROLE)
    parts = Parts(
        view=view,
        outcomes=outcomes,
        chain=ControllerChain(api),
        keeper=CertificateRotation(certificate_source(ours, _names(ours), api), holder, metrics),
        holder=holder,
        watcher=metrics,
        registrar=Registrar(objects, _registration(ours)) if follows else None,
        # host and process, for two processes of one host are two holders
        lease=StatusLease(webhook_leases(settings, api), ours.lease, f"{socket.gethostname()[:40]}-{os.getpid()}"),
    )
    limits = ServerLimits(linger=Seconds(ours.linger_seconds))
    return WebhookConsumer(parts, Serving((ours.host, ours.port), limits, Seconds(ours.lookup_seconds)), real_time)


def _ready() -> None:
    """Tune the garbage collector."""
    # once the view is read: it lives as long as the process, and from now on requests are waiting
    python_gc.exempt_present_objects()
    python_gc.pause_briefly()


def _admission(ours: WebhookSettings) -> AdmissionSettings:
    most = exact_quantity.ZERO if ours.max_boosted_cpu is None else exact_quantity.parse(ours.max_boosted_cpu)
    return AdmissionSettings(ours.cpu_startup_boost, ours.per_vpa_config, ours.in_place, most)


def _names(ours: WebhookSettings) -> tuple[str, ...]:
    """The host names by which the API server may reach us."""
    if ours.url is not None:
        return (urlsplit(ours.url).hostname or "localhost",)
    return service_names(ours)


def _registration(ours: WebhookSettings) -> Registration:
    service = {"namespace": ours.namespace, "name": ours.service, "path": "/", "port": ours.service_port}
    return Registration(
        name=ours.configuration,
        client={"service": service} if ours.url is None else {"url": ours.url},
        namespace=ours.namespace,
        excluded=ours.excluded_namespaces,
        fail=ours.failure_policy == "Fail",
        timeout=ours.timeout_seconds,
        own=ours.self_register,
    )
