"""The HTTP server for metrics and health: /metrics, /healthz (or /health-check) and /readyz, in a thread and a loop of its own.

The thread is its own, so that others notice when the process's event loop hangs. It listens on loopback by default, only answers
GET, never makes a request to Kafka, and has the admission policy of all that we serve.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Protocol, Self

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.exposition import choose_encoder

from schemas.units import Seconds
from streams import own_faults
from streams.errors import BadInput
from streams.serving.https_server import HttpsServer, ServerLimits

Reasons = Callable[[], Sequence[str]]
"""Gives sentences that say why the answer is no; none means yes."""

_LIMITS = ServerLimits(drain=Seconds(0.1))
"""Nobody waits for a probe or a scrape when the process ends."""
ALIVE = ("/healthz", "/health-check")
"""The second is what the VPA and the Cluster Autoscaler call it, for probes that were made for them."""
PATHS = ("/metrics", *ALIVE, "/readyz")


def all_well() -> Sequence[str]:
    """Always yes."""
    return ()


class Collected(Protocol):
    """Gives all metrics of a page, as a registry does."""

    def collect(self) -> Iterable[Metric]:
        """Every family once."""


class HealthServer:
    """Serves until closed. Each request calls `ready` or `alive`."""

    def __init__(
        self, registry: CollectorRegistry, *, ready: Reasons = all_well, alive: Reasons = all_well, page: Collected | None = None
    ) -> None:
        """Opens no port before `listen`. `page` is served instead of the registry, which is among what it collects."""
        self._page, self._ready, self._alive = page or registry, ready, alive
        self._server: HttpsServer | None = None
        # Here, because every process serves this page.
        faults = Gauge("ullage_own_faults", "Faults of our own since the start", registry=registry)
        faults.set_function(lambda: float(own_faults.TOTALS.total()))
        Gauge("ullage_ready", "1 when /readyz answers 200", registry=registry).set_function(lambda: float(not ready()))

    def listen(self, host: str = "127.0.0.1", port: int = 0) -> Self:
        """Start to serve; port 0 takes any free one. Raises BadInput when the address cannot be used."""
        server = HttpsServer(
            [web.get(path, self._answer) for path in (*PATHS, "/{path:.*}")], None, address=(host, port), limits=_LIMITS
        )
        try:
            self._server = server.__enter__()
        except BadInput as error:
            msg = f"metrics cannot be served on {host}:{port} ({error}): choose another with metrics.port, or 0 for none"
            raise BadInput(msg) from error
        return self

    @property
    def port(self) -> int:
        """The port in use; 0 when nothing listens."""
        return self._server.port if self._server is not None else 0

    def close(self) -> None:
        """Stop serving."""
        server, self._server = self._server, None
        if server is not None:
            server.__exit__(None, None, None)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.path
        if path == "/metrics":
            encode, kind = choose_encoder(request.headers.get("Accept", ""))
            return web.Response(body=encode(self._page), headers={"Content-Type": kind})
        if path not in PATHS:
            return web.Response(status=HTTPStatus.NOT_FOUND, text=f"there is {', '.join(PATHS)}\n")
        reasons = list((self._alive if path in ALIVE else self._ready)())
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        body = json.dumps({"ok": not reasons, "reasons": reasons}).encode() + b"\n"
        return web.Response(body=body, status=status, content_type="application/json")
