"""Runs policies over one recording, each from the beginning, and scores them by workload."""

from collections.abc import Sequence
from pathlib import Path

from agents.backtest.backtest import Backtest
from agents.backtest.partial_scores import PartialScore
from agents.backtest.policy_comparison import PolicyScore, figures
from agents.backtest.price_list import PriceList
from agents.backtest.sample_rows import SampleRows
from agents.backtest.scoring import Score
from agents.backtest.workload_sums import ContainerSums
from agents.commands.compare import trace_backtest
from agents.commands.compare.policy_specs import SIDES, PolicySpec
from agents.logic.vertical.vertical_settings import ADAPTIVE, BUILT_IN
from agents.policies import policy_process
from agents.policies.policy_limits import PolicyLimits
from agents.run.pipeline import stages
from agents.settings import log_factory, recorded_log
from agents.settings.all_settings import Settings
from agents.terminal.output import note
from schemas.policies.vertical import UpdateMode
from streams.errors import BadInput


def run(  # noqa: PLR0913, PLR0917  # what is compared, and how
    file: Path,
    specs: Sequence[PolicySpec],
    settings: Settings,
    prices: PriceList,
    jobs: int | None = None,
    samples: Path | None = None,
) -> list[PolicyScore]:
    """A score for each policy. `settings` are those of the command line, for policies that no stage decides.

    `jobs`: processes for each policy, as `trace_backtest.scored` has it. `samples`: a folder that gets each sample of each policy
    that stages decide by.
    """
    trace_backtest.require_jobs(jobs)
    scores: dict[str, PolicyScore] = {}
    done: PartialScore | None = None
    for number, spec in enumerate(specs):
        if spec.settings is None:
            continue
        rows = None if samples is None else _rows(samples / f"{number:03d}", spec.name)
        note(f"policy '{spec.name}' ...")
        if spec.settings.vertical.policy not in ("", BUILT_IN, ADAPTIVE):
            # strangers' code, so a process of its own with limits
            scores[spec.name] = policy_process.run(spec.name, PolicyLimits(), scored_alone, file, spec, prices, rows)
        else:
            done = played(file, spec.settings, jobs, rows, mode=spec.mode)
            scores[spec.name] = _scored(spec.name, done, "ours", prices)
    # `recorded` and `oracle` are figures of any run, so they cost a run only where no policy had one
    if done is None:
        done = played(file, settings, jobs)
    for spec in specs:
        if spec.settings is None:
            scores[spec.name] = _scored(spec.name, done, SIDES[spec.name], prices)
    return [scores[spec.name] for spec in specs]


def scored_alone(file: Path, spec: PolicySpec, prices: PriceList, samples: SampleRows | None = None) -> PolicyScore:
    """The score of one policy that stages decide by; what the process of a policy written as code does."""
    if spec.settings is None:
        raise BadInput(f"the policy '{spec.name}' is decided by no stage")
    return _scored(spec.name, played(file, spec.settings, 1, samples, mode=spec.mode), "ours", prices)


def _rows(folder: Path, policy: str) -> SampleRows:
    folder.mkdir()
    return SampleRows(folder, policy)


def played(
    file: Path, settings: Settings, jobs: int | None, samples: SampleRows | None = None, *, mode: UpdateMode | None = None
) -> PartialScore:
    """One policy over a trace, a log file or an incident file. Raises BadInput."""
    if not recorded_log.is_log(file):
        return trace_backtest.scored(file, settings, jobs=jobs, by_workload=True, samples=samples, mode=mode)
    if mode is not None:
        raise BadInput(f"'{file}' has policies, which say how pods are changed; only a usage trace is changed as '@' says")
    fitted = recorded_log.reading(settings, file)
    with log_factory.log(fitted) as log:
        backtest = Backtest(
            stages(fitted), log_factory.topics(fitted), fitted.updates, Score(sums=ContainerSums(), samples=samples)
        )
        backtest.play(log)
        if samples is not None:
            samples.write(backtest.score.containers)
        return backtest.score.part()


def _scored(name: str, part: PartialScore, side: str, prices: PriceList) -> PolicyScore:
    recorded = {total.workload: (total.cpu.seconds, total.memory.seconds) for total in part.totals("oracle")}
    workloads = figures(part.totals(side), recorded, prices)
    return PolicyScore(name, workloads, part.card() if side == "ours" else None)
