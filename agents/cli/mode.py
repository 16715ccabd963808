"""`ullage mode`, `pause`, `resume` and `revert`: how far Ullage may go in a cluster. All obey the newest record."""

from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import CommonOptions, TextOutputOption, given
from schemas.policies.control import Mode
from streams.errors import BadInput


def mode(  # noqa: PLR0913  # one for each flag
    to: Annotated[
        Mode, Parameter(help="`shadow` only recommends, `plan` also says what it would change, `apply` changes it.", name="MODE")
    ],
    /,
    *,
    budget: Annotated[
        str | None, Parameter(help="Share of a cluster's and a workload's pods that may be away at one time, as `10%`.")
    ] = None,
    reason: Annotated[str, Parameter(help="Why, for who reads the log later.")] = "",
    schedule: Annotated[
        tuple[str, ...],
        Parameter(
            help="What holds at times: `'0 9 * * mon-fri Europe/Berlin for 8h: mode shadow, budget 5%, paused (why)'`. "
            "Repeat it for more; without it there are none.",
            consume_multiple=False,
        ),
    ] = (),
    on_an_open_log: Annotated[
        bool, Parameter(negative="", help="Allow `apply` although whoever reaches Kafka can write into the log.")
    ] = False,
    unless_an_object_says: Annotated[
        bool, Parameter(negative="", help="Do nothing, and do not fail, where a ClusterControl object says it.")
    ] = False,
    as_object: Annotated[
        bool,
        Parameter(
            negative="",
            help="Print the ClusterControl that says so, and else what is in force, for `kubectl apply -f -`.",
        ),
    ] = False,
    common: CommonOptions | None = None,
) -> None:
    """Say how far Ullage may go in a cluster. A pause stays until `resume`."""
    from agents.commands.change import mode as command

    command.run(
        given(common).settings(),
        mode=to,
        budget=budget,
        reason=reason,
        schedules=schedule,
        on_an_open_log=on_an_open_log,
        unless_an_object_says=unless_an_object_says,
        as_object=as_object,
    )


def pause(
    *,
    reason: Annotated[str, Parameter(help="Why; it is shown wherever something was not done because of it.")],
    common: CommonOptions | None = None,
) -> None:
    """Stop all changes to a cluster at once, whatever was decided before. Watching and recommending go on.

    Mode and budget stay what they are.
    """
    from agents.commands.change import mode as command

    command.pause(given(common).settings(), reason=reason)


def resume(
    *,
    reason: Annotated[str, Parameter(help="Why, for who reads the log later.")] = "",
    common: CommonOptions | None = None,
) -> None:
    """End a pause. Mode and budget are what they were."""
    from agents.commands.change import mode as command

    command.resume(given(common).settings(), reason=reason)


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
    # both or neither
    if end == bool(since):
        raise BadInput("revert takes one of --since and --end")
    if end:
        command.end(settings, workloads=workloads, form=output)
    else:
        command.run(settings, since=since, workloads=workloads, reason=reason, form=output)
