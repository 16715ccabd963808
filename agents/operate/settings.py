"""Runs `ullage settings plan` and `apply`: compares the settings by which all workers decide, in the log and here."""

from agents import rules_in_log
from agents.operate.operator_session import operator_session
from agents.pipeline import stages
from agents.processes import output_table
from agents.processes.output import data, note
from agents.processes.output_table import TextForm
from agents.rules_in_log import RulesDifference
from agents.settings.all_settings import Settings

_NOTHING = "nothing to do: the log says what is set here"


def plan(settings: Settings, *, form: TextForm = "table") -> None:
    """Print where the log differs."""
    with operator_session(settings) as (operator, at):
        found = rules_in_log.differences(operator.context, stages(settings), at)
    output_table.print_answer(form, map(str, found), list(map(_object, found)))
    note(f"{len(found)} stages differ; `ullage settings apply` changes the log" if found else _NOTHING)


def apply(settings: Settings) -> None:
    """Append our rules where the log differs."""
    with operator_session(settings) as (operator, at):
        found = rules_in_log.differences(operator.context, stages(settings), at)
        rules_in_log.append(operator.context, [difference.ours for difference in found])
    for difference in found:
        data(str(difference))
    note(f"{len(found)} stages decide by the settings here from their next turn on" if found else _NOTHING)


def _object(found: RulesDifference) -> dict[str, object]:
    """The same for programs."""
    there, ours = found.there, found.ours
    return {
        "stage": ours.stage,
        "program": {"log": None if there is None else there.program, "here": ours.program},
        "version": {"log": None if there is None else there.version, "here": ours.version},
        "settings": {name: {"log": in_log, "here": here} for name, (in_log, here) in found.settings.items()},
    }
