"""Runs `ullage report`: one HTML file about a stretch of the log, which opens without a network."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agents.backtest import price_list
from agents.inspect import report_data, report_page
from agents.processes.output import note
from agents.processes.signals import stoppable
from agents.settings import event_times, log_factory
from agents.settings.tree import Settings
from streams.errors import BadInput
from streams.log_context import LogContext
from streams.publishing import source_reports
from streams.publishing.operator_log import OperatorLog

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReportFlags:
    """The stretch, how many containers get a chart, and the prices."""

    begin: str | None = None
    end: str | None = None
    top: int = 12
    prices: Path | None = None


def run(settings: Settings, to: Path, flags: ReportFlags) -> None:
    """Write the report of the settings' cluster. Raises BadInput."""
    script, prices = _script(), price_list.read(flags.prices)
    with stoppable(), log_factory.answering_log(settings) as log:
        context = LogContext.of(log, log_factory.topics(settings), settings.cluster.name)
        source_reports.require_cluster(context, context.cluster)
        tick = OperatorLog(context).newest_tick()
        if tick is None:
            raise BadInput("the log holds no tick, so there is nothing to report on yet")
        until = event_times.moment(flags.end, tick.at, "--to") if flags.end else tick.at
        since = event_times.moment(flags.begin, tick.at, "--from") if flags.begin else _begin(context, until)
        if until <= since:
            raise BadInput(f"--to {flags.end} is not after --from {flags.begin}")
        data = report_data.collect(context, since, until, top=flags.top, heartbeat=settings.vertical.heartbeat)
    try:
        to.write_text("\n".join(report_page.page(data, prices, script)) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"the report '{to}' cannot be written: {error.strerror}") from error
    note(f"{len(data.rows)} containers, {len(data.charts)} charts; open {to} in a browser, no network is needed")


def _begin(context: LogContext, until: datetime) -> datetime:
    """The first tick that the log keeps."""
    first = OperatorLog(context).first_tick()
    return until if first is None else first


def _script() -> str:
    """The script that draws charts, from the installed package. Raises BadInput where that is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise BadInput("`ullage report` draws with plotly, which is not installed: pip install 'ullage[report]'") from None
    return str(get_plotlyjs())
