"""What real senders read usage from: cAdvisor's page for a Prometheus, and a kubelet's summary for an OpenTelemetry Collector.

Each container uses its cores steadily, and its memory is always the same, so that any two who look agree. As the real ones do,
both say when they measured, so that a page that is late changes no rate.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.support.usage_senders import CPU, MEMORY

CORES: Mapping[str, float] = {"web-1": 0.25, "web-2": 1.5, "cart-0": 0.033}
"""Of the container `main` of each pod, in the namespace shop."""
MEMORY_BYTES = 150_000_000.0
_BEGAN = time.time() - 86_400


def _used(pod: str, at: float) -> float:
    return CORES[pod] * (at - _BEGAN)


def _cadvisor() -> str:
    lines, now = [], time.time()
    for pod in CORES:
        for container, cgroup in (("main", "m"), ("POD", "p"), ("", "")):
            labels = f'namespace="shop",pod="{pod}",container="{container}",id="/kubepods/{pod}/{cgroup}"'
            lines.append(f"{CPU}{{{labels}}} {_used(pod, now):.6f} {now * 1000:.0f}")
            lines.append(f"{MEMORY}{{{labels}}} {MEMORY_BYTES} {now * 1000:.0f}")
    return "\n".join([*lines, "go_goroutines 7", ""])


def _summary() -> str:
    measured = time.time()
    now, began = (datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z") for at in (measured, _BEGAN))

    def stats(pod: str) -> dict[str, object]:
        cpu = {"time": now, "usageNanoCores": int(CORES[pod] * 1e9), "usageCoreNanoSeconds": int(_used(pod, measured) * 1e9)}
        return {"startTime": began, "cpu": cpu, "memory": {"time": now, "workingSetBytes": int(MEMORY_BYTES)}}

    def of_pod(pod: str) -> dict[str, object]:
        names = {"name": pod, "namespace": "shop", "uid": f"uid-{pod}"}
        return {"podRef": names, "containers": [{"name": "main", **stats(pod)}], **stats(pod)}

    return json.dumps({"node": {"nodeName": "n1", "startTime": began}, "pods": [of_pod(pod) for pod in CORES]})


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = _summary() if self.path.startswith("/stats/summary") else _cadvisor()
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if page.startswith("{") else "text/plain")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def exporter() -> Iterator[int]:
    """The port that both are read from."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
