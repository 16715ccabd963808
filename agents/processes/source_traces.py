"""Runs `ullage source traces`: plays a recorded usage trace into the log, with its own ticks, and ends with the trace."""

from datetime import datetime
from functools import partial
from pathlib import Path

from agents.processes.process_telemetry import running_source
from agents.processes.signals import until_stopped
from agents.settings.all_settings import Settings
from agents.telemetry import SourceMetrics
from agents.terminal.output import note
from schemas import times
from streams.errors import BadInput
from streams.log.log_port import Log
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.sources.clock import refuse_future, wall_ms
from streams.sources.traces import Playback, Trace, TracePlayer
from streams.topics import CLOCK, Topics


def run(settings: Settings, file: Path, speed: float, seconds: float | None) -> None:
    """Play a trace at `speed`, or so that all of it takes `seconds` of real time."""
    with (
        until_stopped(),
        running_source("traces", settings, partial(SourceMetrics, source="traces")) as (log, topics, _),
        Trace(file) as trace,
    ):
        for fault in trace.faults:
            note(fault)
        # never slower than real time, however long `seconds` is
        pace = speed if seconds is None else max(1.0, (trace.last - trace.first) / seconds)
        note(f"playing {trace.rows} samples of {len(trace.names)} containers" + (f" at speed {pace:.0f}" if pace else ""))
        context = LogContext.of(log, topics, settings.cluster.name)
        player = TracePlayer(trace, context, Playback(speed=pace))
        _refuse_the_past(log, topics, begin=times.from_seconds(trace.first + player.shift()))
        refuse_future(int((trace.last + player.shift()) * 1000), wall_ms())
        reported = 0
        for progress in player.play():
            if progress.rows * 10 // progress.of > reported:
                reported = progress.rows * 10 // progress.of
                note(f"{progress.rows} of {progress.of} samples, {progress.at:%Y-%m-%d %H:%M}")


def _refuse_the_past(log: Log, topics: Topics, *, begin: datetime) -> None:
    """Raises BadInput for a trace from before the log's newest tick."""
    newest = OperatorLog(LogContext.of(log, topics)).newest_tick()
    # a tick counts only above all earlier ones, so no turn would be taken of such a trace
    if newest is not None and newest.at >= begin:
        raise BadInput(
            f"the trace begins at {begin:%Y-%m-%d %H:%M:%S} UTC, but the newest tick in '{topics.wire(CLOCK)}' is of "
            f"{newest.at:%Y-%m-%d %H:%M:%S} UTC, and time does not go back; play it into topics of its own, as in "
            "--set topics.prefix=trace (and without a clock, for it brings its own ticks)"
        )
