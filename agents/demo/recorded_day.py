"""A recorded trace instead of the simulated shop: how long it is, and how it is played into a log in memory.

A recorded trace cannot be changed, so nothing is resized or evicted. The demo shows what its containers used, what they
requested, and what Ullage recommends.
"""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich import box
from rich.table import Table

from agents.demo import event_narration
from agents.demo.day_state import DayState, LogWatcher
from agents.demo.demo_settings import Day
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.settings.all_settings import Settings
from agents.terminal.output import note
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.sources.traces import Playback, Trace, TracePlayer
from streams.sources.traces.player import START

CLUSTER = "trace"


def day_of(file: Path, seconds: float, partitions: int) -> Day:
    """The days of the trace, to be played in so many seconds. Raises BadInput for a file that is no trace."""
    with Trace(file) as trace:
        for fault in trace.faults:
            note(fault)
        shift = 0.0 if trace.is_unix else START.timestamp()
        start = datetime.fromtimestamp(trace.first + shift, UTC)
        length, step = timedelta(seconds=trace.last - trace.first), timedelta(seconds=trace.step)
    # a trace of one scrape has no length, by which no speed can be computed
    return Day(0, seconds, partitions, step, CLUSTER, start=start, length=max(length, step), special={})


def played(day: Day, settings: Settings, log: MemoryLog, file: Path) -> Generator[DayState, None, None]:
    """The trace through the stages in this process, a state after each stretch."""
    context = LogContext.of(log, day.topics, day.cluster)
    runner, watcher = Runner(stages(settings), context), LogWatcher(log, day.topics)
    with Trace(file) as trace:
        for _ in TracePlayer(trace, context, Playback(speed=day.speed)).play():
            runner.run()
            watcher.poll_once()
            yield watcher.state


def compared(state: DayState) -> Table:
    """A table of what the trace used, what it requested, and what Ullage recommended."""
    whole, rounds = state.curve.total(), sum(len(times) for times in state.curve.rounds.values()) or 1
    table = Table(title="the whole trace, on average", box=box.SIMPLE_HEAD, title_justify="left")
    for name in ("", "used", "requested by the trace", "recommended by Ullage"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row("CPU cores", *(f"{whole.cpu[i] / rounds:.2f}" for i in (1, 0, 2)))
    table.add_row("... of them not used", "", *_unused(whole.cpu))
    table.add_row("memory", *(event_narration.memory(whole.memory[i] / rounds) for i in (1, 0, 2)))
    table.add_row("... of it not used", "", *_unused(whole.memory))
    return table


def _unused(amounts: tuple[float, float, float]) -> tuple[str, str]:
    requested, used, recommended = amounts
    recorded, ours = ((f"{1 - used / amount:.0%}" if amount else "-") for amount in (requested, recommended))
    return recorded, ours
