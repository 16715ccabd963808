"""Runs `ullage backtest`: takes a recording through the stages, prints the score card, and applies the gate.

The recording is a trace, a kept log, or what a Prometheus server has, which is first written as a trace.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from agents.backtest import backtest
from agents.backtest.backtest import ScoreCard
from agents.commands.compare import trace_backtest
from agents.processes.signals import stoppable
from agents.run.pipeline import stages
from agents.settings import log_factory, recorded_log
from agents.settings.all_settings import Settings
from agents.settings.loading import LoadedSettings
from agents.terminal import output_table
from agents.terminal.output import data, note
from agents.terminal.output_table import TextForm
from streams.errors import BadInput, GiveUp, TryAgain

GATE = 3


def run(settings: Settings, file: Path, *, max_oom: int | None, form: TextForm, jobs: int | None = None) -> int:
    """Print the score card; returns 3 when it counts more OOM kills than `max_oom`, else 0."""
    with stoppable():
        if recorded_log.is_log(file):
            card = _of_log(recorded_log.reading(settings, file), jobs)
        else:
            card = trace_backtest.scored(file, settings, jobs=jobs).card()
    for line in output_table.fitted(form, backtest.lines(card)) if form in output_table.PEOPLE else _for_programs(form, card):
        # after the card: a gate that is crossed is no reason to hide it
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


@contextmanager
def recording(
    loaded: LoadedSettings, file: Path | None, *, stored: bool, keep: Path | None, until: datetime | None = None
) -> Iterator[Path]:
    """The file, or with `stored` a trace of what the server has up to `until`, which is kept at `keep`. Raises BadInput."""
    if stored == (file is not None):
        raise BadInput("give either a FILE with recorded usage or --prometheus-url, and not both")
    if keep is not None and not stored:
        raise BadInput("--keep is for what --prometheus-url gives; the FILE is there already")
    if keep is not None and keep.suffix != ".parquet":
        raise BadInput(f"--keep '{keep}' is written as Parquet: give it a name in .parquet")
    if file is not None:
        yield file
        return
    with TemporaryDirectory(prefix="ullage-backtest-") as folder:
        # deleted at the end unless `--keep` names a place
        to = keep or Path(folder) / "usage.parquet"
        with stoppable():
            _write(loaded, to, until)
        yield to


def _write(loaded: LoadedSettings, to: Path, until: datetime | None) -> None:
    from agents.commands.recommend.scan_command import of_context
    from agents.processes.source_usage import history_period, metrics_store, warn_of_clusters
    from streams.sources.usage.stored_trace import StoredTrace

    settings = of_context(loaded, "")
    store, period = metrics_store(settings), history_period(settings, until)
    warn_of_clusters(store, period.end)
    trace = StoredTrace(store.server, store.names, period)
    try:
        for rows in trace.write(to):
            note(f"{rows:,} samples read")
    except (TryAgain, GiveUp) as error:
        raise BadInput(f"reading what is stored did not work: {error}") from error
