"""Several parts of an installation in one process: what they share, and one answer for all of them.

Each part runs as it does in a process of its own, and finds its place here by a context variable, which its threads and tasks
carry. Metrics of all parts are one page, and the process is ready only when every part is. A part that fails ends the process.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Metric

from agents.run.current_process_part import PRESENT, PresentPart
from agents.telemetry.dependency_health import DependencyMonitor

Reasons = Callable[[], Sequence[str]]


@dataclass(slots=True)
class ProcessParts:
    """The parts of this process by name. A part that is expected and has not begun keeps the process from being ready."""

    expected: Sequence[str]
    registry: CollectorRegistry
    dependencies: DependencyMonitor
    ending: threading.Event = field(default_factory=threading.Event)
    """Set when every part is to end."""
    _registries: list[CollectorRegistry] = field(default_factory=list)
    _ready: dict[str, Reasons] = field(default_factory=dict)
    _alive: list[Reasons] = field(default_factory=list)

    def add(self, name: str, registry: CollectorRegistry, *, ready: Reasons, alive: Reasons | None = None) -> None:
        """The part `name` has begun. `ready` leaves out the dependencies, which all parts share."""
        self._registries.append(registry)
        self._ready[name] = ready
        if alive is not None:
            self._alive.append(alive)

    def reasons(self) -> Sequence[str]:
        """Why the process is not ready; a reason of a part names it."""
        missing = [f"{name}: has not begun yet" for name in self.expected if name not in self._ready]
        own = [f"{name}: {reason}" for name, reasons in list(self._ready.items()) for reason in reasons()]
        return [*missing, *own, *self.dependencies.reasons()]

    def ask_to_end(self) -> None:
        """End the process as a signal would."""
        self.ending.set()
        # The main thread may be Faust's, which ends in order only by a signal.
        os.kill(os.getpid(), signal.SIGTERM)

    def dead(self) -> Sequence[str]:
        """Why the process is to be restarted."""
        return [reason for reasons in list(self._alive) for reason in reasons()]

    def collect(self) -> Iterable[Metric]:
        """The metrics of the process and its parts, each family once."""
        families: dict[str, Metric] = {}
        for registry in (self.registry, *self._registries):
            for metric in registry.collect():
                if metric.name in families:
                    # Prometheus refuses a page that has a family twice; the samples differ in a label.
                    families[metric.name].samples.extend(metric.samples)
                else:
                    families[metric.name] = metric
        return families.values()


@dataclass(frozen=True, slots=True)
class ProcessPart(PresentPart):
    """One part, and the process that it is in."""

    parts: ProcessParts


def present() -> ProcessPart | None:
    """The part that runs here; None in a process of one part."""
    part = PRESENT.get()
    return part if isinstance(part, ProcessPart) else None


def ask_all_to_end() -> None:
    """Let the other parts of this process end beside this one."""
    part = PRESENT.get()
    if part is not None:
        # Beside, and not after it, because the time for all of them is bounded.
        part.ending.set()
