"""The demo from beginning to end: prepare, show, compare, explain, and leave nothing running.

It runs on Kafka if that starts, else on a log in memory, and prints which. `--log kafka` insists on Kafka. A recorded trace may
be played instead of the simulated shop. It cannot be changed, so nothing is resized or evicted: the demo shows what its
containers used, what they requested, and what Ullage recommends.
"""

import shutil
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from agents.demo import day_in_memory, day_picture, event_narration, summary
from agents.demo.day_screen import ProgressDisplay, ScreenFrame, console
from agents.demo.day_state import DayState, LogWatcher
from agents.demo.demo_settings import Day
from agents.processes.signals import Stop, stoppable
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.settings import loading
from agents.settings.all_settings import Settings
from agents.telemetry import logging_setup
from agents.terminal.output import note
from agents.why import explanation, explanation_lines
from schemas.units import counted
from streams.errors import BadInput, LogUnavailable
from streams.log.log_port import Log
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.sources.traces import Playback, Trace, TracePlayer
from streams.sources.traces.player import START

CLUSTER = "trace"


def day_of_trace(file: Path, seconds: float, partitions: int) -> Day:
    """The days of the trace, to be played in so many seconds. Raises BadInput for a file that is no trace."""
    with Trace(file) as trace:
        for fault in trace.faults:
            note(fault)
        shift = 0.0 if trace.is_unix else START.timestamp()
        start = datetime.fromtimestamp(trace.first + shift, UTC)
        length, step = timedelta(seconds=trace.last - trace.first), timedelta(seconds=trace.step)
    # a trace of one scrape has no length, by which no speed can be computed
    return Day(0, seconds, partitions, step, CLUSTER, start=start, length=max(length, step), special={})


def played_trace(day: Day, settings: Settings, log: MemoryLog, file: Path) -> Generator[DayState, None, None]:
    """The trace through the stages in this process, a state after each stretch."""
    context = LogContext.of(log, day.topics, day.cluster)
    runner, watcher = Runner(stages(settings), context), LogWatcher(log, day.topics)
    with Trace(file) as trace:
        for _ in TracePlayer(trace, context, Playback(speed=day.speed)).play():
            runner.run()
            watcher.poll_once()
            yield watcher.state


def compared_trace(state: DayState) -> Table:
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


FOLDER = Path(".run/demo")
_ABOUT = (
    "Pods request CPU and memory. What is requested and not used is paid for in vain; memory used beyond the limit kills the "
    "container (OOM). Ullage watches usage and sets the requests right."
)
_ABOUT_TRACE = (
    "A recorded trace is played through Kafka and the stages as if it happened now. It cannot be changed, so nothing is resized "
    "or evicted: compare what its containers used, what they requested, and what Ullage would have them request."
)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the demo plays and where. `log` None means Kafka if that starts; a `trace` is what the day is of."""

    day: Day
    log: str | None = None
    trace: Path | None = None
    forever: bool = False
    plain: bool = False
    workers: int = 2
    beside_upstream: bool = False
    """Whether the same day under the originals' rules, and by `adaptive`, stands beside it; a minute more."""


def day_of(settings: Settings, trace: Path | None) -> Day:
    """The day by these settings, or the days of a trace. Raises BadInput for a file that is no trace."""
    ours = settings.demo
    if trace is not None:
        return day_of_trace(trace, ours.seconds, ours.partitions)
    return Day(settings.cluster.seed, ours.seconds, ours.partitions, timedelta(seconds=ours.tick_seconds))


def run(wanted: DemoOptions) -> int:
    """Play the day until any signal stops it in order; the exit code. With `forever` being stopped is the normal end."""
    if wanted.forever and wanted.log == "memory":
        raise BadInput("--forever needs Kafka: a log in memory would grow until the machine is full")
    try:
        # broker, log and processes end in reverse order, whatever fails
        with stoppable(), ExitStack() as stack:
            _play(wanted, console(), stack)
    except Stop as stop:
        return 0 if wanted.forever else stop.code
    return 0


def _play(wanted: DemoOptions, out: Console, stack: ExitStack) -> None:
    # emptied, for files of an earlier demo would mislead
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        brokers = None if wanted.log == "memory" else _broker(wanted, out, stack)
        if brokers is None:
            _in_memory(wanted, out, FOLDER, stack)
        else:
            _on_kafka(wanted, out, FOLDER, brokers, stack)
    # also at Ctrl-C, after which people want to look at what ran
    except BaseException:
        out.print(f"the logs of what ran are in {FOLDER}", style="dim")
        raise


