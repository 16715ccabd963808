"""`ullage status`: show whether every part is working, what it waits for, and what it cannot see."""

from agents.cli.options import CommonOptions, OutputOption, given


def status(*, output: OutputOption = "table", common: CommonOptions | None = None) -> None:
    """Print a line for the clock and each cluster, source, stage and consumer: is it at work, or what does it wait for?

    A line that somebody should look at is marked with `!`. Counts are of the last hour of event time, dead letters of the last
    day. Reads the end of the log only, however long the log is.
    """
    from agents.commands.status import status as command

    command.run(given(common).settings(), output)
