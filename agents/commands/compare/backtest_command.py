"""Runs `ullage backtest`: takes a recording through the stages, prints the score card, and applies the gate.

The recording is a trace, a kept log, or what a Prometheus server has, which is first written as a trace. Nothing in a trace
crosses workloads, so each of as many processes as there are cores reads and scores its own, through all turns, with exactly the
same score. Two things keep a trace in one process: a policy written as code, which is run under limits of its own, and a scrape
with an impossible number, because it is set aside as a whole, with every workload in it.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from agents.backtest import backtest
from agents.backtest.backtest import Backtest, ScoreCard, over_trace
from agents.backtest.partial_scores import PartialScore, joined
from agents.backtest.scoring import SampleRows
from agents.logic.vertical.vertical_settings import ADAPTIVE, BUILT_IN
from agents.processes import worker_processes
from agents.processes.signals import stoppable
from agents.processes.worker_processes import Report
from agents.run.pipeline import stages
from agents.settings import log_factory, recorded_log
from agents.settings.all_settings import Settings, for_partitions
from agents.settings.loading import LoadedSettings
from agents.terminal import output_table
from agents.terminal.output import ProgressLine, data, note
from agents.terminal.output_table import TextForm
from schemas.policies.vertical import UpdateMode
from streams.errors import BadInput, GiveUp, TryAgain
from streams.sources.traces import Trace, TracePart

_WORTH = 100
"""Containers of which a turn takes a process longer than what every turn takes."""
_ROWS = 250_000
"""Rows that take a process longer than it takes to start one."""


@dataclass(frozen=True, slots=True)
class _Part:
    trace: TracePart
    settings: Settings
    by_workload: bool
    mode: UpdateMode | None


def scored(  # noqa: PLR0913  # all by keyword but what is scored
    file: Path,
    settings: Settings,
    *,
    jobs: int | None,
    by_workload: bool = False,
    samples: SampleRows | None = None,
    mode: UpdateMode | None = None,
) -> PartialScore:
    """The score of everything in a trace. Raises BadInput. `mode` as in `backtest.over_trace`.

    `jobs`: how many processes; None for as many as there are cores, fewer where they are not worth their start; one where
    each sample is kept, too (`samples`).
    """
    require_jobs(jobs)
    if not by_workload:
        note(f"reading '{file}'")
    with Trace(file) as trace:
        for fault in trace.faults:
            note(fault)
        if not by_workload:
            note(f"{trace.rows} samples of {len(trace.names)} containers")
        line = ProgressLine(trace.rows, "samples")
        try:
            parts = list(_dealt(trace, _processes(trace, settings, jobs if samples is None else 1)))
            if len(parts) > 1:
                parts_of_trace = [_Part(trace.part(who), settings, by_workload, mode) for who in parts]
                scores = worker_processes.run(("scoring", str(file)), _scored_part, parts_of_trace, line.show)
                whole = [part for part in scores if part is not None]
                if len(whole) == len(parts):
                    return joined(whole)
                note("records of this trace are set aside, and a scrape is set aside whole: scoring again in one process")
            return _scored(trace, settings, line.show, by_workload=by_workload, samples=samples, mode=mode).score.part()
        finally:
            line.end()


def require_jobs(jobs: int | None) -> None:
    """Raises BadInput for less than one process."""
    if jobs is not None and jobs < 1:
        raise BadInput(f"--jobs {jobs} does nothing; give 1 or more")


def _processes(trace: Trace, settings: Settings, jobs: int | None) -> int:
    if settings.vertical.policy not in ("", BUILT_IN, ADAPTIVE):
        return 1
    return jobs or max(1, min(worker_processes.cores(), len(trace.names) // _WORTH, trace.rows // _ROWS))


def _dealt(trace: Trace, processes: int) -> Iterator[list[int]]:
    """The containers' numbers, distributed by a stable hash of their workloads; no process gets none."""
    dealt: list[list[int]] = [[] for _ in range(processes)]
    for who, name in enumerate(trace.names):
        # not by Python's hash, which differs in each process
        dealt[zlib.crc32(f"{name.namespace}/{name.workload}".encode()) % processes].append(who)
    yield from (who for who in dealt if who)


def _scored_part(report: Report, part: _Part) -> PartialScore | None:
    """What one process does; None when it found records that are set aside."""
    trace = Trace(part.trace)
    try:
        done = _scored(trace, part.settings, report, by_workload=part.by_workload, whole=False, mode=part.mode)
        return None if done.score.dead_letters else done.score.part()
    finally:
        trace.close()


def _scored(  # noqa: PLR0913  # all by keyword but the three that say what is scored
    trace: Trace,
    settings: Settings,
    show: Report,
    *,
    by_workload: bool,
    mode: UpdateMode | None,
    whole: bool = True,
    samples: SampleRows | None = None,
) -> Backtest:
    """The backtest at its end, or, of a part, where it found the first record that is set aside."""
    # Workloads do not see one another, so the score is the same in one partition, and a turn is taken for all of them at once.
    alone = for_partitions(settings, 1)
    topics = log_factory.topics(alone)
    for done in over_trace(
        trace, stages(alone), topics, updates=settings.updates, by_workload=by_workload, samples=samples, mode=mode
    ):
        show(done.score.rows)
        # the whole is scored again in one process, so the rest of a part is not worth its time
        if done.score.dead_letters and not whole:
            break
    if samples is not None:
        samples.write(done.score.containers)
    return done


GATE = 3


def run(settings: Settings, file: Path, *, max_oom: int | None, form: TextForm, jobs: int | None = None) -> int:
    """Print the score card; returns 3 when it counts more OOM kills than `max_oom`, else 0."""
    with stoppable():
        if recorded_log.is_log(file):
            card = _of_log(recorded_log.reading(settings, file), jobs)
        else:
            card = scored(file, settings, jobs=jobs).card()
    # before the gate: that it is crossed is no reason to hide the card
    if form == "json":  # on one line, for logs and pipes
        data(orjson.dumps(card).decode())
    else:
        output_table.print_text(form, backtest.lines(card), card)
    if max_oom is not None and card.gated_kills > max_oom:
        kills = card.kills
        before = "recorded" if kills.recorded else "would-be"
        note(
            f"{card.gated_kills} OOM kills are more than --max-oom {max_oom}: {kills.would_be} would-be ones at a recommended "
            f"limit, {kills.before} {before} before one was in force, {kills.unknown} recorded that nothing shows to be prevented"
        )
        return GATE
    return 0


def _of_log(settings: Settings, jobs: int | None) -> ScoreCard:
    require_jobs(jobs)
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
    from streams.sources.usage.prometheus_export import StoredTrace

    settings = of_context(loaded, "")
    store, period = metrics_store(settings), history_period(settings, until)
    warn_of_clusters(store, period.end)
    trace = StoredTrace(store.server, store.names, period)
    try:
        for rows in trace.write(to):
            note(f"{rows:,} samples read")
    except (TryAgain, GiveUp) as error:
        raise BadInput(f"reading what is stored did not work: {error}") from error
