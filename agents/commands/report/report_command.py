"""Runs `ullage report`: one HTML file about a stretch of the log, which opens without a network, or the same as a live page."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from agents.backtest import price_list
from agents.commands.report import report_data, report_page
from agents.commands.report.report_data import ReportData
from agents.processes.signals import stoppable
from agents.settings import event_times, log_factory
from agents.settings.all_settings import Settings
from agents.terminal.output import note
from schemas.units import Seconds, counted
from streams import secret_files, truncated_topics
from streams.errors import BadInput
from streams.log_context import LogContext
from streams.publishing import source_reports
from streams.publishing.operator_log import NewestTick, OperatorLog

_ACTS_EXPLAINED, _MOST_EXPLAINED = 10, 200
"""Acts of a workload that a page in a file explains, and explanations in all: each takes a look at the log."""
_TURN = timedelta(milliseconds=1)  # a stretch ends before its end, and the newest turn's decisions bear the time of its tick


@dataclass(frozen=True, slots=True)
class ReportFlags:
    """The stretch, how many containers get a chart, and the prices."""

    begin: str | None = None
    end: str | None = None
    top: int = 12
    prices: Path | None = None


def run(settings: Settings, to: Path, flags: ReportFlags) -> None:
    """Write the report of the settings' cluster. Raises BadInput."""
    # before the log is read, for a price list with a fault
    prices = price_list.read(flags.prices)
    with stoppable(), _stretch(settings, flags) as (context, since, until, _):
        data = report_data.collect(context, since, until, top=flags.top, heartbeat=settings.vertical.heartbeat)
        whys = _explained(context, data)
        before = since if flags.begin else None
        lost = truncated_topics.sentence(
            truncated_topics.late_starts(context.log, context.topics, report_data.TOPICS, before=before)
        )
    # under another name first: a reader never opens half a page; a pipe or a terminal takes it as it is
    part = to if to.exists() and not to.is_file() else to.with_name(f".{to.name}.part")
    try:
        part.write_text("\n".join(report_page.page(data, prices, whys)) + "\n", encoding="utf-8")
        if part != to:
            part.replace(to)
    except OSError as error:
        if part != to:
            with suppress(OSError):
                part.unlink()
        raise BadInput(f"the report '{to}' cannot be written: {error.strerror}") from error
    note(
        f"{counted(len(data.rows), 'container')}, {counted(len(data.charts), 'chart')}, {counted(len(whys), 'explanation')}; "
        f"open {to} in a browser, no network is needed"
    )
    if lost:
        note(lost)


def serve(settings: Settings, flags: ReportFlags, *, listen: str, token_file: Path | None, every: float) -> None:
    """Serve the same page until stopped, kept up to date by a look at the log `every` so many seconds. Raises BadInput."""
    from agents.commands.report import live_report
    from agents.why import explanation, explanation_lines

    if not 0.2 <= every <= 3600:  # noqa: PLR2004  # stated in the sentence below
        raise BadInput(f"--every {every:g} is no period: give 0.2 to 3600 seconds")
    address = live_report.address_of(listen, _token(token_file))
    last: live_report.LiveData | None = None

    def read() -> live_report.LiveData | None:
        nonlocal last
        with _stretch(settings, flags) as (context, since, until, tick):
            console = live_report.collect(context, settings, tick)
            if last is not None and last.console.updated == tick.at:
                if last.console.states == console.states:
                    return None
                # without a tick a part may have become silent, and only the console shows that
                last = live_report.LiveData(last.report, console)
            else:
                data = report_data.collect(context, since, until, top=flags.top, heartbeat=settings.vertical.heartbeat)
                last = live_report.LiveData(data, console)
            return last

    def explain(asked: str) -> str:
        with _stretch(settings, flags) as (context, *_):
            return "\n".join(explanation_lines.lines(explanation.explain(context, asked)))

    async def serving() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is None:
            raise RuntimeError("a coroutine that runs has a task")
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)  # an exception in a handler may get lost in a callback of the loop
        page = live_report.LiveReport(read, explain, prices, address, Seconds(every), say=note)
        with suppress(asyncio.CancelledError):
            await page.serve()

    prices = price_list.read(flags.prices)
    asyncio.run(serving())


def _explained(context: LogContext, data: ReportData) -> dict[str, str]:
    """What `ullage why` says of each workload that the page shows and of its newest acts, of so many in all."""
    from agents.why import explanation, explanation_lines

    acts = [act.asked for newest in data.history.acts.values() for act in list(newest)[-_ACTS_EXPLAINED:]]
    # workloads before acts: of too many, those explanations stay that are looked for most
    asked = dict.fromkeys((*sorted(data.history.shown), *acts))
    texts: dict[str, str] = {}
    for about in list(asked)[:_MOST_EXPLAINED]:
        with suppress(BadInput):  # the log no longer has it, or another of that name
            texts[about] = "\n".join(explanation_lines.lines(explanation.explain(context, about)))
    return texts


def _token(file: Path | None) -> str:
    if file is None:
        return ""
    token = secret_files.read(file, f"--token-file '{file}'")
    if not token:
        raise BadInput(f"--token-file '{file}' is empty")
    return token


@contextmanager
def _stretch(settings: Settings, flags: ReportFlags) -> Iterator[tuple[LogContext, datetime, datetime, NewestTick]]:
    """The log, the beginning and end of what is to be reported of it, and its newest tick."""
    with log_factory.context_to_read(settings) as (context, _):
        source_reports.require_cluster(context, context.cluster)
        tick = OperatorLog(context).newest_tick()
        if tick is None:
            raise BadInput("the log holds no tick, so there is nothing to report on yet")
        since, until = event_times.stretch(flags.begin, flags.end, tick.at)
        until = until or tick.at + _TURN
        # without a beginning, from the first tick that the log keeps
        since = since or OperatorLog(context).first_tick() or until
        if until <= since:
            raise BadInput(f"--to {flags.end} is not after --from {flags.begin}")
        yield context, since, until, tick
