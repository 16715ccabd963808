"""What callers may cost a server, on a real one: half-sent heads, held bodies, silence, unread answers, and many of all."""

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from schemas.units import Bytes, Seconds
from streams.own_faults import TOTALS
from streams.serving.certificate_making import self_made
from streams.serving.connection_limits import BodyBudget, ConnectionGate, ConnectionLimits, Phase, address_of
from streams.serving.https_server import CertificateHolder, HttpsServer, ServerLimits, read_body

CERTIFICATE = self_made(("127.0.0.1",), datetime.now(UTC))
TIGHT = ConnectionLimits(
    connections=8,
    of_one_address=5,
    handshake=Seconds(1.0),
    head=Seconds(1.0),
    idle=Seconds(2.0),
    unread=Seconds(1.0),
    bodies=Bytes(1 << 20),
    bodies_of_one_address=Bytes(1 << 20),
)
BEGUN = b"POST / HTTP/1.1\r\nHost: x\r\nX-Half: "
LARGE = 16 << 20
SOON = 15.0


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    """The length of what was sent, or many bytes."""
    if request.path == "/large":
        return web.Response(body=b"x" * LARGE)
    if request.path == "/refused":
        return web.Response(status=415)
    return web.Response(text=str(len(await read_body(request, 2 << 20))))


@pytest.fixture(params=["tls", "plain"])
def server(request: pytest.FixtureRequest) -> Iterator[HttpsServer]:
    holder = CertificateHolder() if request.param == "tls" else None
    if holder is not None:
        holder.load(CERTIFICATE.certificate, CERTIFICATE.key)
    limits = ServerLimits(deadline=Seconds(2.0), drain=Seconds(0.2), connections=TIGHT)
    with HttpsServer(answer, holder, limits=limits) as made:
        made.secured = holder is not None  # type: ignore[attr-defined]  # for `connected`
        yield made


def connected(server: HttpsServer, source: str = "127.0.0.1") -> socket.socket:
    """A connection from an address of its own, as loopback has many."""
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=SOON, source_address=(source, 0))
    if not server.secured:  # type: ignore[attr-defined]
        return plain
    context = ssl.create_default_context(cadata=CERTIFICATE.authorities.decode())
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def asked(server: HttpsServer, source: str = "127.0.0.1", body: bytes = b"hello") -> bytes:
    with connected(server, source) as to:
        to.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return received(to).rpartition(b"\r\n")[2]


def received(to: socket.socket) -> bytes:
    """Everything until they hang up."""
    pieces = []
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while piece := to.recv(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


def test_a_head_that_never_ends_is_hung_up_on(server: HttpsServer) -> None:
    with connected(server) as half, connected(server) as silent:
        half.sendall(BEGUN)
        assert received(half) == received(silent) == b""


def test_a_head_that_trickles_is_hung_up_on_all_the_same(server: HttpsServer) -> None:
    begun = time.monotonic()
    with connected(server) as slow, contextlib.suppress(ConnectionError, ssl.SSLError):
        slow.sendall(BEGUN)
        while time.monotonic() < begun + SOON:
            slow.sendall(b"x")
            time.sleep(0.1)
    assert time.monotonic() < begun + SOON


def test_a_head_of_many_bytes_is_hung_up_on_at_once(server: HttpsServer) -> None:
    with connected(server) as long, contextlib.suppress(ConnectionError, ssl.SSLError):
        long.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(100_000)))
        assert b"200 OK" not in received(long)


def test_a_body_that_does_not_come_ends_with_408(server: HttpsServer) -> None:
    with connected(server) as held:
        held.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
        assert received(held).startswith(b"HTTP/1.1 408 ")


def test_who_still_sends_a_body_that_was_refused_gets_the_answer(server: HttpsServer) -> None:
    with connected(server) as wordy:
        wordy.sendall(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (4 << 20))
        for _ in range(64):
            wordy.sendall(b"x" * (1 << 16))
        wordy.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
        assert [line for line in received(wordy).splitlines() if line.startswith(b"HTTP/")] == [
            b"HTTP/1.1 415 Unsupported Media Type",
            b"HTTP/1.1 200 OK",
        ]


