"""One HTTPS server on aiohttp, in a thread with an event loop of its own, for everything that this program serves.

TLS 1.2 or newer. The certificate can be changed at any time: a new handshake gets the new one, and connections that exist go on.
What callers may cost is bounded: connections, heads, bodies and time. When it stops, it answers pending requests, then hangs up.
It has no paths of its own: it gets routes, or one handler for everything, which costs half as much a request.
"""

import asyncio
import logging
import ssl
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from schemas.units import Seconds
from streams.errors import BadInput
from streams.own_faults import OwnFaults
from streams.serving.connection_limits import ConnectionLimits
from streams.serving.listener import GuardedConnection, Listener

_START = 10.0
"""Seconds until a server that was started must listen."""
_ACCEPTED = 0.25  # seconds for the connections that were accepted last to bring their request


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """What a handler answers instead of 503 when its time is over; it leaves that in the request."""

    make: Callable[[], web.Response]


SERVED: Final[dict[str, Any]] = {"access_log": None, "auto_decompress": False, "read_bufsize": 1 << 16, "lingering_time": 1.0}
"""How aiohttp serves: nothing is logged for each request, nothing unpacked, little read ahead, and no rest of a body awaited."""
LATE_ANSWER = web.RequestKey("LATE_ANSWER", LateAnswer)
CONNECTION = web.RequestKey("CONNECTION", GuardedConnection)
"""The connection that a request came by."""
MOST_FAULTS = 20  # of our own in a row, then a server ends; more than for decisions, because requests come from outside


def _is_no_callers_fault(line: logging.LogRecord) -> bool:
    # What is no HTTP was answered with 400. Whoever reaches the port could otherwise fill the log with tracebacks.
    return line.exc_info is None or not isinstance(line.exc_info[1], HttpProcessingError)


logging.getLogger("aiohttp.server").addFilter(_is_no_callers_fault)

