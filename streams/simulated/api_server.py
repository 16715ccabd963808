"""The simulated cluster's HTTP paths: the few Kubernetes paths that this program's client uses, on loopback.

GET pods (all, of a node, or one), PATCH pods/…/resize, POST pods/…/eviction, GET and PATCH nodes, POST events, GET
metrics.k8s.io's pods, and GET a Lease, which always says that admission is running, because the cluster has it in its own
process. Everything else is 404. It never advances time; the owner of the cluster does. The client port on a cluster in memory has
the same calls and the same errors, without HTTP.
"""

import re
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs

import msgspec

from schemas.names import Amounts, PodName
from streams import typed_json
from streams.clients.cluster_port import Pod, PodUsage
from streams.clients.kube import quantities, refusals
from streams.clients.kube.api import Api, ApiRequest, ApiResponse
from streams.errors import BadInput
from streams.simulated import kube_json
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.pod_admission import ApiRefusal, not_found

_POD_METRICS = re.compile(r"/apis/metrics\.k8s\.io/v1beta1/namespaces/(?P<namespace>[^/]+)/pods/(?P<name>[^/]+)")
_POD = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<name>[^/]+)(?:/(?P<verb>resize|eviction))?")
_LEASE = re.compile(r"/apis/coordination\.k8s\.io/v1/namespaces/[^/]+/leases/(?P<name>[^/]+)")
_EVENTS = re.compile(r"/api/v1/namespaces/[^/]+/events")
_NODE = re.compile(r"/api/v1/nodes/(?P<name>[^/]+)")
# clients may escape the equals sign, so both spellings are looked for
_ON_NODE = "spec.nodeName="
# bounded, for `demo --forever` posts Events until it is stopped
_EVENTS_KEPT = 1000
_POLL = 0.05
"""Seconds between looks at whether to stop."""


class _ResizedContainer(msgspec.Struct, frozen=True):
    name: str
    # a resize names only what it changes: amounts that are absent stay
    resources: dict[str, dict[str, str]] = {}


class _ResizedSpec(msgspec.Struct, frozen=True):
    containers: list[_ResizedContainer]


class _Uid(msgspec.Struct, frozen=True):
    uid: str = ""


class _Conditions(msgspec.Struct, frozen=True, rename="camel"):
    """Which pod the caller means, and which version of it the caller has read."""

    uid: str = ""
    resource_version: str = ""


class _ResizeBody(msgspec.Struct, frozen=True):
    spec: _ResizedSpec
    metadata: _Conditions = _Conditions()


class _DeleteOptions(msgspec.Struct, frozen=True):
    preconditions: _Uid = _Uid()


class _EvictionBody(msgspec.Struct, frozen=True, rename="camel"):
    delete_options: _DeleteOptions = _DeleteOptions()


