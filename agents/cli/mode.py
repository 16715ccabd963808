"""`ullage mode`: set how far Ullage may go in a cluster. Agents and consumers obey the newest record."""

from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import CommonOptions, given
from schemas.policies.control import Mode


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
        Parameter(negative="", help="Print the ClusterControl object that says so, for `kubectl apply -f -`; change nothing."),
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
