"""`ullage settings plan` and `apply`: compare the decision rules in the log with the settings here, and publish the latter."""

from cyclopts import App

from agents.cli.options import CommonOptions, TextOutputOption, given

app = App(name="settings", help="The settings by which all workers decide: they are in the log, and nobody with others starts.")


@app.command
def plan(*, output: TextOutputOption = "table", common: CommonOptions | None = None) -> None:
    """Show where the settings here would decide otherwise than the log says, and change nothing."""
    from agents.commands.change import settings

    settings.plan(given(common).settings(), output)


@app.command
def apply(*, common: CommonOptions | None = None) -> None:
    """Make the settings here those of all workers, from the next turn on. Workers that run follow; start later ones with them.

    Workers of another version stop when the version of the rules changes: first stop them, then apply, then start the new ones.
    """
    from agents.commands.change import settings

    settings.apply(given(common).settings())
