"""The report as a page that keeps itself up to date: sent again, by server-sent events, whenever the log has moved on.

It only reads. It listens on loopback; on any other address it demands a token. It speaks plain HTTP: for other machines put it
behind a proxy with a certificate.

An operator looks first at the console that stands above the report. Its rows carry the place of their record in `data-why`: a
click, or Enter, asks for its explanation and shows it beside the page.
"""

import asyncio
import hmac
import html
import ipaddress
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from agents.backtest.price_list import PriceList
from agents.commands.past import timeline
from agents.commands.past.timeline import TimelineEntry
from agents.commands.report import page_parts, report_page
from agents.commands.report.report_data import ReportData
from agents.commands.report.report_page import LiveParts
from agents.commands.status import newest_records, status
from agents.commands.status.status_rows import StatusRow
from agents.settings.all_settings import Settings
from schemas.outcomes import Outcome
from schemas.units import Seconds
from streams.codec.event_codec import header
from streams.errors import BadInput, UllageError
from streams.log_context import LogContext
from streams.publishing.operator_log import NewestTick
from streams.serving.connection_limits import ConnectionLimits
from streams.serving.https_server import SERVED, listening
from streams.serving.listener import Listener

TOPICS = ("pod-updates", "node-updates", "replica-plans", "outcomes", "memory-leaks", "oom-events", "control")
MOST = 200
"""Events that are shown, the newest."""
_LATELY = timedelta(days=1)
_REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ConsoleEvent:
    """One event; `kind` is decision, refusal, outcome or fact."""

    kind: str
    entry: TimelineEntry


@dataclass(frozen=True, slots=True)
class ConsoleData:
    """`updated` is the newest tick, which the row of the clock names, too.

    `health` has a row for each part, and the cluster's mode, pause and budget.
    """

    updated: datetime
    health: tuple[StatusRow, ...]
    events: tuple[ConsoleEvent, ...]

    @property
    def states(self) -> tuple[tuple[str, str, str, bool], ...]:
        """The state of each part."""
        # without the sentences: their ages change with each look, and the page would be sent again for that alone
        return tuple((row.kind, row.name, row.state, row.warns) for row in self.health)


def collect(context: LogContext, settings: Settings, tick: NewestTick) -> ConsoleData:
    """Read it from the log's end. `tick`: the newest one when the reading began. Raises LogUnavailable."""
    by_id: dict[str, ConsoleEvent] = {}
    for name in TOPICS:
        for record in newest_records.read(context.log, context.topics.wire(name), tick.at - _LATELY, most=MOST).records:
            event = context.codec.decode_or_none(record)
            if event is not None and timeline.is_news(event):
                entry = timeline.entry_of(record, event)
                kind = "fact" if name in {"oom-events", "control"} else "outcome" if isinstance(event, Outcome) else "decision"
                ident = header(record, "ce_id") or entry.place
                # by id, so that what was published twice is shown once
                by_id[ident] = ConsoleEvent("refusal" if _REFUSED in entry.what else kind, entry)
    newest = sorted(by_id.values(), key=lambda shown: (shown.entry.at, shown.entry.place), reverse=True)
    return ConsoleData(tick.at, tuple(status.read(context, settings, tick)), tuple(newest[:MOST]))


KINDS = ("decision", "refusal", "outcome", "fact")
STYLE = """
tr.warns td:nth-child(3) { color: var(--bad) } #health { margin-top: 1rem } #console + h1 { margin-top: 2.5rem }
@media (max-width: 45rem) {
  #health tr, #news tr { border-bottom: 1px solid var(--line); display: block; padding: .4rem 0 }
  #health :is(td, th), #news :is(td, th) { border: 0; display: inline-block; overflow-wrap: anywhere;
    padding: 0 .8rem 0 0; white-space: normal }
  #health td:last-child, #news td:last-child { display: block }
}
#events { max-height: 24rem; overflow: auto }
"""


def controls() -> str:
    """The filter, which stays while the page is sent again."""
    options = "".join(f"<option>{kind}</option>" for kind in KINDS)
    return f'<select id="kind" aria-label="kind of event"><option value="">all events</option>{options}</select>'


def content(data: ConsoleData) -> Iterator[str]:
    """Mode and health, and the newest events."""
    yield '<section id="console"><h2 id="now">Now</h2>'
    updated = f"{data.updated:%Y-%m-%d %H:%M:%S}"
    yield f'<p class="sub">updated at <b id="updated">{updated}</b> UTC, the newest tick; this page only reads</p>'
    warned = sum(row.warns for row in data.health)
    says = f"parts that somebody should look at, of {len(data.health)}"
    yield from page_parts.tiles(
        *((row.state, f"{row.name}: {row.says}", "") for row in data.health if row.kind == "cluster"),
        (f"{warned}", says, "bad" if warned else "good"),
    )
    yield '<div class="wide"><table id="health">'
    yield f"<thead><tr>{_heads('part', 'name', 'state', 'says')}</tr></thead><tbody>"
    for row in data.health:
        cells = "".join(f"<td>{page_parts.breakable(cell)}</td>" for cell in (row.kind, row.name, row.state, row.says))
        yield f"<tr{' class=warns' if row.warns else ''}>{cells}</tr>"
    yield "</tbody></table></div>"
    yield '<h2 id="newest">Newest decisions, refusals and outcomes</h2><div class="wide" id="events"><table id="news">'
    yield f"<thead><tr>{_heads('time', 'kind', 'what', 'about', 'detail')}</tr></thead><tbody>"
    for event in data.events:
        entry = event.entry
        shown = (f"{entry.at:%m-%d %H:%M:%S}", event.kind, entry.what, entry.about, entry.detail)
        cells = "".join(f"<td>{page_parts.breakable(cell)}</td>" for cell in shown)
        yield f'<tr tabindex="0" data-kind="{event.kind}" data-why="{html.escape(entry.place)}">{cells}</tr>'
    yield "</tbody></table></div></section>"


def _heads(*names: str) -> str:
    return "".join(f'<th tabindex="0">{name}</th>' for name in names)


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
        above = "\n".join(content(self._data.console))
        live = LiveParts(STYLE, controls(), above, _SCRIPT)
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
            above = "\n".join(content(data.console))

            message = {"content": "\n".join(report_page.content(data.report, self.prices, above))}
            yield b"id: %d\nevent: report\ndata: %s\n\n" % (version, orjson.dumps(message))

    async def _after(self, version: int) -> tuple[LiveData | None, int]:
        """The newest report, once it is newer than `version` or has not been for a while."""
        async with self._changed:
            # nothing new within the time is an answer, too
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait_for(lambda: self._version > version), _QUIET)
            return self._data, self._version
