"""`ullage report`: write one HTML file for people who were not there."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agents.cli.backtest import PricesOption
from agents.cli.incident import Begin, End
from agents.cli.options import CommonOptions, given
from streams.errors import BadInput


def report(  # noqa: PLR0913  # the flags of a command
    file: Annotated[Path | None, Parameter(help="The file to write, as `report.html`.")] = None,
    /,
    *,
    begin: Begin = None,
    end: End = None,
    top: Annotated[int, Parameter(help="How many containers get a chart, those that save most first.")] = 12,
    prices: PricesOption = None,
    live: Annotated[
        bool, Parameter(help="Serve the page instead of writing a file, and keep it up to date with the log.")
    ] = False,
    listen: Annotated[
        str, Parameter(help="Where the live page is served; beyond this machine it needs a token.")
    ] = "127.0.0.1:0",
    token_file: Annotated[Path | None, Parameter(help="A file with the token that readers of the live page show.")] = None,
    every: Annotated[float, Parameter(help="Seconds between two looks of the live page at the log.")] = 5.0,
    common: CommonOptions | None = None,
) -> None:
    """Write one page about a stretch of the log: fleet, savings with the risk beside them, workloads and charts. Opens offline.

    Without `--from` it is everything that the log keeps. `--live` only reads, too:
    readers show the token as `?token=...` or as a bearer token.
    """
    from agents.commands.report import report_command as command

    settings, flags = given(common).settings(), command.ReportFlags(begin, end, top, prices)
    if live == (file is not None):
        raise BadInput("give a file to write, or --live to serve the page" + (", not both" if live else ""))
    if file is None:
        command.serve(settings, flags, command.LiveFlags(listen, token_file, every))
    else:
        command.run(settings, file, flags)
