"""The report as a page that keeps itself up to date: sent again, by server-sent events, whenever the log has moved on.

It only reads. It listens on loopback; on any other address it demands a token. It speaks plain HTTP: for other machines put it
behind a proxy with a certificate.
"""

import asyncio
import hmac
import ipaddress
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from agents.backtest.price_list import PriceList
from agents.commands.report import console_page, report_page
from agents.commands.report.console_page import ConsoleData
from agents.commands.report.report_data import ReportData
from agents.commands.report.report_page import LiveParts
from schemas.units import Seconds
from streams.errors import BadInput, UllageError
from streams.serving.connection_limits import ConnectionLimits
from streams.serving.https_server import SERVED, listening
from streams.serving.listener import Listener

_STREAMS = 32
"""Pages that are kept up to date at one time."""
_EXPLANATIONS = 2
"""Explanations that are looked for at one time."""
_LONGEST = 500
_RETRY = b"retry: 2000\n\n"
_QUIET = 15.0
"""Seconds after which a stream says that it is alive."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_SCRIPT = """
const news = new EventSource('events' + location.search);
news.addEventListener('report', event => {
  const sent = JSON.parse(event.data);
  const top = scrollY;
  document.getElementById('report').innerHTML = sent.content;
  turn(false);
  arrange();
  scrollTo(0, top);
  document.body.dataset.version = event.lastEventId;
});
"""


@dataclass(frozen=True, slots=True)
class LiveAddress:
    """Where the page is served. `token` is what a reader must show; empty on loopback alone."""

    host: str
    port: int
    token: str = ""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return _is_loopback(self.host)


def address_of(listen: str, token: str) -> LiveAddress:
    """The address that `HOST:PORT` means. Raises BadInput for none, and for one beyond this machine without a good token."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004  # the largest port there is
        raise BadInput(f"--listen '{listen}' is no address: give HOST:PORT, as 127.0.0.1:8080; port 0 takes a free one")
    address = LiveAddress(host.strip("[]") or "0.0.0.0", int(port), token)  # noqa: S104  # as everywhere, an empty host is all
    if not address.is_loopback and len(token) < 16:  # noqa: PLR2004  # stated in the sentence below
        raise BadInput(
            f"--listen '{listen}' is reached from other machines: give --token-file with a token of 16 characters or more"
        )
    return address


def _is_loopback(host: str) -> bool:
    # without a look-up, which another machine could answer
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


@dataclass(frozen=True, slots=True)
class LiveData:
    """One reading of the log."""

    report: ReportData
    console: ConsoleData


