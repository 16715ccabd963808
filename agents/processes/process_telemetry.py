"""The telemetry of one process from start to end: logging, a line at its start, metrics and health, a line at its end.

Every command that runs until stopped uses it. Errors pass through.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from agents.processes import signals
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.telemetry import DependencyMonitor, HealthServer, ObservedLog, logging_setup, process_parts
from agents.telemetry.health_server import Reasons, all_well
from agents.telemetry.observed_log import LogObserver
from agents.terminal.output import note
from streams.errors import BadInput, LogUnavailable, UllageError
from streams.log.log_port import Log
from streams.own_faults import OwnFaults
from streams.topics import Topics

Observer = TypeVar("Observer", bound=LogObserver)
_SEEN_BY_ALL = "cluster-changes"
"""A topic that every process may see, whatever its rights."""
_AGAIN = 1.0
"""Seconds until a log that is away is asked again."""


class ThreadDiedError(UllageError):
    """A thread of the process ended by itself."""


class ProcessTelemetry:
    """The registry for a component's own metrics, and its dependencies, each of which fails /readyz while it is away."""

    def __init__(self, ready: Reasons) -> None:
        self.registry, self.dependencies = CollectorRegistry(), DependencyMonitor()
        self._ready = ready
        self._logs: list[ObservedLog] = []

    def observe(self, log: Log, observer: LogObserver) -> ObservedLog:
        """The log, observed for metrics and failures."""
        observed = ObservedLog(log, observer)
        self._logs.append(observed)
        return observed

    def look_at_log(self, settings: Settings) -> None:
        """Watch whether Kafka answers, and whether it does what this process asks; both are one dependency."""
        what, answers = _kafka(settings) or ("the log", all_well)

        def look() -> None:
            answers()
            for log in list(self._logs):
                log.require()

        self.dependencies.watch(what, look)

    def own_reasons(self) -> Sequence[str]:
        """Why the component is not ready, without its dependencies. Failures of its logs count at once."""
        # a copy, because threads add logs while others look
        troubles = [trouble for log in list(self._logs) for trouble in log.troubles()]
        away = self.dependencies.reasons()
        # the same fault is not said twice: a dependency that is away names it already
        return [*self._ready(), *(trouble for trouble in troubles if not any(trouble in reason for reason in away))]

    def reasons(self) -> Sequence[str]:
        """Why the process is not ready."""
        return [*self.own_reasons(), *self.dependencies.reasons()]


def _kafka(settings: Settings) -> tuple[str, Callable[[], None]] | None:
    """Kafka's name and check; None for a log that is not Kafka."""
    if settings.log.kind != "kafka":
        return None
    from streams.log.connection_check import require_entry

    where = log_factory.connection(settings)
    return f"Kafka '{where.brokers}'", partial(require_entry, where)


@contextmanager
def telemetry_for(component: str, settings: Settings, ready: Reasons = all_well) -> Iterator[ProcessTelemetry]:
    """Serve metrics and health on the address of `metrics` while the block runs, and log its start and end.

    `ready` gives reasons of the component's own that /readyz shows. In a process of several parts that one serves for all.
    """
    telemetry, part = ProcessTelemetry(ready), process_parts.present()
    if part is not None:
        # one look at each dependency for the whole process, however many of its parts need it
        telemetry.dependencies = part.parts.dependencies
        telemetry.look_at_log(settings)
        part.parts.add(part.name, telemetry.registry, ready=telemetry.own_reasons)
        yield telemetry
        return
    server = HealthServer(telemetry.registry, ready=telemetry.reasons)
    with serving(component, server, settings=shown(settings), listen=(settings.metrics.host, settings.metrics.port)):
        telemetry.dependencies = DependencyMonitor(logging_setup.client_log_filter())
        telemetry.look_at_log(settings)
        with telemetry.dependencies:
            yield telemetry


