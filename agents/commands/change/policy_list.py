"""Runs `ullage policy list`: the vertical policies in force. As YAML and JSON they are what `ullage policy apply` takes."""

from agents.commands.change import policy_file
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import note
from schemas.policies.vertical import VerticalPolicyChanged
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog


def show(settings: Settings, form: output_table.OutputForm) -> None:
    """Print all policies in force."""
    with log_factory.log_to_read(settings) as (log, fitted):
        in_force = list(OperatorLog(LogContext.of(log, log_factory.topics(fitted))).policies().values())
    if form in {"yaml", "json"}:
        output_table.print_rows(form, [policy_file.as_body(each) for each in in_force])
    else:
        rows = [{"target": each.target, "says": policy_file.describe(each), "by": _author(each)} for each in in_force]
        output_table.print_rows(form, rows, ("target", "says", "by"), ("by",))
    note(f"{len(in_force)} {'policy' if len(in_force) == 1 else 'policies'} in force")


def _author(policy: VerticalPolicyChanged) -> str:
    """`alice (Kafka principal)`, or with the object that says it."""
    return " through ".join(filter(None, (str(policy.by or ""), policy.through)))
