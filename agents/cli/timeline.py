"""`ullage timeline` and `ullage history`: events, actions and values over time."""

from typing import Annotated, Literal

from cyclopts import Parameter

from agents.cli.incident import Begin, End
from agents.cli.options import CommonOptions, LimitOption, given

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
