"""Runs policies over one recording, each from the beginning, and scores them by workload."""

from collections.abc import Sequence
from pathlib import Path

from agents.backtest.backtest import Backtest, over_trace
from agents.backtest.policy_comparison import PolicyScore, figures
from agents.backtest.price_list import PriceList
from agents.backtest.scoring import Score
from agents.backtest.workload_sums import ContainerSums
from agents.inspect.policy_specs import SIDES, PolicySpec
from agents.pipeline import stages
from agents.processes import policy_process
from agents.processes.output import note
from agents.processes.progress_line import ProgressLine
from agents.settings import log_factory, recorded_log
from agents.settings.policy_limits import PolicyLimits
from agents.settings.tree import Settings
from streams.errors import BadInput
from streams.sources.traces import Trace


def run(file: Path, specs: Sequence[PolicySpec], settings: Settings, prices: PriceList) -> list[PolicyScore]:
    """A score for each policy. `settings` are those of the command line, for policies that no stage decides."""
    scores: dict[str, PolicyScore] = {}
    done: Backtest | None = None
    for spec in specs:
        if spec.settings is None:
            continue
        note(f"policy '{spec.name}' ...")
        if spec.settings.vertical.policy:
            scores[spec.name] = policy_process.run(spec.name, PolicyLimits(), scored_alone, file, spec, prices)
        else:
            done = played(file, spec.settings)
            scores[spec.name] = _scored(spec.name, done, "ours", prices)
    if done is None:
        done = played(file, settings)
    for spec in specs:
        if spec.settings is None:
            scores[spec.name] = _scored(spec.name, done, SIDES[spec.name], prices)
    return [scores[spec.name] for spec in specs]


def scored_alone(file: Path, spec: PolicySpec, prices: PriceList) -> PolicyScore:
    """The score of one policy that stages decide by; what the process of a policy written as code does."""
    if spec.settings is None:
        raise BadInput(f"the policy '{spec.name}' is decided by no stage")
    return _scored(spec.name, played(file, spec.settings), "ours", prices)


def played(file: Path, settings: Settings) -> Backtest:
    """One policy over a trace, a log file or an incident file. Raises BadInput."""
    if not recorded_log.is_log(file):
        with Trace(file) as trace:
            line = ProgressLine(trace.rows, "samples")
            for done in over_trace(
                trace, stages(settings), log_factory.topics(settings), updates=settings.updates, by_workload=True
            ):
                line.show(done.score.rows)
            line.end()
            return done
    found = recorded_log.reading(settings, file)
    with log_factory.log(found) as log:
        backtest = Backtest(stages(found), log_factory.topics(found), found.updates, Score(sums=ContainerSums()))
        backtest.play(log)
        return backtest


def _scored(name: str, backtest: Backtest, side: str, prices: PriceList) -> PolicyScore:
    recorded = {each.workload: (each.cpu.seconds, each.memory.seconds) for each in backtest.score.totals("oracle")}
    found = figures(backtest.score.totals(side), recorded, prices)
    return PolicyScore(name, found, backtest.card() if side == "ours" else None)
