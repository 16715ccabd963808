"""The HTTPS server: certificates that change while it answers, bounds, and an end that loses no answer."""

import asyncio
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from aiohttp import web

from schemas.units import Seconds
from streams.errors import BadInput
from streams.serving import certificate_making
from streams.serving.certificate_making import ServingCertificate, self_made
from streams.serving.connection_limits import ConnectionLimits
from streams.serving.https_server import CertificateHolder, HttpsServer, ServerLimits

NOW = datetime.now(UTC)
ONE, OTHER = (self_made(("localhost", "127.0.0.1"), NOW) for _ in range(2))


async def echo(request: web.Request) -> web.Response:
    await asyncio.sleep(float(request.query.get("wait", "0")))
    return web.Response(body=await request.read())


@pytest.fixture
def holder() -> CertificateHolder:
    made = CertificateHolder()
    made.load(ONE.certificate, ONE.key)
    return made


@pytest.fixture
def server(holder: CertificateHolder) -> Iterator[HttpsServer]:
    limits = ServerLimits(body=1000, deadline=Seconds(0.5), drain=Seconds(2.0))
    with HttpsServer([web.post("/", echo)], holder, limits=limits) as made:
        yield made


def connection(server: HttpsServer, *trusted: ServingCertificate, name: str = "127.0.0.1") -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cadata=b"".join(each.authorities for each in trusted).decode())
    return http.client.HTTPSConnection(name, server.port, context=context, timeout=60.0)


def post(to: http.client.HTTPSConnection, body: bytes = b"hello", path: str = "/") -> tuple[int, bytes]:
    to.request("POST", path, body)
    answer = to.getresponse()
    return answer.status, answer.read()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_it_answers_clients_that_trust_its_authority_whether_they_name_a_host_or_not(server: HttpsServer, name: str) -> None:
    assert post(connection(server, ONE, name=name)) == (200, b"hello")
    with pytest.raises(ssl.SSLCertVerificationError):
        post(connection(server, OTHER, name=name))


def test_a_new_certificate_is_for_new_connections_and_old_ones_go_on(server: HttpsServer, holder: CertificateHolder) -> None:
    old = connection(server, ONE)
    assert post(old)[0] == 200
    holder.load(OTHER.certificate, OTHER.key)
    assert post(old) == (200, b"hello")
    assert post(connection(server, OTHER)) == (200, b"hello")
    with pytest.raises(ssl.SSLCertVerificationError):
        post(connection(server, ONE))


def test_certificates_rotate_under_load_without_a_failed_request(server: HttpsServer, holder: CertificateHolder) -> None:
    stop, failures, answered = threading.Event(), list[object](), list[int]()

    def load() -> None:
        kept = connection(server, ONE, OTHER)
        while not stop.is_set():
            try:
                answered.append(post(kept)[0])
                answered.append(post(connection(server, ONE, OTHER))[0])
            except (OSError, http.client.HTTPException) as error:
                failures.append(error)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    for n in range(30):
        each = (ONE, OTHER)[n % 2]
        holder.load(each.certificate, each.key)
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert set(answered) == {200}
    assert len(answered) > 50


def test_a_pair_that_does_not_fit_changes_nothing(server: HttpsServer, holder: CertificateHolder) -> None:
    for certificate, key in ((ONE.certificate, OTHER.key), (b"rubbish", b"rubbish"), (b"", b"")):
        with pytest.raises(BadInput, match="cannot be used"):
            holder.load(certificate, key)
    assert post(connection(server, ONE))[0] == 200


def test_without_a_certificate_nobody_gets_through() -> None:
    with HttpsServer([web.post("/", echo)], CertificateHolder()) as server, pytest.raises(ssl.SSLError):
        post(connection(server, ONE))


def test_tls_is_1_2_at_least_before_and_after_the_certificate_is_chosen(server: HttpsServer, holder: CertificateHolder) -> None:
    assert holder.front.minimum_version == ssl.TLSVersion.TLSv1_2
    context = ssl.create_default_context(cadata=ONE.authorities.decode())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    to = http.client.HTTPSConnection("127.0.0.1", server.port, context=context)
    assert post(to)[0] == 200
    assert holder._current is not None
    assert holder._current.minimum_version == ssl.TLSVersion.TLSv1_2


def test_too_long_a_body_and_too_long_an_answer_are_cut_short(server: HttpsServer) -> None:
    assert post(connection(server, ONE), b"x" * 1000)[0] == 200
    assert post(connection(server, ONE), b"x" * 1001)[0] == 413
    assert post(connection(server, ONE), b"x" * 10, "/?wait=3")[0] in (408, 503)


def test_a_client_that_never_speaks_is_hung_up_on(holder: CertificateHolder) -> None:
    limits = ServerLimits(connections=ConnectionLimits(handshake=Seconds(0.2)))
    routes = [web.post("/", echo)]
    with HttpsServer(routes, holder, limits=limits) as server, socket.create_connection(("127.0.0.1", server.port)) as to:
        to.settimeout(5.0)
        assert to.recv(1) == b""


def test_asked_to_stop_it_answers_what_has_arrived(holder: CertificateHolder) -> None:
    limits = ServerLimits(linger=Seconds(0.2), drain=Seconds(3.0))
    got: list[int] = []
    arrived = threading.Event()

    async def answer(request: web.Request) -> web.Response:
        arrived.set()
        return await echo(request)

    with HttpsServer([web.post("/", answer)], holder, limits=limits) as server:
        port = server.port
        waiting = connection(server, ONE)
        thread = threading.Thread(target=lambda: got.append(post(waiting, path="/?wait=0.6")[0]))
        thread.start()
        assert arrived.wait(60)
    thread.join()
    assert got == [200]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_asked_to_stop_it_tells_clients_to_connect_anew(holder: CertificateHolder) -> None:
    """Else a client could send its next request at the very moment at which we hang up, and would never hear of it."""
    limits, stopped = ServerLimits(linger=Seconds(2.0)), threading.Event()
    server = HttpsServer([web.post("/", echo)], holder, limits=limits).__enter__()
    kept = connection(server, ONE)
    kept.request("POST", "/", b"before")
    before = kept.getresponse()
    assert server._stop is not None
    assert (before.read(), before.getheader("Connection")) == (b"before", None)
    thread = threading.Thread(target=lambda: (server.__exit__(None, None, None), stopped.set()))
    thread.start()
    while not server._stop.is_set():
        time.sleep(0.01)
    kept.request("POST", "/", b"after")
    after = kept.getresponse()
    assert (after.read(), after.getheader("Connection")) == (b"after", "close")
    assert not stopped.is_set()
    thread.join()


def test_an_address_that_is_taken_is_said(server: HttpsServer, holder: CertificateHolder) -> None:
    with pytest.raises(BadInput, match=f"127.0.0.1:{server.port}"), HttpsServer([], holder, address=("127.0.0.1", server.port)):
        pass


def test_the_certificate_that_is_shown_is_the_one_that_was_loaded(server: HttpsServer) -> None:
    context = ssl.create_default_context(cadata=ONE.authorities.decode())
    with socket.create_connection(("127.0.0.1", server.port)) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as to:
        shown = to.getpeercert(binary_form=True)
    assert shown is not None
    assert certificate_making.x509.load_der_x509_certificate(shown) == certificate_making.read(ONE.certificate)[0]
