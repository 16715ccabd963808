"""Listens on an address, and lets connections in by the admission policy before anything is done for them, even TLS' handshake.

A round twice a second ends connections that are over their time.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from aiohttp import web

from schemas.units import Seconds
from streams.serving.body_budget import BodyBudget
from streams.serving.connection_limits import ConnectionGate, ConnectionLimits, address_of
from streams.serving.guarded_connection import GuardedConnection

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

    def connection_of(self, protocol: object) -> GuardedConnection | None:
        """The connection that aiohttp's protocol serves; None if it is gone."""
        return self._by_protocol.get(protocol)

    @contextmanager
    def answering(self, request: web.BaseRequest) -> Iterator[GuardedConnection | None]:
        """While a request is answered, which may take long, its connection is over no time. None: it is gone."""
        connection = self.connection_of(request.protocol)
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
