"""One connection under the admission policy: between the network and aiohttp it sees what the connection is at, and since when.

It passes everything on to aiohttp's own protocol, and a round of the listener ends what is over its time.
"""

import asyncio
from collections.abc import Callable

from aiohttp import StreamReader

from streams.serving.body_budget import BodyBudget
from streams.serving.connection_limits import ConnectionLimits, Phase

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
