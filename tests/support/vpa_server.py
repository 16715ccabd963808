"""An API server for VPA objects alone, on loopback: versions, merge patches, preconditions, and refusals on demand."""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.api_objects import merge_patch

GROUP = "/apis/autoscaling.k8s.io/v1"
Json = dict[str, Any]
HANG_UP = 0
"""A refusal without a word."""


class VpaServer:
    """`objects` by plural and `namespace/name`; `requests` lists method and name; `refusals` are answered first, by method."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Json]] = {"verticalpodautoscalers": {}, "verticalpodautoscalercheckpoints": {}}
        self.requests: list[str] = []
        self.refusals: dict[str, deque[int]] = {}
        self.before_write = lambda: None
        self.lock = threading.RLock()
        self._version = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def make(self, name: str, *, uid: str = "u1", recommenders: tuple[str, ...] = (), **status: Any) -> Json:
        """Make a VPA anew, or in the place of one."""
        namespace, short = name.split("/")
        made: Json = {"metadata": {"name": short, "namespace": namespace, "uid": uid, "generation": 1}, "spec": {}}
        if recommenders:
            made["spec"]["recommenders"] = [{"name": each} for each in recommenders]
        if status:
            made["status"] = status
        return self.put(name, made)

    def put(self, name: str, made: Json, plural: str = "verticalpodautoscalers") -> Json:
        """Keep an object under a new version."""
        with self.lock:
            self._version += 1
            made["metadata"]["resourceVersion"] = str(self._version)
            self.objects[plural][name] = made
            return made

    def status(self, name: str) -> Json:
        """The status of a VPA."""
        return dict(self.objects["verticalpodautoscalers"][name].get("status", {}))

    def writes(self) -> list[str]:
        """Names of the objects that somebody wanted to write."""
        return [request.split(" ")[1] for request in self.requests if not request.startswith("GET")]

    def answer(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        """What the API says."""
        parts = path.partition("?")[0].removeprefix(GROUP).strip("/").split("/")
        plural, name = (parts[0], "") if parts[0] != "namespaces" else (parts[2], f"{parts[1]}/{'/'.join(parts[3:4])}")
        self.requests.append(f"{method} {name or plural}")
        if self.refusals.get(method):
            return self.refusals[method].popleft(), {"message": "refused by the test"}
        if method != "GET":
            self.before_write()
        with self.lock:
            return self._act(method, plural, name, body)

    def _act(self, method: str, plural: str, name: str, body: Json) -> tuple[int, Json]:
        kept = self.objects[plural]
        if method == "GET" and not name:
            return 200, {"items": [kept[key] for key in sorted(kept)], "metadata": {}}
        if method == "POST":
            name += body["metadata"]["name"]
            return (409, {"message": "already exists"}) if name in kept else (201, self.put(name, body, plural))
        if name not in kept:
            return 404, {"message": f"'{name}' not found"}
        if method == "GET":
            return 200, kept[name]
        about, held = body.get("metadata", {}), kept[name]["metadata"]
        odd = [key for key in ("uid", "resourceVersion") if about.get(key, held.get(key)) != held.get(key)]
        if odd:
            return 409, {"message": f"the object has been modified: {odd[0]}"}
        return 200, self.put(name, body if method == "PUT" else merge_patch(kept[name], body), plural)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _any(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else {}
                code, said = server.answer(self.command, self.path, body)
                if code == HANG_UP:
                    self.close_connection = True
                    return
                data = json.dumps(said).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PATCH = do_PUT = do_POST = _any  # noqa: N815  # http.server's names

            def log_message(self, *_: object) -> None:
                pass

        return Handler