@dataclass(slots=True)
class LiveReport:
    """The newest report, and those who wait for the next. `read` gives it, or None where the log has not moved on.

    `explain` gives the explanation that `ullage why` prints of something, and raises BadInput where the log has nothing about it.
    """

    read: Callable[[], LiveData | None]
    explain: Callable[[str], str]
    prices: PriceList
    address: LiveAddress
    period: Seconds
    say: Callable[[str], None]
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    _listener: Listener | None = None
    _data: LiveData | None = None
    _version: int = 0
    _streams: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _explaining: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_EXPLANATIONS))

    async def serve(self) -> None:
        """Serve until cancelled. Raises BadInput where the address cannot be used, and what the first reading raises."""
        self._data = await asyncio.to_thread(self.read)
        app = web.Application(middlewares=[self._checked], client_max_size=4096)
        app.add_routes([web.get("/", self._page), web.get("/events", self._events), web.get("/why", self._why)])
        # streams never end by themselves, so there is no use in waiting for them
        runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=1.0, **SERVED)
        await runner.setup()
        self._listener = listener = listening(runner, self.limits)
        try:
            await listener.listen(self.address.host, self.address.port)
            host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
            self.say(f"http://{host}:{listener.port}/{'?token=...' if self.address.token else ''}")
            await self._follow()
        except OSError as error:
            raise BadInput(f"the page cannot be served on {self.address.host}:{self.address.port}: {error.strerror}") from error
        finally:
            listener.close()
            await runner.cleanup()
            listener.end()

    async def _follow(self) -> None:
        """Read again and again."""
        while True:
            await asyncio.sleep(self.period)
            try:
                data = await asyncio.to_thread(self.read)
            except UllageError as error:
                # a broker that restarts must not end the page
                self.say(f"the log could not be read, the page stays as it is: {error}")
                continue
            if data is not None:
                async with self._changed:
                    self._data, self._version = data, self._version + 1
                    self._changed.notify_all()

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.address.token:
            shown = request.query.get("token", "") or request.headers.get("Authorization", "").removeprefix("Bearer ")
            # in constant time: the time of a refusal must not tell how much of the token is right
            if not hmac.compare_digest(shown.encode(), self.address.token.encode()):
                raise web.HTTPUnauthorized(text="the token is missing or another one\n")
        # against DNS rebinding: a stranger's page may give its own name our address, but not our Host header
        elif not _is_loopback(urlsplit(f"//{request.host}").hostname or ""):
            raise web.HTTPForbidden(text="this page answers to the names of its own machine alone\n")
        if self._listener is None:
            raise web.HTTPServiceUnavailable(text="nothing is served yet\n")
        with self._listener.answering(request):
            return await handler(request)

    async def _page(self, _request: web.Request) -> web.Response:
        if self._data is None:
            raise web.HTTPServiceUnavailable(text="nothing is read yet\n")
        above = "\n".join(console_page.content(self._data.console))
        live = LiveParts(console_page.STYLE, console_page.controls(), above, _SCRIPT)
        lines = report_page.page(self._data.report, self.prices, {}, live)
        return web.Response(text="\n".join(lines), content_type="text/html", charset="utf-8", headers=_HEADERS)

    async def _why(self, request: web.Request) -> web.Response:
        """The explanation of a decision, an outcome, a pod, a workload, or the record at a place."""
        asked = request.query.get("asked", "")
        if not 0 < len(asked) <= _LONGEST:
            raise web.HTTPBadRequest(text=f"ask for something of 1 to {_LONGEST} characters: why?asked=...\n")
        # each explanation reads the log, so there are few at one time
        async with self._explaining:
            try:
                text = await asyncio.to_thread(self.explain, asked)
            except BadInput as error:
                raise web.HTTPNotFound(text=f"{error}\n") from error
            except UllageError as error:
                raise web.HTTPServiceUnavailable(text=f"the log could not be read: {error}\n") from error
        return web.Response(text=text, content_type="text/plain", charset="utf-8", headers=_HEADERS)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= _STREAMS:
            raise web.HTTPServiceUnavailable(text=f"{_STREAMS} pages are kept up to date already\n")
        self._streams += 1
        try:
            answer = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
            await answer.prepare(request)
            await answer.write(_RETRY)
            async for message in self._news():
                await answer.write(message)
        except ConnectionError:
            pass  # the browser is gone
        finally:
            self._streams -= 1
        return answer

    async def _news(self) -> AsyncIterator[bytes]:
        """Each report once, beginning with the newest; a slow reader skips some."""
        sent = -1
        while True:
            data, version = await self._after(sent)
            if version == sent or data is None:
                # a comment of the protocol, so that no proxy closes a stream for being quiet
                yield b": still here\n\n"
                continue
            sent = version
            above = "\n".join(console_page.content(data.console))

            message = {"content": "\n".join(report_page.content(data.report, self.prices, above))}
            yield b"id: %d\nevent: report\ndata: %s\n\n" % (version, orjson.dumps(message))

    async def _after(self, version: int) -> tuple[LiveData | None, int]:
        """The newest report, once it is newer than `version` or has not been for a while."""
        async with self._changed:
            # nothing new within the time is an answer, too
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait_for(lambda: self._version > version), _QUIET)
            return self._data, self._version
