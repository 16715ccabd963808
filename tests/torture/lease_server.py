"""Leases of coordination.k8s.io behind HTTP, with versions as an API server has them: who writes on an old one gets 409."""

import json
import re
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from streams.clients.kube.json_objects import Json

PATH = re.compile(r"/apis/coordination\.k8s\.io/v1/namespaces/[^/]+/leases(?:/(?P<name>[^/]+))?")


class NoAnswer(Exception):
    """The caller gets none; his connection ends."""


class JsonServer:
    """Hands method, path and body of each request to `answer`, in threads, and gives back the code and JSON that it says."""

    def __init__(self, answer: Callable[[str, str, Json], tuple[HTTPStatus, Json]]) -> None:
        handler = type("Handler", (_Handler,), {"answer": staticmethod(answer)})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class LeaseServer:
    """At work between `open` and `close`."""

    def __init__(self) -> None:
        self._leases: dict[str, Json] = {}
        self._versions = 0
        self._lock = threading.Lock()
        self._server = JsonServer(self._answer)
        self.url = self._server.url

    def open(self) -> None:
        self._server.open()

    def close(self) -> None:
        self._server.close()

    def holder(self, name: str) -> str:
        """Who holds a Lease; empty when nobody does."""
        with self._lock:
            spec = self._leases.get(name, {}).get("spec") or {}
            return str(spec.get("holderIdentity") or "")

    def _answer(self, method: str, path: str, body: Json) -> tuple[HTTPStatus, Json]:
        match = PATH.fullmatch(path.partition("?")[0])
        if match is None:
            return HTTPStatus.NOT_FOUND, {"message": f"no path '{path}'"}
        name = match["name"] or body["metadata"]["name"]
        with self._lock:
            there = self._leases.get(name)
            if method == "GET":
                return (HTTPStatus.NOT_FOUND, {"message": "not found"}) if there is None else (HTTPStatus.OK, there)
            if method == "POST" and there is not None:
                return HTTPStatus.CONFLICT, {"message": "it is there already"}
            if method == "PUT" and (there is None or there["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]):
                return HTTPStatus.CONFLICT, {"message": "the object has been modified"}
            self._versions += 1
            metadata = {"uid": f"u-{name}", **body["metadata"], "resourceVersion": str(self._versions)}
            self._leases[name] = {**body, "metadata": metadata}
            return HTTPStatus.OK, self._leases[name]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore callers that are killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    answer: Any
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            return  # the caller was killed
        try:
            code, answer = self.answer(self.command, self.path, json.loads(body or b"{}"))
        except NoAnswer:
            self.close_connection = True
            return
        data = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
