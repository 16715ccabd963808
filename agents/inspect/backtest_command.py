"""Runs `ullage backtest`: takes a trace or a kept log through the stages, prints the score card, and applies the gate."""

from pathlib import Path

import orjson

from agents.backtest import backtest
from agents.backtest.backtest import ScoreCard
from agents.pipeline import stages
from agents.processes.output import data, note
from agents.processes.signals import stoppable
from agents.settings import log_factory
from agents.settings.tree import Settings
from agents.telemetry import garbage_collector
from streams.log.file_log import FileLog
from streams.sources.traces import Trace

GATE = 3


def run(settings: Settings, file: Path, *, max_oom: int | None, as_json: bool) -> int:
    """Print the score card; returns 3 when there were more would-be OOM kills than `max_oom`, else 0."""
    garbage_collector.relax()
    with stoppable():
        card = _of_log(settings, file) if file.suffix == ".jsonl" else _of_trace(settings, file)
    for line in [orjson.dumps(card).decode()] if as_json else backtest.lines(card):
        data(line)
    kills = card.recommended.ooms
    if max_oom is not None and kills > max_oom:
        note(f"{kills} would-be OOM kills are more than --max-oom {max_oom}")
        return GATE
    return 0


def _of_log(settings: Settings, file: Path) -> ScoreCard:
    with FileLog(file) as log:
        return backtest.over_log(log, stages(settings), log_factory.topics(settings))


def _of_trace(settings: Settings, file: Path) -> ScoreCard:
    topics = log_factory.topics(settings)
    with Trace(file) as trace:
        note(f"{trace.rows} samples of {len(trace.names)} containers")
        *_, last = backtest.over_trace(trace, stages(settings), topics)
        return last.card()
