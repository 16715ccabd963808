"""`ullage config show`: print every setting, its value, and where the value comes from."""

from typing import Annotated

from cyclopts import App, Parameter

from agents.cli.options import CommonOptions, OutputOption, given

app = App(name="config", help="Look at the settings and where they come from.")


@app.command
def show(
    *,
    origin: Annotated[bool, Parameter(help="Also say where each value comes from.")] = False,
    explain: Annotated[bool, Parameter(help="Also say what each setting means.")] = False,
    output: OutputOption = "table",
    common: CommonOptions | None = None,
) -> None:
    """Print every setting as `name = value`. What was read from a secret's file is hidden."""
    from agents.commands.change import settings

    settings.show(given(common).load(), output, origin=origin, explain=explain)
