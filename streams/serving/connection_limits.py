"""The admission policy of everything that we serve: what all callers, one address and one connection may cost, at most.

All callers share the connections, and the memory for bodies that are read at one time. A connection whose client certificate we
trust gives way to nobody.
"""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from schemas.units import Bytes, Seconds


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The bounds of one server. Connections with TLS take about 0.3 MB each; docs/security.md has what was measured."""

    connections: int = 256
    of_one_address: int = 128
    """An API server opens one for each review that it waits for; through konnectivity they all come from one address."""
    handshake: Seconds = Seconds(5.0)
    head: Seconds = Seconds(10.0)
    """Seconds for the whole head of a request."""
    head_bytes: Bytes = Bytes(64 << 10)
    body: Seconds = Seconds(30.0)
    """Seconds for the whole body; the deadline of an answer is shorter."""
    idle: Seconds = Seconds(120.0)
    """Seconds between two requests. Go's clients hang up after 90, and nobody should hang up just as they send."""
    unread: Seconds = Seconds(10.0)
    """Seconds for which nobody reads an answer that does not fit into the buffers."""
    bodies: Bytes = Bytes(32 << 20)
    """Bytes of bodies, and of large answers to them, in memory at one time."""
    bodies_of_one_address: Bytes = Bytes(16 << 20)


class Phase(IntEnum):
    """What a connection is at; those that come first here give way first."""

    HANDSHAKE = 0
    HEAD = 1
    BODY = 2
    IDLE = 3
    ANSWERING = 4
    """Its request is complete; it gives way to nobody."""


class Connection(Protocol):
    """What the policy has to know of a connection, and what it can do to it."""

    address: str
    trusted: bool
    since: float
    """When its phase began."""

    @property
    def phase(self) -> Phase:
        """What it is at."""

    def overdue(self, now: float) -> bool:
        """Whether something takes longer than it may."""

    def end(self) -> None:
        """Hang up, without a word."""


class ConnectionGate:
    """Counts the connections of one server, and makes room."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._connections: dict[Connection, None] = {}
        self._of_address: Counter[str] = Counter()
        self.ended = self.refused = 0
        """Connections that gave way, and that were not let in, since the start."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        """All that there are, in the order in which they came."""
        return iter(list(self._connections))

    def let_in(self, connection: Connection) -> bool:
        """Whether it may come in. Others may have to give way, and are told so."""
        if not self._has_room(connection.address):
            self.refused += 1
            return False
        self._connections[connection] = None
        self._of_address[connection.address] += 1
        return True

    def left(self, connection: Connection) -> None:
        """It is gone; may be said more than once."""
        if connection in self._connections:
            del self._connections[connection]
            self._of_address[connection.address] -= 1
            if not self._of_address[connection.address]:
                del self._of_address[connection.address]

    def _has_room(self, address: str) -> bool:
        own = self._of_address.get(address, 0)
        if own >= self._limits.of_one_address:
            return self._give_way(address)
        if len(self._connections) < self._limits.connections:
            return True
        # The address that has the most gives one up, so nobody who opens many keeps out somebody who has few, such as an API
        # server.
        larger = [(count, other) for other, count in self._of_address.items() if count > max(own, 1)]
        return any(self._give_way(other) for _, other in sorted(larger, reverse=True))

    def _give_way(self, address: str) -> bool:
        """End the connection of this address that gives way first; False if none does."""
        candidates = [connection for connection in self._connections if connection.address == address and not connection.trusted]
        least = min(candidates, key=lambda connection: (connection.phase, connection.since), default=None)
        if least is None or least.phase is Phase.ANSWERING:
            return False
        self.ended += 1
        self.left(least)
        least.end()
        return True


def address_of(peer: object) -> str:
    """The address that a peer counts under: of IPv6 the network of 64 bits."""
    host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    # One machine may use all of the 64 bits below its network.
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


class BodyBudget:
    """The memory for bodies that are read at one time, of all callers and of one address. For one event loop."""

    def __init__(self, most: Bytes, of_one_address: Bytes) -> None:
        self._most, self._of_one = most, of_one_address
        self._held: Counter[str] = Counter()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def held(self) -> int:
        """Bytes that are in memory now."""
        return self._held.total()

    async def take(self, address: str, size: int) -> None:
        """Wait until there is room for so many bytes more, and take them."""
        # Meanwhile nothing of the body is read, and TCP holds the sender back.
        while not self._fits(address, size):
            freed = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            try:
                await freed
            finally:
                self._waiting.remove(freed)
        self._held[address] += size

    def give_back(self, address: str, size: int) -> None:
        """So many bytes are no longer in memory."""
        self._held[address] -= size
        if self._held[address] <= 0:
            del self._held[address]
        for freed in self._waiting:
            if not freed.done():
                freed.set_result(None)

    def _fits(self, address: str, size: int) -> bool:
        return self.held + size <= self._most and self._held.get(address, 0) + size <= self._of_one
