"""`ullage report`: one HTML file for people who were not there."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agents.cli.backtest import Prices
from agents.cli.incident import Begin, End
from agents.cli.options import CommonOptions, given
from agents.cli.pause import Cluster


def report(  # noqa: PLR0913  # the flags of a command
    file: Annotated[Path, Parameter(help="The file to write, as `report.html`.")],
    /,
    *,
    begin: Begin = None,
    end: End = None,
    top: Annotated[int, Parameter(help="How many containers get a chart, those that save most first.")] = 12,
    prices: Prices = None,
    cluster: Cluster = None,
    common: CommonOptions | None = None,
) -> None:
    """Write one page about a stretch of the log: fleet, savings with the risk beside them, workloads and charts. Opens offline.

    Needs plotly: `pip install 'ullage[report]'`. Without `--from` it is everything that the log keeps.
    """
    from agents.inspect import report_command as command

    command.run(given(common).settings(cluster__name=cluster), file, command.ReportFlags(begin, end, top, prices))
