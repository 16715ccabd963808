"""Scores a usage trace, its workloads distributed over as many processes as there are cores, with exactly the same score.

Nothing in a trace crosses workloads, so each process reads and scores its own, through all turns. Two things keep a trace in one
process: a policy written as code, which is run under limits of its own, and a scrape with an impossible number, because it is set
aside as a whole, with every workload in it.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agents.backtest.backtest import Backtest, over_trace
from agents.backtest.partial_scores import PartialScore, joined
from agents.backtest.scoring import SampleRows
from agents.logic.vertical.vertical_settings import ADAPTIVE, BUILT_IN
from agents.processes import worker_processes
from agents.processes.worker_processes import Report
from agents.run.pipeline import stages
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal.output import ProgressLine, note
from schemas.policies.vertical import UpdateMode
from streams.errors import BadInput
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
    topics = log_factory.topics(settings)
    for done in over_trace(
        trace, stages(settings), topics, updates=settings.updates, by_workload=by_workload, samples=samples, mode=mode
    ):
        show(done.score.rows)
        # the whole is scored again in one process, so the rest of a part is not worth its time
        if done.score.dead_letters and not whole:
            break
    if samples is not None:
        samples.write(done.score.containers)
    return done