class SimulatedServer:
    """Serves `cluster` on 127.0.0.1 while it is entered; `port` 0 takes a free one, `url` says which.

    Raises BadInput where the port cannot be used.
    """

    def __init__(self, cluster: SimulatedCluster, port: int = 0) -> None:
        self.paths = KubernetesPaths(cluster)
        handler = type("Handler", (_Handler,), {"paths": self.paths})
        try:
            self._server = _Server(("127.0.0.1", port), handler)
        except OSError as error:
            msg = (
                f"the simulated cluster cannot answer on port {port} ({error.strerror}): choose another with --port; 0 takes any"
            )
            raise BadInput(msg) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL,), name="simulated-cluster-http", daemon=True
        )

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore callers that hang up in the middle or are killed."""
        # the demo kills consumers in the middle of a request, which is nobody's fault
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # typeshed wants a socket; it is only printed


class KubernetesPaths:
    """Requests to calls, results to JSON. Raises ApiRefusal."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.events: deque[object] = deque(maxlen=_EVENTS_KEPT)
        """The Events that were written last."""

    def answer(self, method: str, path: str, body: bytes) -> tuple[HTTPStatus, object]:
        """Status and a JSON object. `path` may have a query, of which only the selectors of nodes count."""
        path, _, query = path.partition("?")
        if path == "/api/v1/nodes" or _NODE.fullmatch(path) or _ON_NODE in query.replace("%3D", "="):
            return self._answer_about_nodes(method, path, parse_qs(query), body)
        if path.startswith("/apis/metrics.k8s.io/") and method == "GET":
            return self._answer_about_usage(path)
        if method == "GET" and path == "/api/v1/pods":
            return HTTPStatus.OK, kube_json.pod_list(self._cluster.pods())
        if method == "GET" and (lease := _LEASE.fullmatch(path)):
            return HTTPStatus.OK, kube_json.lease(lease["name"], datetime.now(UTC))  # noqa: TID251  # Leases know no other time
        if method == "POST" and _EVENTS.fullmatch(path):
            self.events.append(msgspec.json.decode(body))
            return HTTPStatus.CREATED, self.events[-1]
        return self._answer_about_pod(method, path, body)

    def _answer_about_usage(self, path: str) -> tuple[HTTPStatus, object]:
        measured = _POD_METRICS.fullmatch(path)
        if measured is None:
            return HTTPStatus.OK, kube_json.metrics_list(self._cluster.usage())
        usage = self._cluster.pod_usage(measured["namespace"], measured["name"])
        # as with metrics-server, which knows no pod without a container at work
        if usage is None:
            raise not_found(measured["name"])
        return HTTPStatus.OK, kube_json.metrics(usage)

    def _answer_about_pod(self, method: str, path: str, body: bytes) -> tuple[HTTPStatus, object]:
        match = _POD.fullmatch(path)
        if match is None:
            raise ApiRefusal(HTTPStatus.NOT_FOUND, f"the simulated cluster has no path '{method} {path}'")
        namespace, name = match["namespace"], match["name"]
        if (method, match["verb"]) == ("GET", None):
            return HTTPStatus.OK, self._pod(namespace, name)
        if (method, match["verb"]) == ("PATCH", "resize"):
            self._resize(namespace, name, typed_json.decode(body, _ResizeBody))
            return HTTPStatus.OK, self._pod(namespace, name)
        if (method, match["verb"]) == ("POST", "eviction"):
            # without a precondition the pod that has the name now is meant, as in a real eviction
            wanted = typed_json.decode(body, _EvictionBody).delete_options.preconditions.uid
            self._cluster.evict(PodName(namespace, name, wanted or self._uid(namespace, name)))
            return HTTPStatus.CREATED, {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}
        raise ApiRefusal(HTTPStatus.METHOD_NOT_ALLOWED, f"the simulated cluster does not answer '{method} {path}'")

    def _answer_about_nodes(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[HTTPStatus, object]:
        nodes, match = self._cluster.nodes, _NODE.fullmatch(path)
        with self._cluster.lock:
            if match is not None:
                # an empty patch is a look: it must not make a new version of the node
                change = msgspec.json.decode(body) if method == "PATCH" else {}
                return HTTPStatus.OK, kube_json.node_json(
                    nodes.patch(match["name"], change) if change else nodes.find(match["name"])
                )
            if "fieldSelector" in query:
                on = query["fieldSelector"][0].removeprefix(_ON_NODE)
                return HTTPStatus.OK, kube_json.pod_list([pod for pod in self._cluster.pods() if pod.node == on])
            labelled = nodes.labelled(query.get("labelSelector", [""])[0])
            return HTTPStatus.OK, {
                "kind": "NodeList",
                "apiVersion": "v1",
                "items": [kube_json.node_json(node) for node in labelled],
            }

    def _resize(self, namespace: str, name: str, body: _ResizeBody) -> None:
        self._cluster.resize(
            PodName(namespace, name, body.metadata.uid or self._uid(namespace, name)),
            requests={c.name: quantities.read_amounts(c.resources.get("requests", {})) for c in body.spec.containers},
            limits={c.name: quantities.read_amounts(c.resources.get("limits", {})) for c in body.spec.containers},
            version=body.metadata.resource_version,
        )

    def _pod(self, namespace: str, name: str) -> object:
        pod = self._cluster.pod(namespace, name)
        if pod is None:
            raise not_found(name)
        return kube_json.pod(pod)

    def _uid(self, namespace: str, name: str) -> str:
        pod = self._cluster.pod(namespace, name)
        if pod is None:
            raise not_found(name)
        return pod.pod.uid


class _Handler(BaseHTTPRequestHandler):
    paths: KubernetesPaths
    protocol_version = "HTTP/1.1"
    # an answer must not wait for the client's delayed acknowledgement, 40 ms on Linux
    disable_nagle_algorithm = True
    # buffered, so that headers and body leave in one write
    wbufsize = -1

    def do_GET(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the standard library's name
        """Print nothing: the log topic is the log."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        after: float | None = None
        try:
            code, answer = self.paths.answer(self.command, self.path, body)
        except ApiRefusal as refusal:
            code, answer, after = refusal.code, kube_json.status(refusal), refusal.after
        except ValueError as error:
            bad = ApiRefusal(HTTPStatus.BAD_REQUEST, f"the request cannot be read: {error}")
            code, answer = bad.code, kube_json.status(bad)
        data = msgspec.json.encode(answer)
        self.send_response(code)
        # a connection that is kept open needs the length, else the client cannot see where the answer ends
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if after is not None:
            self.send_header("Retry-After", str(int(after)))
        self.end_headers()
        self.wfile.write(data)


class SimulatedClient:
    """Calls a simulated cluster in the same process."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self._simulated.name

    def pods(self) -> Sequence[Pod]:
        """All pods, by namespace and name."""
        return self._simulated.pods()

    def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now."""
        return self._simulated.pod(namespace, name)

    def usage(self) -> Sequence[PodUsage]:
        """What running pods used in the last window."""
        return self._simulated.usage()

    def pod_usage(self, namespace: str, name: str) -> PodUsage | None:
        """What one pod used in the last window."""
        return self._simulated.pod_usage(namespace, name)

    def resize(self, pod: Pod, *, requests: Mapping[str, Amounts], limits: Mapping[str, Amounts]) -> None:
        """Ask for new amounts in place."""
        try:
            # with the version that the caller read, as over HTTP: what changed in between is not overwritten
            self._simulated.resize(pod.pod, requests=requests, limits=limits, version=pod.version)
        except ApiRefusal as refusal:
            raise _error("resizing", pod.pod, refusal) from refusal

    def evict(self, pod: PodName) -> None:
        """Evict the pod."""
        try:
            self._simulated.evict(pod)
        except ApiRefusal as refusal:
            raise _error("evicting", pod, refusal) from refusal


def _error(doing: str, pod: PodName, refusal: ApiRefusal) -> Exception:
    return refusals.error_for_status(
        doing=doing,
        to=f"{pod.namespace}/{pod.name}",
        code=refusal.code,
        message=refusal.message,
        after=refusal.after,
        causes=(refusal.cause,),
    )


# The simulated cluster's HTTP paths without HTTP: clients of an API server work on it in the same process.


class SimulatedApi(Api):
    """An API server that answers at once. It has no streams."""

    def __init__(self, paths: KubernetesPaths) -> None:
        self._paths = paths

    def send(self, request: ApiRequest) -> ApiResponse:
        """The answer of the simulated cluster."""
        body = b"" if request.body is None else msgspec.json.encode(request.body)
        try:
            code, answer = self._paths.answer(request.method, request.path, body)
        # an answer here too, as over HTTP: the client makes its own error of the status
        except ApiRefusal as refusal:
            code, answer = HTTPStatus(refusal.code), kube_json.status(refusal)
        return ApiResponse(int(code), msgspec.json.encode(answer))

    def close(self) -> None:
        """Nothing is open."""
