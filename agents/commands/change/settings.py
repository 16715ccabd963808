"""Runs `ullage settings`, which compares the settings by which all workers decide, in the log and here, and `config show`."""

from dataclasses import replace

from agents.commands.change.operator_session import operator_session
from agents.run import rules_in_log
from agents.run.pipeline import stages
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.settings.loading import LoadedSettings
from agents.settings.setting_descriptions import describe
from agents.terminal import output_table
from agents.terminal.output import note, sentence
from agents.terminal.output_table import OutputForm, TextForm
from schemas.times import EPOCH

_NOTHING = "nothing to do: the log says what is set here"


def plan(settings: Settings, form: TextForm = "table") -> None:
    """Print where the log differs."""
    with log_factory.context_to_read(settings) as (context, fitted):
        # the time of rules that are not sent does not matter
        differences = rules_in_log.differences(context, stages(fitted), EPOCH)
    output_table.print_text(form, map(str, differences), [difference.as_object() for difference in differences])
    differ = "1 stage differs" if len(differences) == 1 else f"{len(differences)} stages differ"
    note(f"{differ}; `ullage settings apply` changes the log" if differences else _NOTHING)


def apply(settings: Settings) -> None:
    """Append our rules where the log differs."""
    with operator_session(settings) as (operator, at):
        differences = rules_in_log.differences(operator.context, stages(settings), at)
        rules_in_log.append(operator.context, [replace(difference.ours, by=operator.author) for difference in differences])
    for difference in differences:
        sentence(str(difference))
    decide = "1 stage decides" if len(differences) == 1 else f"{len(differences)} stages decide"
    note(f"{decide} by the settings here from the next turn on" if differences else _NOTHING)


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
        sentence(f"{name} = {value or 'not set'}" + (f"  # {place}" if origin else ""))
        if explain:
            sentence(f"    {texts[name]}")