def _broker(wanted: DemoOptions, out: Console, stack: ExitStack) -> str | None:
    """Start Kafka; None when that fails and the user does not insist."""
    from streams.broker import Broker, BrokerSettings

    out.print("starting Apache Kafka ...", style="dim")
    try:
        broker = stack.enter_context(Broker(BrokerSettings(quick=True), progress=lambda line: out.print(line, style="dim")))
    except LogUnavailable as error:
        # whoever insists on Kafka gets the reason and no other log
        if wanted.log == "kafka":
            raise
        out.print(f"Kafka cannot be had here: {error}", style="yellow", highlight=False)
        out.print("so the same day runs on a log in memory, in one process", style="yellow")
        return None
    return broker.bootstrap


def _on_kafka(wanted: DemoOptions, out: Console, folder: Path, brokers: str, stack: ExitStack) -> None:
    from agents.demo.day_on_kafka import KafkaDay

    playing = KafkaDay(wanted.day, brokers, folder, workers=wanted.workers, trace=wanted.trace)
    stack.callback(playing.close)
    states = playing.played(lambda line: out.print(f"{line} ...", style="dim", highlight=False), for_ever=wanted.forever)
    # called before the log's own: the processes stop while their log is open
    stack.callback(states.close)
    state = _shown(wanted, out, states, f"Kafka at {brokers}, {counted(wanted.workers, 'worker')}")
    _end(wanted, out, folder, playing.log, (state, playing.settings))


def _in_memory(wanted: DemoOptions, out: Console, folder: Path, stack: ExitStack) -> None:
    # to a file, for log lines would tear the live view
    logging_setup.set_up("demo", stream=stack.enter_context((folder / "demo.log").open("w", encoding="utf-8")))
    settings = loading.load(flags=wanted.day.in_one_process()).settings
    log = day_in_memory.new_log(wanted.day)
    trace = wanted.trace
    states = day_in_memory.played(wanted.day, settings, log) if trace is None else played_trace(wanted.day, settings, log, trace)
    state = _shown(wanted, out, states, "a log in memory, one process")
    _end(wanted, out, folder, log, (state, wanted.day.settings()))


def _shown(wanted: DemoOptions, out: Console, states: Generator[DayState, None, None], where: str) -> DayState:
    day, state = wanted.day, DayState()
    title, about = _framed(wanted)
    with ProgressDisplay(out, live=not wanted.plain) as show:
        for state in states:
            show.update(state, ScreenFrame(title, about, day.progress(state.at), f"on {where}; Ctrl-C ends everything"))
        # the last state is always drawn, without the hint at a Ctrl-C that is of no use any more
        show.update(state, ScreenFrame(title, about, day.progress(state.at), f"on {where}"), last=True)
    return state


def _framed(wanted: DemoOptions) -> tuple[str, str]:
    """Title and explanation."""
    if wanted.trace is None:
        return f"Ullage: a simulated day in {wanted.day.seconds:.0f} seconds", _ABOUT
    days = wanted.day.length.total_seconds() / 86_400
    return f"Ullage: {wanted.trace.name}, {days:.1f} days in {wanted.day.seconds:.0f} seconds", _ABOUT_TRACE


def _end(wanted: DemoOptions, out: Console, folder: Path, log: Log, played: tuple[DayState, Mapping[str, object]]) -> None:
    (state, settings), day = played, wanted.day
    if wanted.trace is None:
        out.print("the day is over; now the same day without Ullage, for comparison ...", style="dim")
        untouched, acted_on = day_in_memory.untouched(day), {summary.ULLAGE: state}
        if wanted.beside_upstream:
            out.print(
                "and under the rules of the VPA, the Cluster Autoscaler and EHPA, then by the policy adaptive ...", style="dim"
            )
            upstream, adaptive = day_in_memory.by_upstreams_rules(day), day_in_memory.by_adaptive(day)
            acted_on = {summary.UPSTREAM: upstream, **acted_on, summary.ADAPTIVE: adaptive}
        summary.compared(out, untouched, acted_on)
    else:
        out.print(compared_trace(state))
    decision = summary.chosen(state)
    if decision is not None:
        summary.explained(out, decision, explanation_lines.lines(explanation.explain(LogContext.of(log, day.topics), decision)))
    # nothing is resized in a trace, and the picture is about resizes
    picture = day_picture.save(LogContext.of(log, day.topics), folder) if wanted.trace is None else None
    if picture is not None:
        out.print(f"\none container's day is drawn in {picture}: what it used, requested and was allowed", highlight=False)
    summary.next_steps(out, str(day_in_memory.save(log, day.topics, settings, folder)), decision, wanted.trace)
