"""Runs `ullage config show`: every setting, its value, and where the value comes from."""

from agents.settings.loading import LoadedSettings
from agents.settings.setting_descriptions import describe
from agents.terminal import output_table
from agents.terminal.output import sentence
from agents.terminal.output_table import OutputForm


def show(loaded: LoadedSettings, form: OutputForm, *, origin: bool, explain: bool) -> None:
    """Print one line for each setting, with its origin and its description on request; programs get both."""
    texts = {name: text for name, _, text in describe()}
    if form not in output_table.PEOPLE:
        rows = [
            {"name": name, "value": value, "origin": str(place), "text": texts[name]} for name, value, place in loaded.shown()
        ]
        output_table.print_rows(form, rows)
        return
    for name, value, place in loaded.shown():
        sentence(f"{name} = {value}" + (f"  # {place}" if origin else ""))
        if explain:
            sentence(f"    {texts[name]}")
