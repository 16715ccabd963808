"""`ullage demo`: from settings and flags to a day or a trace; any signal stops it in order."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from agents.demo import demo as running
from agents.demo import recorded_day
from agents.demo.demo_settings import Day
from agents.processes.signals import Stop, stoppable
from agents.settings.all_settings import Settings
from streams.errors import BadInput


@dataclass(frozen=True, slots=True)
class DemoFlags:
    """The flags of the demo."""

    log: str | None = None
    trace: Path | None = None
    forever: bool = False
    plain: bool = False
    beside_upstream: bool = False


def run(settings: Settings, choice: DemoFlags) -> int:
    """Play; the exit code. With `forever` being stopped is the normal end."""
    ours = settings.demo
    day = Day(settings.cluster.seed, ours.seconds, ours.partitions, timedelta(seconds=ours.tick_seconds))
    if choice.trace is not None:
        day = recorded_day.day_of(choice.trace, ours.seconds, ours.partitions)
    wanted = running.DemoOptions(
        day,
        log=choice.log,
        forever=choice.forever,
        plain=choice.plain,
        workers=ours.workers,
        trace=choice.trace,
        beside_upstream=choice.beside_upstream,
    )
    if choice.forever and choice.log == "memory":
        raise BadInput("--forever needs Kafka: a log in memory would grow until the machine is full")
    try:
        with stoppable():
            return running.run(wanted)
    except Stop as stop:
        return 0 if choice.forever else stop.code
