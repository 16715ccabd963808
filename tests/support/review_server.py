"""The webhook's endpoint on a real HTTPS server in this process, and connections that keep asking it."""

import http.client
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime

from schemas.units import Seconds
from streams.clients.kube.controllers import ControllerKey
from streams.consumers.webhook.admission import Admission
from streams.consumers.webhook.controller_lookups import coming_pods, owner_lookups
from streams.consumers.webhook.webhook_consumer import ReviewEndpoint, WebhookWatcher
from streams.serving.certificate_making import self_made
from streams.serving.https_server import CertificateHolder, HttpsServer, ServerLimits

_CERTIFICATE = self_made(("127.0.0.1",), datetime.now(UTC))


class ReplicaSets:
    """Every ReplicaSet `NAME-HASH` belongs to Deployment `NAME`, and wants one pod more."""

    def topmost(self, start: ControllerKey) -> ControllerKey | None:
        return ControllerKey(start.namespace, "Deployment", start.name.rpartition("-")[0])

    def coming(self, _owner: ControllerKey) -> int | None:
        return 1


def authorities() -> bytes:
    """Whom to trust to trust the server."""
    return _CERTIFICATE.authorities


@contextmanager
def serving(admission: Admission, watcher: WebhookWatcher, limits: ServerLimits | None = None) -> Iterator[HttpsServer]:
    """Listens on loopback while it is entered."""
    holder = CertificateHolder()
    holder.load(_CERTIFICATE.certificate, _CERTIFICATE.key)
    with ThreadPoolExecutor(4) as pool:
        sets = ReplicaSets()
        lookups, coming = owner_lookups(sets, pool, watcher, Seconds(1.0)), coming_pods(sets, pool, Seconds(1.0))
        endpoint = ReviewEndpoint(admission, lookups, watcher, coming)
        with HttpsServer(endpoint.serve, holder, limits=limits) as server:
            yield server


def connect(port: int) -> http.client.HTTPSConnection:
    """A connection that stays open."""
    context = ssl.create_default_context(cadata=_CERTIFICATE.authorities.decode())
    return http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60.0)


def ask(to: http.client.HTTPSConnection, body: bytes) -> tuple[int, bytes]:
    """Status and body of the answer."""
    to.request("POST", "/", body, {"Content-Type": "application/json"})
    answer = to.getresponse()
    return answer.status, answer.read()