def shown(settings: Settings) -> Mapping[str, object]:
    """The settings that stand in the line of a start."""
    return {
        "log.kind": settings.log.kind,
        "log.brokers": settings.log.brokers,
        "topics.prefix": settings.topics.prefix,
        "topics.partitions": settings.topics.partitions,
        "cluster.name": settings.cluster.name,
    }


@contextmanager
def serving(
    component: str, server: HealthServer, *, settings: Mapping[str, object], listen: tuple[str, int] = ("127.0.0.1", 0)
) -> Iterator[None]:
    """Set up logging, log `settings`, and serve while the block runs. `listen` is host and port; port 0 serves nothing."""
    log = logging_setup.set_up(component)
    with server, ended_by_dead_threads() as dead:
        if listen[1]:
            server.listen(*listen)
        logging_setup.started(log, settings)
        try:
            yield
        except Exception as error:
            logging_setup.failed(log, doing=f"running as {component}", error=error)
            _ended_by(log, error)
            raise
        # a thread that died has sent the signal, so its error is why the process ends
        except BaseException as stop:
            if dead:
                _ended_by(log, dead[0])
                raise dead[0] from stop
            logging_setup.ended(log, code=0, reason=f"asked to: {type(stop).__name__} {stop}".rstrip())
            raise
        logging_setup.ended(log, code=0, reason="done")


def _ended_by(log: FilteringBoundLogger, error: Exception) -> None:
    logging_setup.ended(log, code=2 if isinstance(error, BadInput) else 1, reason=f"{type(error).__name__}: {error}")


@contextmanager
def ended_by_dead_threads() -> Iterator[list[UllageError]]:
    """While the block runs, a thread that ends by an exception ends the process; gives what ended those that did."""
    dead, before = list[UllageError](), threading.excepthook

    def end_process(thread: threading.ExceptHookArgs) -> None:
        name = "a thread" if thread.thread is None else thread.thread.name
        if thread.exc_value is None:
            return
        if isinstance(thread.exc_value, UllageError):  # raised on purpose, such as for a port that another process has
            dead.append(thread.exc_value)
        else:
            fault = OwnFaults(name).happened("running as a thread", thread.exc_value)
            dead.append(ThreadDiedError(f"the thread '{name}' ended by {fault}"))
        if callable(signal.getsignal(signal.SIGTERM)):  # else nobody would clean up
            os.kill(os.getpid(), signal.SIGTERM)

    threading.excepthook = end_process
    try:
        yield dead
    finally:
        threading.excepthook = before


@contextmanager
def fitting_log(settings: Settings) -> Iterator[Log]:
    """Open the log for a process that runs until it is stopped; see `await_fitting`."""
    with log_factory.log(settings) as log:
        await_fitting(log, settings)
        yield log


def require_fitting(log: Log, settings: Settings) -> None:
    """Raise BadInput for a log with other partitions than the settings say: a process would use a part of it alone."""
    log_factory.require_partitions(log, settings, by=_SEEN_BY_ALL)


def await_fitting(log: Log, settings: Settings) -> None:
    """As `require_fitting`, and wait while the log is away."""
    last = ""
    while True:
        try:
            return require_fitting(log, settings)
        except LogUnavailable as error:
            if last != str(error):
                note(f"waiting for the log: {error}")
            last = str(error)
            signals.pause(_AGAIN)


@contextmanager
def running_source(
    name: str, settings: Settings, metrics_of: Callable[[CollectorRegistry, Topics], Observer]
) -> Iterator[tuple[Log, Topics, Observer]]:
    """Open the log for a source, with what it appends observed by its metrics.

    Callers put `until_stopped` around it: a signal may come before this yields.
    """
    topics = log_factory.topics(settings)
    with telemetry_for(name, settings) as telemetry, fitting_log(settings) as log:
        metrics = metrics_of(telemetry.registry, topics)
        yield telemetry.observe(log, metrics), topics, metrics
