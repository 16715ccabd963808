"""Listens on an address, and lets connections in by the admission policy before anything is done for them, even TLS' handshake.

Between the network and aiohttp's own protocol each connection is guarded: what it is at, and since when. A round twice a second
ends those that are over their time.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from aiohttp import StreamReader, web

from schemas.units import Seconds
from streams.serving.connection_limits import BodyBudget, ConnectionGate, ConnectionLimits, Phase, address_of

_END_OF_HEAD = b"\r\n\r\n"


# aiohttp has no bound for the time of a head, nor for an answer that nobody reads.
class GuardedConnection(asyncio.Protocol):
    """`left` is called when the connection is gone."""

    def __init__(
        self, address: str, limits: ConnectionLimits, budget: BodyBudget, left: Callable[["GuardedConnection"], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        self.address, self.trusted, self.since = address, False, loop.time()
        self.handshake: asyncio.Task[None] | None = None
        self._limits, self._budget, self._left, self._clock = limits, budget, left, loop.time
        self.inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._phase = Phase.HANDSHAKE
        self._content: StreamReader | None = None
        self._head, self._tail = 0, b""
        self._unread_since: float | None = None
        self._held = 0

    def serve(self, inner: asyncio.Protocol) -> "GuardedConnection":
        """Pass everything on to this protocol from now on."""
        self.inner = inner
        return self

    @property
    def phase(self) -> Phase:
        """What it is at."""
        if self._phase is Phase.BODY and self._content is not None and self._content.is_eof():
            return Phase.ANSWERING
        return self._phase

    def end(self) -> None:
        """Hang up, without a word."""
        if self._transport is not None:
            self._transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    def overdue(self, now: float) -> bool:
        """Whether something takes longer than it may."""
        limits, lasts = self._limits, now - self.since
        if self._unread_since is not None and now - self._unread_since > limits.unread:
            return True
        most = {Phase.HEAD: limits.head, Phase.BODY: limits.body, Phase.IDLE: limits.idle}.get(self.phase)
        return most is not None and lasts > most

    def began(self, content: StreamReader) -> None:
        """The head of a request is complete, and it is being answered; this is its body."""
        self._enter(Phase.BODY)
        self._content = content

    def answered(self) -> None:
        """There is an answer; it may still be on its way."""
        self._enter(Phase.IDLE)
        self._head, self._tail = 0, b""
        self._give_back()

    async def take(self, size: int) -> None:
        """Wait until the body of the request may take so much memory more."""
        await self._budget.take(self.address, size)
        self._held += size

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over."""
        if not isinstance(transport, asyncio.Transport) or self.inner is None:
            raise TypeError("a connection of TCP has a transport with two directions, and is served by something")
        self._transport, self.trusted = transport, bool(transport.get_extra_info("peercert"))
        self._enter(Phase.HEAD)
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Bytes of a head or of a body."""
        # What is answered before its body is there has the rest of it to come, which aiohttp throws away for a moment.
        if self._phase is Phase.IDLE and (self._content is None or self._content.is_eof()):
            self._enter(Phase.HEAD)
            self._content = None
        if self._phase is Phase.HEAD:
            if _END_OF_HEAD in self._tail + data:
                self._enter(Phase.BODY)
            elif self._head + len(data) > self._limits.head_bytes:
                self.end()
                return
            self._head, self._tail = self._head + len(data), data[-len(_END_OF_HEAD) + 1 :]
        if self.inner is not None:
            self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        """They send nothing more."""
        return None if self.inner is None else self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._give_back()
        self._left(self)
        if self.inner is not None:
            self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """They do not read, and the buffers are full."""
        self._unread_since = self._clock()
        if self.inner is not None:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        """They read again."""
        self._unread_since = None
        if self._phase is Phase.IDLE:  # the answer, which may be as long as the body, is on its way now
            self._give_back()
        if self.inner is not None:
            self.inner.resume_writing()

    def _enter(self, phase: Phase) -> None:
        self._phase, self.since = phase, self._clock()

    def _give_back(self) -> None:
        """The body is no longer in memory; nor is an answer to it that may be as long."""
        if self._held:
            self._budget.give_back(self.address, self._held)
            self._held = 0


_BACKLOG = 1024  # connections that the kernel holds until we take them: after a restart a whole control plane may come at once
_ROUND = Seconds(0.5)
"""Seconds between two looks at what is over its time."""
_NO_FILES = Seconds(0.2)
"""Seconds until the next connection is taken, when the process has no file left for one."""


class Listener:
    """Connections of one server, in one event loop. `make` gives aiohttp's protocol for one."""

    def __init__(
        self, make: Callable[[], asyncio.Protocol], limits: ConnectionLimits, context: ssl.SSLContext | None = None
    ) -> None:
        self._make, self._limits, self._context = make, limits, context
        self._gate = ConnectionGate(limits)
        self._budget = BodyBudget(limits.bodies, limits.bodies_of_one_address)
        self._sockets: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._by_protocol: dict[object, GuardedConnection] = {}
        self.port = 0

    @property
    def gate(self) -> ConnectionGate:
        """The connections that there are."""
        return self._gate

    async def listen(self, host: str, port: int) -> Self:
        """Begin. Raises OSError where the address cannot be used."""
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, protocol, _, address in dict.fromkeys(infos):
            self._sockets.append(_listening(family, protocol, (address[0], self.port or address[1], *address[2:])))
            self.port = self._sockets[0].getsockname()[1]
        self._tasks = [loop.create_task(self._accept(listening), name="accept") for listening in self._sockets]
        self._tasks.append(loop.create_task(self._look_after(), name="look after connections"))
        return self

    def close(self) -> None:
        """Let nobody in any more; those that are in go on."""
        for task in self._tasks[:-1]:
            task.cancel()
        for listening in self._sockets:
            listening.close()

    def end(self) -> None:
        """Look after nobody any more."""
        for task in self._tasks:
            task.cancel()

    @contextmanager
    def answering(self, request: web.BaseRequest) -> Iterator[GuardedConnection | None]:
        """While a request is answered, which may take long, its connection is over no time. None: it is gone."""
        connection = self._by_protocol.get(request.protocol)
        if connection is None:
            yield None
            return
        connection.began(request.content)
        try:
            yield connection
        finally:
            connection.answered()

    async def _accept(self, at: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                # One by one, for asyncio's own server accepts whatever comes, and a handshake takes a third of a megabyte.
                accepted, peer = await loop.sock_accept(at)
            except OSError:  # no file is left, or the caller is gone already
                await asyncio.sleep(_NO_FILES)
                continue
            connection = GuardedConnection(address_of(peer), self._limits, self._budget, self._left)
            if self._gate.let_in(connection):
                connection.handshake = loop.create_task(self._shake_hands(connection, accepted), name="handshake")
            else:
                accepted.close()

    async def _shake_hands(self, connection: GuardedConnection, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted.setblocking(False)  # noqa: FBT003  # its only argument
            await loop.connect_accepted_socket(
                lambda: self._served(connection),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.handshake if self._context is not None else None,
            )
        except (OSError, asyncio.CancelledError):  # they gave up, speak no TLS, took too long, or gave way
            accepted.close()
            self._left(connection)

    def _served(self, connection: GuardedConnection) -> GuardedConnection:
        protocol = self._make()
        self._by_protocol[protocol] = connection
        return connection.serve(protocol)

    def _left(self, connection: GuardedConnection) -> None:
        self._gate.left(connection)
        self._by_protocol.pop(connection.inner, None)

    async def _look_after(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_ROUND)
            now = loop.time()
            for connection in self._gate:
                if connection.overdue(now):
                    connection.end()


def _listening(family: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            with suppress(OSError):  # IPv4 has a socket of its own, which would find the port taken
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)  # noqa: FBT003  # its only argument
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
