"""`ullage config show`: every setting, its value, and where the value comes from."""

from typing import Annotated

from cyclopts import App, Parameter

from agents.cli.options import CommonOptions, given
from agents.processes.output import data

app = App(name="config", help="Look at the settings and where they come from.")


@app.command
def show(
    *,
    origin: Annotated[bool, Parameter(help="Also say where each value comes from.")] = False,
    explain: Annotated[bool, Parameter(help="Also say what each setting means.")] = False,
    common: CommonOptions | None = None,
) -> None:
    """Print every setting as `name = value`. What was read from a secret's file is hidden."""
    from agents.settings.docs import describe

    texts = {name: text for name, _, text in describe()}
    for name, value, place in given(common).load().shown():
        data(f"{name} = {value}" + (f"  # {place}" if origin else ""))
        if explain:
            data(f"    {texts[name]}")
