"""The telemetry of one process from start to end: logging, a line at its start, metrics and health, a line at its end.

Every command that runs until stopped uses it. Errors pass through.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from prometheus_client import CollectorRegistry

from agents.processes import dependency_probes
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.telemetry import HealthServer, ObservedLog, Reach, logging_setup
from agents.telemetry.health_server import Reasons, all_well
from agents.telemetry.observed_log import LogObserver
from streams.errors import BadInput
from streams.log.log_port import Log
from streams.topics import Topics

Observer = TypeVar("Observer", bound=LogObserver)


class ProcessTelemetry:
    """The registry for a component's own metrics, and its dependencies, each of which fails /readyz while it is away."""

    def __init__(self, ready: Reasons) -> None:
        self.registry, self.reach = CollectorRegistry(), Reach()
        self._ready = ready
        self._logs: list[ObservedLog] = []

    def observe(self, log: Log, observer: LogObserver) -> ObservedLog:
        """The log, observed for metrics and failures."""
        observed = ObservedLog(log, observer)
        self._logs.append(observed)
        return observed

    def look_at_log(self, settings: Settings) -> None:
        """Watch whether Kafka answers, and whether it does what this process asks; both are one dependency."""
        what, answers = dependency_probes.kafka(settings) or ("the log", all_well)

        def look() -> None:
            answers()
            for log in list(self._logs):
                log.require()

        self.reach.look_at(what, look)

    def reasons(self) -> Sequence[str]:
        """Why the process is not ready. Failures of the logs count at once, not only at the next check."""
        troubles = [trouble for log in list(self._logs) for trouble in log.troubles()]
        away = self.reach.reasons()
        return [*self._ready(), *away, *(trouble for trouble in troubles if not any(trouble in reason for reason in away))]


@contextmanager
def telemetry_for(component: str, settings: Settings, ready: Reasons = all_well) -> Iterator[ProcessTelemetry]:
    """Serve metrics and health on the address of `metrics` while the block runs, and log its start and end.

    `ready` gives reasons of the component's own that /readyz shows.
    """
    shown = {
        "log.kind": settings.log.kind,
        "log.brokers": settings.log.brokers,
        "topics.prefix": settings.topics.prefix,
        "topics.partitions": settings.topics.partitions,
        "cluster.name": settings.cluster.name,
    }
    listen = (settings.metrics.host, settings.metrics.port)
    telemetry = ProcessTelemetry(ready)
    with serving(component, HealthServer(telemetry.registry, ready=telemetry.reasons), settings=shown, listen=listen):
        telemetry.reach = Reach(logging_setup.client_log_filter())
        telemetry.look_at_log(settings)
        with telemetry.reach:
            yield telemetry


@contextmanager
def serving(
    component: str, server: HealthServer, *, settings: Mapping[str, object], listen: tuple[str, int] = ("127.0.0.1", 0)
) -> Iterator[None]:
    """Set up logging, log `settings`, and serve while the block runs. `listen` is host and port; port 0 serves nothing."""
    log = logging_setup.set_up(component)
    with server:
        if listen[1]:
            server.listen(*listen)
        logging_setup.started(log, settings)
        try:
            yield
        except Exception as error:
            logging_setup.failed(log, doing=f"running as {component}", error=error)
            logging_setup.ended(log, code=2 if isinstance(error, BadInput) else 1, reason=f"{type(error).__name__}: {error}")
            raise
        except BaseException as asked:
            logging_setup.ended(log, code=0, reason=f"asked to: {type(asked).__name__} {asked}".rstrip())
            raise
        logging_setup.ended(log, code=0, reason="done")


@contextmanager
def running_source(
    name: str, settings: Settings, metrics_of: Callable[[CollectorRegistry, Topics], Observer]
) -> Iterator[tuple[Log, Topics, Observer]]:
    """Open the log for a source, with what it appends observed by its metrics.

    Callers put `until_stopped` around it: a signal may come before this yields.
    """
    topics = log_factory.topics(settings)
    with telemetry_for(name, settings) as telemetry, log_factory.log(settings) as log:
        metrics = metrics_of(telemetry.registry, topics)
        yield telemetry.observe(log, metrics), topics, metrics
