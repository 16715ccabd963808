"""Runs `ullage backtest`: takes a trace or a kept log through the stages, prints the score card, and applies the gate."""

from collections.abc import Iterator
from pathlib import Path

import orjson

from agents.backtest import backtest
from agents.backtest.backtest import ScoreCard
from agents.commands.compare import trace_backtest
from agents.processes.signals import stoppable
from agents.run.pipeline import stages
from agents.settings import log_factory, recorded_log
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import data, note
from agents.terminal.output_table import TextForm

GATE = 3


def run(settings: Settings, file: Path, *, max_oom: int | None, form: TextForm, jobs: int | None = None) -> int:
    """Print the score card; returns 3 when it counts more OOM kills than `max_oom`, else 0."""
    with stoppable():
        if recorded_log.is_log(file):
            card = _of_log(recorded_log.reading(settings, file), jobs)
        else:
            card = trace_backtest.scored(file, settings, jobs=jobs).card()
    for line in output_table.fitted(form, backtest.lines(card)) if form in output_table.PEOPLE else _for_programs(form, card):
        data(line)
    if max_oom is not None and card.gated_kills > max_oom:
        kills = card.kills
        before = "recorded" if kills.recorded else "would-be"
        note(
            f"{card.gated_kills} OOM kills are more than --max-oom {max_oom}: {kills.would_be} would-be ones at a recommended "
            f"limit, {kills.before} {before} before one was in force, {kills.unknown} recorded that nothing shows to be prevented"
        )
        return GATE
    return 0


def _for_programs(form: TextForm, card: ScoreCard) -> Iterator[str]:
    if form == "json":  # on one line, for logs and pipes
        yield orjson.dumps(card).decode()
    else:
        yield from output_table.document(form, card)


def _of_log(settings: Settings, jobs: int | None) -> ScoreCard:
    trace_backtest.require_jobs(jobs)
    note(
        "a log may hold policies, nodes and outcomes, which cross workloads, so every stage takes every turn of it, in one "
        "process; a usage trace goes faster"
    )
    with log_factory.log(settings) as log:
        return backtest.over_log(log, stages(settings), log_factory.topics(settings), updates=settings.updates)
