"""metrics.k8s.io as an aggregated API: answers exactly what the test said that pods use, over HTTPS on loopback.

What was not said is not in the answer. Knows nothing of pods: what the test sets is served, whether the pod runs or not.
Selectors are those of an HPA whose target has `matchLabels` alone: equalities.
"""

import json
import ssl
from collections.abc import Collection, Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = "/apis/metrics.k8s.io/v1beta1"
Usage = Mapping[str, Mapping[str, str]]
"""Quantities by container and resource: `{"app": {"cpu": "250m", "memory": "64Mi"}}`."""


class MetricsApi:
    """Serves until it is closed."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._pods: dict[tuple[str, str], dict[str, Any]] = {}
        self._refusal: int | None = None
        self._lock = Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = self._server.server_address[1]
        Thread(target=self._server.serve_forever, name="metrics-api", daemon=True).start()

    def serve(
        self,
        namespace: str,
        pod: str,
        containers: Usage,
        *,
        at: datetime,
        window: str = "30s",
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """From now on this is what the pod used in the `window` that ended at `at`; found by a selector of its `labels` alone."""
        used = [{"name": name, "usage": dict(usage)} for name, usage in containers.items()]
        stamp = at.isoformat().replace("+00:00", "Z")
        metadata = {"name": pod, "namespace": namespace, "creationTimestamp": stamp, "labels": dict(labels or {})}
        with self._lock:
            self._pods[namespace, pod] = {"metadata": metadata, "timestamp": stamp, "window": window, "containers": used}

    def keep(self, namespace: str, labels: Mapping[str, str], pods: Collection[str]) -> None:
        """Of the pods with these labels these are left; the others are in no answer any more."""
        with self._lock:
            for (where, pod), found in list(self._pods.items()):
                if where == namespace and pod not in pods and _bears(found, labels):
                    del self._pods[where, pod]

    def forget(self, namespace: str, pod: str | None = None) -> None:
        """The pod, or every pod of the namespace, is in no answer any more."""
        with self._lock:
            for key in [key for key in self._pods if key[0] == namespace and pod in (None, key[1])]:
                del self._pods[key]

    def refuse(self, code: int | None) -> None:
        """Answer questions about usage with this code; None: answer again."""
        self._refusal = code

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str, selector: str) -> tuple[int, object]:
        kinds = [
            {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]},
            {"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": ["get", "list"]},
        ]
        if path == ROOT:
            return 200, {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": "metrics.k8s.io/v1beta1",
                "resources": kinds,
            }
        if self._refusal is not None and path.startswith(ROOT):
            return self._refusal, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no metrics today"}
        match path.removeprefix(ROOT).split("/"):
            case ["", "nodes"]:
                return 200, _list("NodeMetricsList", [])
            case ["", "pods"]:
                return 200, _list("PodMetricsList", self._found(None, selector))
            case ["", "namespaces", namespace, "pods"]:
                return 200, _list("PodMetricsList", self._found(namespace, selector))
        return 404, {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "NotFound",
            "message": f"no '{path}' here",
        }

    def _found(self, namespace: str | None, selector: str) -> list[dict[str, Any]]:
        wanted = dict(each.split("=", 1) for each in selector.split(",") if each)
        with self._lock:
            found = [pod for key, pod in sorted(self._pods.items()) if namespace in (None, key[0])]
        return [pod for pod in found if _bears(pod, wanted)]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked = urlsplit(self.path)
                (selector,) = parse_qs(asked.query).get("labelSelector", [""])
                code, said = answer(asked.path.rstrip("/"), selector)
                body = json.dumps(said).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
                """Say nothing: the API server asks every few seconds."""

        return Handler


def _bears(pod: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return labels.items() <= pod["metadata"]["labels"].items()


def _list(kind: str, items: list[dict[str, Any]]) -> dict[str, object]:
    return {"kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}


def registration(port: int) -> list[tuple[str, dict[str, object]]]:
    """Paths and objects that make an API server ask us: a service that is a name for loopback, and the API behind it."""
    service: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "metrics", "namespace": "kube-system"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    group = {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100}
    where = {"service": {"name": "metrics", "namespace": "kube-system", "port": port}, "insecureSkipTLSVerify": True}
    api: dict[str, object] = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {**group, **where},
    }
    return [("/api/v1/namespaces/kube-system/services", service), ("/apis/apiregistration.k8s.io/v1/apiservices", api)]
