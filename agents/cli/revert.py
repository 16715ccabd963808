"""`ullage revert`: put back what was applied."""

from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import CommonOptions, TextOutputOption, given
from streams.errors import BadInput


def revert(  # noqa: PLR0913  # the flags of a command
    workloads: Annotated[str, Parameter(help="Only workloads whose NAMESPACE/KIND/NAME matches this pattern.")] = "*",
    /,
    *,
    since: Annotated[
        str,
        Parameter(help="Put back what was applied since then: a time ago as 30m, 2h or 1d, or a time with an offset from UTC."),
    ] = "",
    end: Annotated[bool, Parameter(help="End the reverts in force: recommendations count again.")] = False,
    reason: Annotated[str, Parameter(help="Why, for who reads the log later.")] = "",
    output: TextOutputOption = "table",
    common: CommonOptions | None = None,
) -> None:
    """Ask for the inverse of what was applied, workload by workload, and hold it until `--end`. In shadow it only prints.

    The updater plans for it under the same guards and budgets, in place; the webhook leaves new pods of these workloads alone.
    """
    from agents.commands.change import revert as command

    settings = given(common).settings()
    if end == bool(since):
        raise BadInput("revert takes one of --since and --end")
    if end:
        command.end(settings, workloads=workloads, form=output)
    else:
        command.run(settings, since=since, workloads=workloads, reason=reason, form=output)
