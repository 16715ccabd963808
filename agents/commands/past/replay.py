"""Runs `ullage replay`: takes the log of the settings through the stages again, without appending anything to it."""

from pathlib import Path

from agents.processes.signals import stoppable
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import data, note, sentence
from agents.terminal.output_table import TextForm
from agents.verify.committed_turns import committed
from agents.verify.committed_turns import export as copy_log
from agents.verify.verification import verify as compare_with_published
from agents.verify.verification_report import report_lines
from schemas.units import counted
from streams.errors import BadInput
from streams.incidents.incident_copy import IncidentLog
from streams.log.file_log import FileLog
from streams.log_context import LogContext

GATE, NOT_COMPARED = 3, 4


def run(settings: Settings, *, verify: bool, export: Path | None, form: TextForm = "table") -> int:
    """Replay; returns 3 when what was published differs from what the log gives, 4 when a part could not be compared, else 0."""
    with stoppable(), log_factory.context_to_read(settings) as (context, fitted):
        if export is not None:
            with FileLog.open_or_create(export) as file:
                copied = copy_log(context, file, stages=stages(fitted), worker=fitted.worker.name)
            note(f"{sum(copied.values())} records copied to {export}")
        return _verify(context, fitted) if verify else _print(context, fitted, form)


def _verify(context: LogContext, settings: Settings) -> int:
    if isinstance(context.log, IncidentLog) and context.log.manifest.pseudonyms:
        raise BadInput(
            "names in this file are pseudonyms, by which workloads belong to other partitions: nothing can be compared"
        )
    listed, worker = stages(settings), settings.worker.name
    report = compare_with_published(
        context,
        listed,
        committed=committed(context, worker, listed),
        # a worker that is at work commits while the log is read
        again=lambda stage: committed(context, worker, [stage]),
    )
    for line in report_lines(report):
        sentence(line)
    if not report.ok:
        return GATE
    return NOT_COMPARED if report.foreign else 0


def _print(context: LogContext, settings: Settings, form: TextForm) -> int:
    """Print each decision."""
    # its stages read the decisions that were published, not those computed here, so nothing is appended
    runner = Runner(stages(settings), context)
    turns = decisions = 0
    while runner.read():
        for task, taken in runner.turns():
            turns, decisions = turns + 1, decisions + len(taken.decisions)
            for record in taken.decisions:
                kind = next((v.decode() for n, v in record.headers if n == "ce_type"), "")
                key = (record.key or b"").decode()
                row = {"stage": task.stage.name, "partition": task.partition, "turn": taken.turn, "type": kind, "key": key}
                text = f"{task.stage.name}/{task.partition} turn {taken.turn}  {kind}  {key}"
                for line in [text] if form in output_table.PEOPLE else output_table.item(form, row):
                    data(line)
    note(f"{counted(turns, 'turn')} gave {counted(decisions, 'decision')}")
    return 0
