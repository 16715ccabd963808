"""Runs `ullage config show`: every setting, its value, and where the value comes from."""

from agents.processes.output import data
from agents.settings.docs import describe
from agents.settings.loading import LoadedSettings


def show(loaded: LoadedSettings, *, origin: bool, explain: bool) -> None:
    """Print one line for each setting, with its origin and its description on request."""
    texts = {name: text for name, _, text in describe()}
    for name, value, place in loaded.shown():
        data(f"{name} = {value}" + (f"  # {place}" if origin else ""))
        if explain:
            data(f"    {texts[name]}")
