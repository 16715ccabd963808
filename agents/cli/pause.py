"""`ullage pause` and `resume`: stop all changes to a cluster, or allow them again. Agents and consumers obey the last one."""

from typing import Annotated

from cyclopts import Parameter

from agents.cli.options import CommonOptions, given


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
