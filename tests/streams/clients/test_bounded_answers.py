"""Answers of APIs are read within bounds of bytes and time: in one piece, in pages, as a stream, by Prometheus."""

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from agents.settings import cluster_factory
from agents.settings.all_settings import ClusterSettings
from schemas.units import Bytes, Seconds
from streams.clients.kube import api as kube_api
from streams.clients.kube.api import Api, ApiRequest, ResponseTooLarge
from streams.clients.kube.list_watch_requests import ListWatchClient
from streams.clients.kube.vpa_status_client import VpaStatusClient
from streams.clients.prometheus import AnswerLimits, Prometheus
from streams.errors import GiveUp, Unreachable
from streams.sources.kube.watch.watched_resources import CHECKPOINTS

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The address of a server that answers every question so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):  # the other side has heard enough
                answer(self)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in http.server's signature
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Endless:
    """An answer of a thousand times the same bytes, `pause` seconds apart; `sent` counts what went out."""

    chunk: bytes = b"x" * 65_536
    pause: float = 0.0
    sent: int = 0

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _ in range(1_000):
            request.wfile.write(self.chunk)
            self.sent += len(self.chunk)
            time.sleep(self.pause)


def whole(request: BaseHTTPRequestHandler, body: bytes, **headers: str) -> None:
    request.send_response(200)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def asked(url: str, *, timeout: float = 5.0) -> Api:
    return Api(cluster_factory.connection(ClusterSettings(url=url)), timeout=Seconds(timeout))


REQUEST = ApiRequest("/api/v1/pods", "listing", "pods", most_bytes=Bytes(1 << 20))


def test_an_answer_without_end_is_given_up_at_the_bound_and_the_rest_is_not_read() -> None:
    endless = Endless()
    with serving(endless) as url:
        with pytest.raises(ResponseTooLarge, match=r"listing 'pods' did not work: the answer has more than 1048576 bytes"):
            asked(url).send(REQUEST)
        assert endless.sent < 20 << 20, "all of it was read"


def test_an_answer_that_drips_ends_with_the_time_for_the_whole_and_not_never() -> None:
    with serving(Endless(chunk=b"x", pause=0.05)) as url:
        begun = time.monotonic()
        with pytest.raises(Unreachable, match=r"the answer was not complete within 4\.8 s"):
            asked(url, timeout=0.8).send(REQUEST)
        assert time.monotonic() - begun < 60


def test_the_bound_holds_for_what_a_compressed_answer_unpacks_to() -> None:
    bomb = gzip.compress(bytes(256 << 20))
    with serving(partial(whole, body=bomb, Content_Encoding="gzip")) as url:
        with pytest.raises(ResponseTooLarge):
            asked(url).send(REQUEST)
        with pytest.raises(GiveUp, match=r"more than 1048576 bytes: ask for fewer series"):
            Prometheus(url, limits=AnswerLimits(bytes=Bytes(1 << 20))).query("up", datetime(2026, 1, 1, tzinfo=UTC))


def test_a_line_of_a_stream_without_end_breaks_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_api, "LONGEST_LINE", 1 << 20)
    endless = Endless()
    with serving(endless) as url:
        lines = asked(url).stream_lines(REQUEST, idle_timeout=Seconds(5.0))
        with pytest.raises(Unreachable, match="a line has more than 1048576 bytes"):
            next(lines)
        assert endless.sent < 20 << 20


def test_large_objects_make_pages_smaller_and_hide_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty objects of 100 kB each, and a bound of 1 MiB."""
    monkeypatch.setattr(kube_api, "MOST_BYTES", 1 << 20)
    limits: list[int] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        limit, begin = int(query["limit"]), int(query.get("continue", "0"))
        limits.append(limit)
        metadata = {"namespace": "shop", "annotations": {"a": "x" * 100_000}}
        items = [{"metadata": {"name": f"c{n}", **metadata}, "spec": {}} for n in range(begin, min(30, begin + limit))]
        more = str(begin + limit) if begin + limit < 30 else ""
        whole(request, json.dumps({"metadata": {"resourceVersion": "1", "continue": more}, "items": items}).encode())

    with serving(answer) as url:
        pages = list(ListWatchClient(asked(url)).list_pages(CHECKPOINTS))
        assert [len(page.items) for page in pages] == [7, 7, 7, 7, 2]
        assert limits == [500, 62, 7, 7, 7, 7, 7]
        assert len(list(VpaStatusClient(asked(url)).all())) == 30
