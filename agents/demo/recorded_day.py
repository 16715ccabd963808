"""A recorded trace instead of the simulated shop: how long it is, and how it is played into a log in memory.

A trace does not obey: nothing is resized or evicted. What is shown is what it used, what it requested, and what Ullage
recommends.
"""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich import box
from rich.table import Table

from agents.demo import sentences
from agents.demo.demo_settings import Day
from agents.demo.log_watcher import Watch
from agents.demo.picture import Picture
from agents.pipeline import stages, ticked_topics
from agents.runner import Runner
from agents.settings.tree import Settings
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.sources.traces import Playback, Trace, TracePlayer
from streams.sources.traces.player import START

CLUSTER = "trace"


def day_of(file: Path, seconds: float, partitions: int) -> Day:
    """The time of the trace, to be played in so many seconds. Raises BadInput for what is no trace."""
    with Trace(file) as trace:
        shift = 0.0 if trace.is_unix else START.timestamp()
        start = datetime.fromtimestamp(trace.first + shift, UTC)
        length, step = timedelta(seconds=trace.last - trace.first), timedelta(seconds=trace.step)
    return Day(0, seconds, partitions, step, CLUSTER, start=start, length=max(length, step), special={})


def played(day: Day, settings: Settings, log: MemoryLog, file: Path) -> Generator[Picture, None, None]:
    """The trace through the stages in this process, a picture after each stretch."""
    context = LogContext.of(log, day.topics, day.cluster)
    runner, watch = Runner(stages(settings), context), Watch(log, day.topics)
    with Trace(file) as trace:
        for _ in TracePlayer(trace, context, Playback(speed=day.speed), ticked=ticked_topics()).play():
            runner.run()
            watch.take()
            yield watch.picture


def compared(picture: Picture) -> Table:
    """What the trace requested beside what was recommended, both against what it used."""
    whole, rounds = picture.curve.total(), sum(len(times) for times in picture.curve.rounds.values()) or 1
    table = Table(title="the whole trace, on average", box=box.SIMPLE_HEAD, title_justify="left")
    for name in ("", "used", "requested by the trace", "recommended by Ullage"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row("CPU cores", *(f"{whole.cpu[i] / rounds:.2f}" for i in (1, 0, 2)))
    table.add_row("... of them not used", "", *_unused(whole.cpu))
    table.add_row("memory", *(sentences.memory(whole.memory[i] / rounds) for i in (1, 0, 2)))
    table.add_row("... of it not used", "", *_unused(whole.memory))
    return table


def _unused(amounts: tuple[float, float, float]) -> tuple[str, str]:
    requested, used, recommended = amounts
    asked, ours = ((f"{1 - used / amount:.0%}" if amount else "-") for amount in (requested, recommended))
    return asked, ours
