"""An API server on loopback that answers each request as a script says, in order, and remembers the requests."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Reply:
    """One answer. With `lines` it is a stream; a `broken` one ends in the middle of a word."""

    body: object = None
    code: int = 200
    lines: Sequence[str] | None = None
    broken: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


def line(kind: str, thing: Mapping[str, object]) -> str:
    return json.dumps({"type": kind, "object": thing})


def listed(*items: Mapping[str, object], version: str, more: str = "") -> Reply:
    return Reply({"metadata": {"resourceVersion": version, "continue": more}, "items": items})


def stream(*lines: str, broken: bool = False) -> Reply:
    return Reply(lines=lines, broken=broken)


def refusal(code: int, message: str) -> Mapping[str, object]:
    return {"kind": "Status", "code": code, "message": message, "reason": "Expired" if code == 410 else ""}


class ScriptedApi:
    """The server; `requests` has path and query of each request. With `path` only that one is served."""

    def __init__(self, script: Sequence[Reply], *, path: str | None = None) -> None:
        self.script = list(script)
        self.requests: list[tuple[str, dict[str, str]]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                request = urlsplit(self.path)
                owner.requests.append((request.path, {name: values[0] for name, values in parse_qs(request.query).items()}))
                if path not in (None, request.path):
                    owner._answer(self, Reply(refusal(404, "the server could not find the requested resource"), 404))
                    return
                owner._answer(self, owner.script.pop(0) if owner.script else Reply(refusal(500, "the script is over"), 500))

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in http.server's signature
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def serving(self) -> Iterator["ScriptedApi"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler, said: Reply) -> None:
        handler.send_response(said.code)
        handler.send_header("Connection", "close")
        for name, value in said.headers.items():
            handler.send_header(name, value)
        if said.lines is None:
            body = json.dumps(said.body).encode()
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
            return
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for each in said.lines:
            piece = each.encode() + b"\n"
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        handler.wfile.write(b"40\r\n{half" if said.broken else b"0\r\n\r\n")
        handler.close_connection = True