def test_a_connection_that_breaks_within_a_body_is_no_fault_of_ours(
    server: HttpsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def post(request: web.Request) -> web.StreamResponse:
        return await answer(request)

    before = TOTALS["server"]
    with caplog.at_level(logging.ERROR, "aiohttp.server"), HttpsServer([web.post("/", post)], None) as routed:
        routed.secured = False  # type: ignore[attr-defined]  # for `connected`
        for its in (server, routed):
            for source in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
                with connected(its, source) as lost:
                    lost.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
            assert asked(its, "127.0.0.9") == b"5"
    assert (caplog.messages, TOTALS["server"]) == ([], before)


def test_what_is_no_http_is_answered_and_leaves_no_traceback_in_the_log(
    server: HttpsServer, caplog: pytest.LogCaptureFixture
) -> None:
    heads = (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 30\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\nHost: x\nContent-Length: 0\n\n",
        # More than a line may have, and less than a TLS record: longer ones are hung up on while they are being sent.
        b"POST / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (12 << 10) + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    )
    with caplog.at_level(logging.ERROR, "aiohttp.server"):
        for head in heads:
            with connected(server) as odd:
                odd.sendall(head)
                assert received(odd).partition(b" ")[2].startswith(b"400 ")
    assert caplog.messages == []


def test_an_answer_that_nobody_reads_is_given_up(server: HttpsServer) -> None:
    with connected(server) as deaf:
        deaf.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        listener, until = server._listener, time.monotonic() + 60
        assert listener is not None
        for held in (1, 0):  # it is let in, and hung up on
            while len(listener.gate) != held and time.monotonic() < until:
                time.sleep(0.02)
        assert len(received(deaf)) < LARGE


def test_a_connection_without_requests_is_closed_after_a_while(server: HttpsServer) -> None:
    with connected(server) as idle:
        idle.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert received(idle).startswith(b"HTTP/1.1 200 OK")


def test_bodies_of_all_wait_for_memory_and_are_read_in_the_end(server: HttpsServer) -> None:
    assert asked(server, body=b"x" * (900 << 10)) == b"921600"
    assert asked(server, body=b"x" * (900 << 10)) == b"921600"


def test_many_half_sent_requests_of_one_address_do_not_keep_others_out(server: HttpsServer) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(40):
            with contextlib.suppress(OSError, ssl.SSLError):
                stack.enter_context(connected(server, f"127.0.0.{2 + number % 2}")).sendall(BEGUN)
        assert asked(server) == b"5"


def test_compressed_bodies_are_not_unpacked(server: HttpsServer) -> None:
    body = b"not gzip at all"
    with connected(server) as to:
        to.sendall(
            b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body)
        )
        assert received(to).endswith(b"15")


def test_a_client_that_comes_again_and_again_is_served(server: HttpsServer) -> None:
    assert [asked(server) for _ in range(30)] == [b"5"] * 30


@dataclass(eq=False)
class Caller:
    address: str
    phase: Phase
    since: float
    trusted: bool = False
    ended: bool = field(default=False, init=False)

    def overdue(self, _now: float) -> bool:
        return False

    def end(self) -> None:
        self.ended = True


CALLERS = st.lists(
    st.builds(Caller, st.sampled_from("abcd"), st.sampled_from(Phase), st.floats(0, 100), st.booleans()), max_size=60
)


@given(CALLERS, st.integers(1, 12), st.integers(1, 12))
def test_there_are_never_more_than_the_bounds_and_none_that_is_answered_or_trusted_gives_way(
    callers: list[Caller], most: int, of_one: int
) -> None:
    gate = ConnectionGate(replace(TIGHT, connections=most, of_one_address=of_one))
    inside: list[Caller] = []
    for caller in callers:
        if gate.let_in(caller):
            inside.append(caller)
        inside = [each for each in inside if not each.ended]
        assert list(gate) == inside
        assert len(inside) <= most
        assert all(sum(each.address == name for each in inside) <= of_one for name in "abcd")
    assert not any(each.ended and (each.trusted or each.phase is Phase.ANSWERING) for each in callers)


@given(CALLERS)
def test_whoever_has_fewer_than_another_that_has_nothing_to_answer_is_let_in(callers: list[Caller]) -> None:
    gate = ConnectionGate(TIGHT)
    for caller in callers:
        gate.let_in(caller)
    present = [each for each in callers if not each.ended and each in list(gate)]
    waiting = any(not each.trusted and each.phase is not Phase.ANSWERING for each in present)
    crowded = all(sum(other.address == each.address for other in present) > 1 for each in present)
    if waiting and crowded:
        assert gate.let_in(Caller("the API server", Phase.HANDSHAKE, 0.0))


def test_an_address_is_that_of_a_machine() -> None:
    hosts = ("10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "2001:db8::2", "fe80::1%eth0")
    networks = ["10.0.0.1", "10.0.0.1", "2001:db8::/64", "2001:db8::/64", "fe80::/64"]
    assert [address_of((host, 1)) for host in hosts] == networks
    assert address_of("") == ""


def test_the_budget_of_one_address_leaves_room_for_others_and_waiters_go_on() -> None:
    async def story() -> list[int]:
        budget, seen = BodyBudget(Bytes(10), Bytes(6)), []
        await budget.take("a", 6)
        waiting = asyncio.create_task(budget.take("a", 4))
        await budget.take("b", 4)
        seen.append(budget.held)
        assert not waiting.done()
        budget.give_back("a", 6)
        await waiting
        seen.append(budget.held)
        budget.give_back("a", 4)
        budget.give_back("b", 4)
        return [*seen, budget.held]

    assert asyncio.run(story()) == [10, 8, 0]
