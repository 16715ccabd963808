"""`ullage status` and `plan`: whether every part is working, and what would be done to pods and nodes now."""

from agents.cli.options import At, CommonOptions, OutputOption, TextOutputOption, given


def status(*, output: OutputOption = "table", common: CommonOptions | None = None) -> None:
    """Print a line for the clock and each cluster, source, stage and consumer: is it at work, or what does it wait for?

    A line that somebody should look at is marked with `!`. Counts are of the last hour of event time, dead letters of the last
    day. Reads the end of the log only, however long the log is.
    """
    from agents.commands.status import status as command

    command.run(given(common).settings(), output)


def plan(
    *,
    output: TextOutputOption = "table",
    at: At = None,
    common: CommonOptions | None = None,
) -> None:
    """Say what would be done now: pods resized, restarted and left alone, nodes that come and go, and why. Reads the log only."""
    from agents.commands.past import plan as command

    command.run(given(common).settings(log__at=at), form=output)