AnyPath = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""Answers every request, whatever its method and path. It bounds the body itself, and leaves it to us to write the response."""


class CertificateHolder:
    """The server's certificate, and the authorities of clients' certificates that it accepts; both may change at any moment.

    `asks_clients`: clients are asked for a certificate. A client without one may still connect; one with a certificate of an
    authority that `trust` has not named is refused.
    """

    def __init__(self, *, asks_clients: bool = False) -> None:
        self.front = _context()
        """What the server is opened with. It hands each handshake on to the context of the newest certificate."""
        self._current: ssl.SSLContext | None = None
        self._shown: tuple[bytes, bytes] | None = None
        self._asks, self._trusted = asks_clients, b""
        self.front.sni_callback = self._hand_on
        if asks_clients:
            self.front.verify_mode = ssl.CERT_OPTIONAL

    def load(self, certificate: bytes, key: bytes) -> None:
        """Show this certificate (a chain in PEM) from now on. Raises BadInput, and changes nothing, if the pair does not fit."""
        # A context for each: OpenSSL keeps one certificate for each kind of key, and would go on to show the old one.
        self._current, self._shown = self._made(certificate, key, self._trusted), (certificate, key)

    def trust(self, authorities: bytes) -> None:
        """Take certificates of these authorities (PEM) from clients, from the next handshake on. Raises BadInput."""
        if self._shown is not None and authorities != self._trusted:
            self._current = self._made(*self._shown, authorities)
        self._trusted = authorities

    def _made(self, certificate: bytes, key: bytes, trusted: bytes) -> ssl.SSLContext:
        context = _context()
        with tempfile.TemporaryDirectory(prefix="ullage-") as folder:
            paths = Path(folder, "tls.crt"), Path(folder, "tls.key")
            for path, content in zip(paths, (certificate, key), strict=True):
                path.touch(mode=0o600)
                path.write_bytes(content)
            try:
                context.load_cert_chain(*paths, password="")  # refuse a key with a password instead of asking for the password
            except (ssl.SSLError, ValueError) as error:
                raise BadInput(f"the certificate and its key cannot be used: {error}") from error
        if self._asks:
            context.verify_mode = ssl.CERT_OPTIONAL
            try:
                if trusted:
                    context.load_verify_locations(cadata=trusted.decode("ascii"))
            except (ssl.SSLError, ValueError) as error:
                raise BadInput(f"the authorities of clients cannot be used: {error}") from error
        return context

    @property
    def loaded(self) -> bool:
        """Whether there is anything to show."""
        return self._current is not None

    def _hand_on(self, connection: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> int | None:
        """Called in each handshake, even if the client names no host."""
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = self._current
        return None


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """`body`: bytes of a request; `deadline`: seconds for an answer; `linger`: seconds to go on answering when asked to stop.

    A server that is told to stop still gets requests for a moment, because it takes time until clients know that an endpoint is
    gone.
    """

    body: int = 5 * 1024 * 1024
    deadline: Seconds = Seconds(4.0)
    linger: Seconds = Seconds(0.0)
    drain: Seconds = Seconds(3.0)
    """Seconds after that to answer pending requests."""
    connections: ConnectionLimits = ConnectionLimits()


class HttpsServer:
    """Serves `routes` while it is entered; `port` 0 takes a free one. Without a holder it speaks plain HTTP."""

    def __init__(
        self,
        routes: Sequence[web.RouteDef] | AnyPath,
        holder: CertificateHolder | None,
        *,
        address: tuple[str, int] = ("127.0.0.1", 0),
        limits: ServerLimits | None = None,
    ) -> None:
        self._routes, self._holder, self._address, self._limits = routes, holder, address, limits or ServerLimits()
        self._thread = threading.Thread(target=self._run, name="https", daemon=True)
        self._listening = threading.Event()
        self._fault: OSError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._listener: Listener | None = None
        self.faults = OwnFaults("server", MOST_FAULTS)
        self.port = 0

    def __enter__(self) -> Self:
        """Listen. Raises BadInput when the address cannot be used."""
        self._thread.start()
        if not self._listening.wait(_START):
            raise BadInput(f"nothing listens on {self._named} after {_START:g} s")
        if self._fault is not None:
            raise BadInput(f"nothing can be served on {self._named}: {self._fault.strerror or self._fault}") from self._fault
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Answer what has arrived, then hang up."""
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(self._limits.linger + self._limits.drain + self._limits.deadline)

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive() and self._fault is None

    @property
    def _named(self) -> str:
        host, port = self._address
        return f"{host}:{port}"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._listening.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        runner = self._runner(self._routes)
        await runner.setup()
        try:
            listener = await self._listen(runner)
            if listener is None:
                return
            await self._stop.wait()
            await asyncio.sleep(self._limits.linger)
            listener.close()
            await asyncio.sleep(min(_ACCEPTED, self._limits.drain))
            await runner.cleanup()
            listener.end()
        finally:
            await runner.cleanup()

    def _runner(self, routes: Sequence[web.RouteDef] | AnyPath) -> web.BaseRunner:
        drain, how = self._limits.drain, SERVED
        if callable(routes):
            return web.ServerRunner(web.Server(self._answering(routes), **how), shutdown_timeout=drain)
        app = web.Application(client_max_size=self._limits.body, middlewares=[self._guarded])
        app.add_routes(routes)
        return web.AppRunner(app, handle_signals=False, shutdown_timeout=drain, **how)

    def _answering(self, handler: AnyPath) -> AnyPath:
        async def answering(request: web.BaseRequest) -> web.StreamResponse:
            return await self._answer(request, handler)

        return answering

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await self._answer(request, handler)
        except web.HTTPException as refused:
            self._close_when_stopping(refused)
            raise
        except Exception as fault:  # noqa: BLE001  # handlers call everything that we have written
            self.faults.happened(f"answering {request.method} {request.path[:200]}", fault)
            return web.Response(status=500, text="a fault of Ullage's own, which its log has\n")
        self.faults.none()
        return response

    async def _answer(self, request: Any, handler: Callable[[Any], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
        if self._listener is None:
            return await handler(request)
        with self._listener.answering(request) as connection:
            if connection is None:
                return await handler(request)
            request[CONNECTION] = connection
            response = await _in_time(request, handler(request), self._limits.deadline)
        self._close_when_stopping(response)
        return response

    def _close_when_stopping(self, response: web.StreamResponse) -> None:
        # So no client sends its next request on this connection just as we hang up.
        if self._stop is not None and self._stop.is_set():
            response.force_close()

    async def _listen(self, runner: web.BaseRunner) -> Listener | None:
        context = None if self._holder is None else self._holder.front
        self._listener = listening(runner, self._limits.connections, context)
        try:
            await self._listener.listen(*self._address)
        except OSError as error:
            self._fault = error
            return None
        self.port = self._listener.port
        self._listening.set()
        return self._listener


def listening(runner: web.BaseRunner, limits: ConnectionLimits | None = None, context: ssl.SSLContext | None = None) -> Listener:
    """A listener, which does not listen yet, for what a runner that was set up serves."""
    make = runner.server
    if make is None:
        raise RuntimeError("the runner was set up, so it has a server")
    return Listener(make, limits or ConnectionLimits(), context)


async def read_body(request: web.BaseRequest, most: int) -> bytes:
    """The body, as far as it may be kept, and one byte more to show that it is too long. What is kept is in the budget of all.

    Raises HTTPBadRequest where the connection ends before the body does.
    """
    connection = request.get(CONNECTION)
    pieces, size = list[bytes](), 0
    try:
        async for piece in request.content.iter_any():
            kept = piece[: max(0, most + 1 - size)]
            if connection is not None and kept and not request.content.is_eof():
                await connection.take(len(kept))
            pieces.append(kept)
            size += len(piece)
    except OSError as ended:  # what the connection ended by: the caller's doing, and no fault of ours
        raise web.HTTPBadRequest(text=f"the connection ended within the body: {ended}\n") from ended
    return b"".join(pieces)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _in_time(request: web.BaseRequest, answer: Awaitable[web.StreamResponse], deadline: Seconds) -> web.StreamResponse:
    try:
        async with asyncio.timeout(deadline):
            return await answer
    except TimeoutError:
        late: LateAnswer | None = request.get(LATE_ANSWER)
        if late is not None:
            return late.make()
        if not request.content.at_eof():
            return web.Response(status=408, text=f"the request was not there within {deadline:g} s\n")
        return web.Response(status=503, text=f"no answer within {deadline:g} s\n")
