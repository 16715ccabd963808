"""Runs `ullage run`: any set of clock, sources, worker and consumers in one process, until stopped.

What each part needs is loaded once instead of once a process, which is most of what a small installation costs. Each part has a
thread, the worker the main one, which Faust wants; consumers share a thread, as in a process of their own. A part that fails ends
them all: a restart of the process is what Kubernetes is good at, and each part can be killed anywhere anyhow.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from prometheus_client import CollectorRegistry

from agents.processes.process_telemetry import serving, shown
from agents.processes.signals import Stop, pause, until_stopped
from agents.run.current_process_part import PRESENT
from agents.settings.all_settings import Settings
from agents.telemetry import DependencyMonitor, HealthServer, logging_setup
from agents.telemetry.process_parts import ProcessPart, ProcessParts
from agents.terminal.output import note
from streams.errors import BadInput, UllageError

WORKER, _CONSUMER = "worker", "consumer-"
_STOP = 20.0
"""Seconds for the parts to end, of the 45 that the chart gives a pod; consumers finish what they began."""


class PartEnded(UllageError):
    """A part of the process ended by itself."""


def _clock(settings: Settings) -> None:
    from agents.processes import source_clock

    source_clock.run(settings, in_step=False)


def _kube(settings: Settings) -> None:
    from agents.processes import source_kube

    source_kube.run(settings)


def _usage(settings: Settings) -> None:
    from agents.processes import source_usage

    source_usage.usage(settings)


def _load(settings: Settings) -> None:
    from agents.processes import source_load

    source_load.run(settings)


def _asg(settings: Settings) -> None:
    from agents.processes import source_asg

    source_asg.run(settings)


def _consumers(settings: Settings, names: Sequence[str]) -> None:
    from agents.processes import consumer

    consumer.run(settings, names)


SOURCES: Mapping[str, Callable[[Settings], None]] = {
    "clock": _clock,
    "source-kube": _kube,
    "source-usage": _usage,
    "source-load": _load,
    "source-asg": _asg,
}
"""How each part that is no consumer runs, by its name; each imports what it needs when it begins."""


def run(settings: Settings, names: Sequence[str]) -> int:
    """Run these parts until stopped; returns the exit code. Raises what ended the first part that ended by itself."""
    if len(set(names)) < len(names):
        raise BadInput("a part is named twice; each runs once in a process")
    work = _work(settings, names)
    expected = (*work, *((WORKER,) if WORKER in names else ()))
    failures: list[BaseException] = []
    code = 0
    with until_stopped(), _shared(settings, expected) as parts:
        threads: list[threading.Thread] = []
        try:  # a part may fail before the next one has begun
            threads.extend(_started(name, part, parts, failures) for name, part in work.items())
            code = _hosted(settings, parts) if WORKER in names else _waited(parts)
        except Stop:
            # a part that failed has sent the signal, and its own error is raised below
            if not failures:
                raise
        finally:
            parts.ending.set()
            for thread in threads:
                thread.join(_STOP)
        if failures:
            raise failures[0]
    return code


def _work(settings: Settings, names: Sequence[str]) -> Mapping[str, Callable[[], None]]:
    """What runs in threads, by the name of the part."""
    work = {name: partial(SOURCES[name], settings) for name in names if name in SOURCES}
    consumers = [name.removeprefix(_CONSUMER) for name in names if name.startswith(_CONSUMER)]
    return {**work, "consumer": partial(_consumers, settings, consumers)} if consumers else work


@contextmanager
def _shared(settings: Settings, expected: Sequence[str]) -> Iterator[ProcessParts]:
    """What all parts share: logging, one server for metrics and health, and the looks at what they depend on."""
    registry = CollectorRegistry()
    parts = ProcessParts(expected, registry, DependencyMonitor())
    server = HealthServer(registry, ready=parts.reasons, alive=parts.dead, page=parts)
    with serving("run", server, settings=shown(settings), listen=(settings.metrics.host, settings.metrics.port)):
        parts.dependencies = DependencyMonitor(logging_setup.client_log_filter())
        with parts.dependencies:
            yield parts


def _started(name: str, work: Callable[[], None], parts: ProcessParts, failures: list[BaseException]) -> threading.Thread:
    """A thread of this part. When it ends by itself, the process is asked to end as by a signal."""

    def run_part() -> None:
        PRESENT.set(ProcessPart(name, parts.ending, parts))
        try:
            work()
            error: BaseException = PartEnded(f"{name} ended by itself; the lines above say why")
        # it was asked to end, which is no failure of this part
        except Stop:
            return
        except Exception as failed:  # noqa: BLE001  # whatever ended it ends the process, which says what it was
            error = failed
        if not parts.ending.is_set():
            failures.append(error)
            parts.ask_to_end()

    thread = threading.Thread(target=run_part, name=name, daemon=True)
    thread.start()
    return thread


def _hosted(settings: Settings, parts: ProcessParts) -> int:
    """Host the stages in this thread until a signal; Faust puts its own handlers for that."""
    from agents import app
    from agents.app import worker_plan

    token = PRESENT.set(ProcessPart(WORKER, parts.ending, parts))
    try:
        return app.run(worker_plan.from_settings(settings))
    finally:
        PRESENT.reset(token)


def _waited(parts: ProcessParts) -> int:
    note(f"running {', '.join(parts.expected)}")
    while True:
        pause(1.0)
