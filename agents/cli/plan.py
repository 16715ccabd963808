"""`ullage plan`: show what Ullage would do to pods and nodes now."""

from agents.cli.options import At, CommonOptions, TextOutputOption, given


def plan(
    *,
    output: TextOutputOption = "table",
    at: At = None,
    common: CommonOptions | None = None,
) -> None:
    """Say what would be done now: pods resized, restarted and left alone, nodes that come and go, and why. Reads the log only."""
    from agents.commands.past import plan as command

    command.run(given(common).settings(log__at=at), form=output)
