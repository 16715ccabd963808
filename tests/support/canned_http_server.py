"""A server on loopback that answers what a test says, for the wire of clients: real sockets, real headers."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Asked:
    """One question: the path, and the fields of its query and form together."""

    path: str
    fields: Mapping[str, str]
    headers: Mapping[str, str]


Answer = Callable[[Asked], tuple[int, bytes]]


@dataclass
class Answering:
    """`answer` may be changed while it runs; `asked` grows."""

    url: str
    answer: Answer
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def answering(answer: Answer) -> Iterator[Answering]:
    """A server while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length).decode()
            parts = urlsplit(self.path)
            fields = dict(parse_qsl(parts.query) + parse_qsl(body))
            asked = Asked(parts.path, fields, dict(self.headers))
            here.asked.append(asked)
            code, said = here.answer(asked)
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_POST = do_GET  # noqa: N815  # the name that http.server calls

        def log_message(self, *_: Any) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    here = Answering(f"http://127.0.0.1:{server.server_address[1]}", answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
