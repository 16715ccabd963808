"""`ullage settings` and `config`: the decision rules in the log beside the settings here, and where each value comes from."""

from typing import Annotated

from cyclopts import App, Parameter

from agents.cli.options import CommonOptions, OutputOption, TextOutputOption, given

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


config_app = App(name="config", help="Look at the settings and where they come from.")


@config_app.command(name="show")
def show_config(
    *,
    origin: Annotated[bool, Parameter(help="Also say where each value comes from.")] = False,
    explain: Annotated[bool, Parameter(help="Also say what each setting means.")] = False,
    output: OutputOption = "table",
    common: CommonOptions | None = None,
) -> None:
    """Print every setting as `name = value`. What was read from a secret's file is hidden."""
    from agents.commands.change import settings

    settings.show(given(common).load(), output, origin=origin, explain=explain)
