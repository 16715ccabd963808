"""The HTTP server for metrics and health: /metrics, /healthz and /readyz, in threads of its own.

Threads of its own, so that others notice when the process's event loop hangs. It listens on loopback by default, only answers
GET, and never makes a request to Kafka.
"""

import json
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import ClassVar, Self

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import choose_encoder

from streams.errors import BadInput

Reasons = Callable[[], Sequence[str]]
"""Gives sentences that say why the answer is no; none means yes."""

PATHS = ("/metrics", "/healthz", "/readyz")


def all_well() -> Sequence[str]:
    """Always yes."""
    return ()


class HealthServer:
    """Serves until closed. Each request calls `ready` or `alive`."""

    def __init__(self, registry: CollectorRegistry, *, ready: Reasons = all_well, alive: Reasons = all_well) -> None:
        """Opens no port before `listen`."""
        self._registry, self._ready, self._alive = registry, ready, alive
        self._server: ThreadingHTTPServer | None = None
        Gauge("ullage_ready", "1 when /readyz answers 200", registry=registry).set_function(lambda: float(not ready()))

    def listen(self, host: str = "127.0.0.1", port: int = 0) -> Self:
        """Start to serve; port 0 takes any free one. Raises BadInput when the address cannot be used."""
        handler = type(
            "Handler", (_Handler,), {"answers": {"/healthz": self._alive, "/readyz": self._ready}, "registry": self._registry}
        )
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            msg = f"metrics cannot be served on {host}:{port} ({error.strerror}): choose another with metrics.port, or 0 for none"
            raise BadInput(msg) from error
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="health", daemon=True).start()
        return self

    @property
    def port(self) -> int:
        """The port in use; 0 when nothing listens."""
        return self._server.server_address[1] if self._server is not None else 0

    def close(self) -> None:
        """Stop serving."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    answers: ClassVar[dict[str, Reasons]] = {}
    registry: ClassVar[CollectorRegistry]
    timeout = 10

    def do_GET(self) -> None:
        """Answer one of the three paths."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, kind = choose_encoder(self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, kind, encode(self.registry))
        elif path in self.answers:
            reasons = list(self.answers[path]())
            body = json.dumps({"ok": not reasons, "reasons": reasons}).encode()
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK, "application/json", body + b"\n")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", f"there is {', '.join(PATHS)}\n".encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in http.server's signature
        """Log nothing: probes and scrapes are not worth a line."""
