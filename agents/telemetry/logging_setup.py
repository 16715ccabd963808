"""Logging: JSON lines on stderr, or for people when it is a terminal. The topics are the real log, so lines are rare.

Lines for people are coloured unless NO_COLOR is set. There is one line when a process starts (with its settings) and one when it
ends, one for each decision carried out, and one for each failure. Warnings and errors of libraries (Faust, the Kafka clients) go
the same way, but those of the Kafka and HTTP clients are held back until their cause is known: without a broker they repeat the
same lines hundreds of times a minute. Every line names the component.
"""

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TextIO, cast

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from agents.run.current_process_part import PRESENT
from agents.terminal.output import visible, visible_line
from schemas.units import Seconds
from streams.url_redaction import without_password

CLIENTS = ("kafka", "aiokafka", "urllib3", "faust", "mode", "asyncio")
"""The first words of the names of their loggers."""
AGAIN = Seconds(600.0)
"""Seconds in which one sentence is let out once."""
_MOST_HELD = 200
_LINGER = Seconds(10.0)
"""Seconds after an outage in which the clients still speak of it."""


class ClientLogFilter(logging.Filter):
    """Holds back clients' lines, except errors with a traceback. `clock` counts real seconds."""

    def __init__(self, handler: logging.Handler, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`handler` gets the released lines; add the filter to it."""
        super().__init__()
        self._handler, self._clock, self._lock = handler, clock, threading.Lock()
        self._held: list[logging.LogRecord] = []
        self._dropped = 0
        self._logged_at: dict[tuple[str, str], float] = {}
        self._quiet_until = float("-inf")
        self._call: Callable[[], object] | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is logged now. Without a watcher, every line is."""
        if self._call is None or getattr(record, "let_out", False) or record.name.partition(".")[0] not in CLIENTS:
            return True
        with self._lock:
            first = not self._held
            if len(self._held) < _MOST_HELD:
                self._held.append(record)
            else:
                self._dropped += 1
        if first:
            self._call()
        return False

    def on_first(self, call: Callable[[], object]) -> None:
        """Set what to call when a line is held back for the first time."""
        self._call = call

    def release(self) -> None:
        """Log the lines that were held back, each sentence once in a while."""
        now = self._clock()
        with self._lock:
            records, self._held, self._dropped = self._held, [], 0
        # Right after an outage the clients still speak of it.
        if now < self._quiet_until:
            return
        for record in records:
            key = record.name, str(record.msg)
            if now - self._logged_at.get(key, float("-inf")) >= AGAIN:
                self._logged_at[key] = now
                record.let_out = True
                self._handler.handle(record)

    def drop(self) -> int:
        """Drop the lines that were held back; how many there were."""
        with self._lock:
            count = len(self._held) + self._dropped
            self._held, self._dropped = [], 0
        self._quiet_until = self._clock() + _LINGER
        return count


_IN_LINES = ("exception", "stack")
"""What is a traceback."""


class Line(StrEnum):
    """The events of every process; components have their own beside these."""

    STARTED = "process started"
    ENDED = "process ended"
    FAILURE = "failure"


def set_up(component: str, *, stream: TextIO | None = None, colours: bool | None = None) -> FilteringBoundLogger:
    """Route all logging of this process to `stream` (default stderr) and return a logger.

    `component` is on every line. A process of several parts routes once, and each part's lines name the part.
    """
    if PRESENT.get() is not None:
        return cast("FilteringBoundLogger", structlog.get_logger("ullage"))
    out = stream if stream is not None else sys.stderr

    def name(_logger: object, _method: str, line: EventDict) -> EventDict:
        part = PRESENT.get()
        line["component"] = component if part is None else part.name
        return line

    first: list[Processor] = [
        name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    _route_libraries(out, [*first, structlog.stdlib.add_logger_name], _renderers(out.isatty() if colours is None else colours))
    structlog.configure(
        processors=[*first, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        # Loggers of modules are made at import, before this runs.
        cache_logger_on_first_use=False,
    )
    for ours in ("ullage", "streams"):  # not "agents": Faust logs its own steps under the modules that host it
        logging.getLogger(ours).setLevel(logging.INFO)
    return cast("FilteringBoundLogger", structlog.get_logger("ullage"))


def client_log_filter() -> ClientLogFilter | None:
    """The filter that holds back the clients' own lines; None before `set_up`."""
    filters = [log_filter for handler in logging.getLogger().handlers for log_filter in handler.filters]
    return next((log_filter for log_filter in filters if isinstance(log_filter, ClientLogFilter)), None)


def started(log: FilteringBoundLogger, settings: Mapping[str, object]) -> None:
    """Log that the process starts, with these settings. The caller leaves secrets out."""
    log.info(Line.STARTED, settings={name: _plain(value) for name, value in settings.items()})


def ended(log: FilteringBoundLogger, *, code: int, reason: str) -> None:
    """Log that the process ends."""
    (log.info if code == 0 else log.error)(Line.ENDED, code=code, reason=reason)


def failed(log: FilteringBoundLogger, *, doing: str, error: BaseException) -> None:
    """Log a failure. `doing` is a gerund phrase. Our own errors are one sentence; others come with their traceback."""
    ours = type(error).__module__.startswith(("streams.", "agents.", "schemas."))
    log.error(Line.FAILURE, doing=doing, error=f"{type(error).__name__}: {error}", exc_info=None if ours else error)


def _renderers(colours: bool) -> list[Processor]:
    if colours:
        return [
            structlog.processors.format_exc_info,
            _without_passwords,
            _visible,
            structlog.dev.ConsoleRenderer(colors=not os.environ.get("NO_COLOR")),
        ]
    return [structlog.processors.format_exc_info, _without_passwords, structlog.processors.JSONRenderer(_json)]


def _without_passwords(_logger: object, _method: str, line: EventDict) -> EventDict:
    # Clients put their URLs into their own lines and into the texts of exceptions.
    return {name: without_password(value) if isinstance(value, str) else value for name, value in line.items()}


def _visible(_logger: object, _method: str, line: EventDict) -> EventDict:
    """Escape what a terminal would obey or what would look like another line; the colours are added later."""
    return {visible_line(name): _shown(name, value) for name, value in line.items()}


def _shown(name: str, value: object) -> object:
    if name in _IN_LINES:
        return visible(str(value)).replace("\n", "\n    ")  # a traceback keeps its lines, and none looks like a line of ours
    text = value if isinstance(value, str) else repr(value)
    shown = visible_line(text)
    return shown if isinstance(value, str) or shown != text else value


def _json(line: object, **_: object) -> str:
    try:
        return visible(orjson.dumps(line, default=str).decode())
    except orjson.JSONEncodeError:  # a lone surrogate, or a number beyond 64 bits
        return json.dumps(line, default=str)


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _route_libraries(out: TextIO, before: list[Processor], renderers: list[Processor]) -> None:
    handler = logging.StreamHandler(out)
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=[remove, *renderers]))
    handler.addFilter(ClientLogFilter(handler))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)  # its warnings are of a busy machine, and nothing to act on
    logging.getLogger("kafka.admin._groups").setLevel(logging.ERROR)  # it warns of Faust's own words in a group, a page a member
