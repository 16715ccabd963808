"""A server whose certificate is not of the kubeconfig's authority: one line that says so."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from kubernetes import client as official

from streams.clients.kube.api import Api, ApiRequest
from streams.errors import Unreachable
from streams.serving.certificate_making import self_made

NOW = datetime.now(UTC)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Where a server with a certificate of its own authority is."""
    made = self_made(("127.0.0.1",), NOW)
    for name, text in (("server.crt", made.certificate), ("server.key", made.key)):
        (tmp_path / name).write_bytes(text)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_server_that_is_not_trusted_is_named_as_that(url: str, tmp_path: Path) -> None:
    (tmp_path / "other.crt").write_bytes(self_made(("other",), NOW).authorities)
    settings = official.Configuration(host=url, retries=False)  # type: ignore[no-untyped-call]  # the client has no types
    settings.ssl_ca_cert, settings.proxy = str(tmp_path / "other.crt"), None
    with pytest.raises(Unreachable) as told:
        Api(official.ApiClient(settings)).send(ApiRequest("/version", "asking", "/version"))
    said = str(told.value)
    assert "certificate is not one that we trust" in said
    assert "look at certificate-authority in the kubeconfig" in said
    assert "\n" not in said
