"""`ullage timeline`, `history`, `tap` and `report`: what the log has of the past."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from agents.cli.backtest import PricesOption
from agents.cli.incident import Begin, End
from agents.cli.options import CommonOptions, LimitOption, given
from streams.errors import BadInput

TimelineOutputOption = Annotated[
    Literal["table", "wide", "json", "yaml", "csv", "md", "html"],
    Parameter(name=("--output", "-o"), help="For people or for programs."),
]


def timeline(  # noqa: PLR0913  # the flags of a command
    *,
    namespace: Annotated[
        tuple[str, ...],
        Parameter(
            name=("--namespace", "-n"),
            help="Only this namespace or pattern, and what concerns everybody.",
            consume_multiple=False,
        ),
    ] = (),
    workload: Annotated[str, Parameter(help="Only this workload: its name, NAMESPACE/NAME, or NAMESPACE/KIND/NAME.")] = "",
    begin: Begin = None,
    end: End = None,
    everything: Annotated[bool, Parameter(name="--all", help="Recommendations too.")] = False,
    limit: LimitOption = None,
    output: TimelineOutputOption = "table",
    common: CommonOptions | None = None,
) -> None:
    """Print what happened in a stretch on one axis of time: policies, kills, decisions and outcomes, with places."""
    from agents.commands.past import timeline as command
    from agents.commands.past.timeline import TimelineFilter

    options = given(common)
    wanted = TimelineFilter(namespace, workload, options.cluster)
    flags = command.TimelineFlags(begin, end, output, limit, everything, options.cluster)
    command.timeline(options.settings(), wanted, flags)


def history(  # noqa: PLR0913  # the flags of a command
    workload: Annotated[str, Parameter(help="A workload: its name, NAMESPACE/NAME, or NAMESPACE/KIND/NAME.")],
    /,
    *,
    begin: Begin = None,
    end: End = None,
    limit: LimitOption = None,
    output: TimelineOutputOption = "table",
    common: CommonOptions | None = None,
) -> None:
    """Print each change of what a workload's containers request and are recommended, with bounds and places."""
    from agents.commands.past import timeline as command

    options = given(common)
    flags = command.TimelineFlags(begin, end, output, limit, cluster=options.cluster)
    command.history(options.settings(), workload, flags)


if TYPE_CHECKING:
    from agents.terminal.output_table import TextForm

_FORMS: "dict[str, TextForm]" = {
    "table": "table",
    "wide": "wide",
    "pretty": "table",
    "json": "json",
    "jsonl": "json",
    "yaml": "yaml",
}


def tap(  # noqa: PLR0913  # the flags of a command
    topic: Annotated[str, Parameter(help="The topic's short name, as `pod-updates`; `ullage topics plan` lists them.")],
    *,
    begin: Annotated[
        str, Parameter(name=("--from",), help="Where to begin: `begin`, `end`, an offset, or a time ago as 90s, 30m, 1h, 2d.")
    ] = "begin",
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), help="Go on when the end is reached.")] = False,
    key: Annotated[str, Parameter(help="Only records whose key matches this pattern, as `demo/shop/*`.")] = "*",
    kind: Annotated[str | None, Parameter(name="--type", help="Only events of this type, as `EvictionPlanned`.")] = None,
    limit: Annotated[LimitOption, Parameter(help="Stop after this many records.")] = None,
    last: Annotated[LimitOption, Parameter(help="Only the newest so many, instead of `--from` and `--limit`.")] = None,
    output: Annotated[
        Literal["table", "wide", "json", "yaml", "pretty", "jsonl"],
        Parameter(
            name=("--output", "-o"),
            help="For people (`table`, `pretty`), or for programs: a line of JSON (`json`, `jsonl`) or an item of YAML a record.",
        ),
    ] = "table",
    ticks: Annotated[bool, Parameter(help="Show ticks too.")] = False,
    common: CommonOptions | None = None,
) -> None:
    """Print the records of a topic, decoded: time, place, type, key and content. Reads only."""
    from agents.commands.past import tap as command

    wanted = command.RecordFilter(key=key, kind=kind, limit=limit, ticks=ticks)
    settings, form = given(common).settings(), _FORMS[output]
    if last is None:
        command.run(settings, topic, begin=begin, follow=follow, wanted=wanted, form=form)
        return
    if begin != "begin" or follow or ticks or limit is not None:
        raise BadInput("--last goes without --from, --follow, --limit and --ticks: it is the end of the topic as it is now")
    command.run_last(settings, topic, count=last, wanted=wanted, form=form)


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
