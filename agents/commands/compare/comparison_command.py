"""Runs `ullage backtest --policy` and `ullage diff`: policies over one recording, side by side, with gates."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from agents.backtest import price_list, score_card
from agents.backtest.policy_comparison import DRAWS, FEW, PolicyDifference, PolicyScore, difference
from agents.backtest.price_list import PriceList
from agents.commands.compare import comparison_output, frontier, policy_runs
from agents.commands.compare.comparison_output import ComparisonForm, PrintedComparison
from agents.commands.compare.policy_runs import BASELINE, SIDES
from agents.processes.signals import stoppable
from agents.settings import setting_texts
from agents.settings.all_settings import Settings
from agents.terminal.output import note
from streams.errors import BadInput

GATE = 3


@dataclass(frozen=True, slots=True)
class ComparisonFlags:
    """How to compare and what to print. `given` are the settings of the command line, `jobs` how many processes to score in.

    `rows`: what a row of Parquet is.
    """

    given: tuple[str, ...]
    form: ComparisonForm
    to: Path | None
    prices: Path | None
    baseline: str = BASELINE
    jobs: int | None = None
    rows: Literal["workload", "sample"] = "workload"


@dataclass(frozen=True, slots=True)
class Gates:
    """What a policy must not exceed: OOM kills, and how much worse than the baseline it may be in cost or kills, as a share."""

    max_oom: int | None = None
    max_regression: float | None = None


def regression_of(text: str) -> float:
    """The share that `--max-regression` means: `5%` or `0.05`. Raises BadInput."""
    try:
        share = setting_texts.share(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf"):
        raise BadInput(f"--max-regression '{text}' is no share: give 5% or 0.05")
    return share


def compare(settings: Settings, file: Path, policies: Sequence[str], flags: ComparisonFlags, gates: Gates) -> int:
    """Score each policy, the baseline, the recording's own requests and the oracle; 3 when one of `policies` crosses a gate."""
    if flags.form == "svg":
        raise BadInput("-o svg draws what --frontier asks for: give --frontier vertical.risk_cpu=0.005,0.02,0.08")
    if flags.rows == "sample" and flags.form != "parquet":
        raise BadInput(f"samples are written as Parquet only, not as {flags.form}: give -o parquet --fileoutput FILE.parquet")
    # a policy that is also the baseline is scored once
    wanted = list(dict.fromkeys((flags.baseline, *policies, *SIDES)))
    prices = price_list.read(flags.prices)
    scores = _scores(settings, file, wanted, flags, prices)
    baseline = scores[0]
    differences = {score.name: difference(baseline, score) for score in scores[1:]}
    # only what was asked for is gated, and not what it is compared with
    candidates = [score for text, score in zip(wanted, scores, strict=True) if text in policies and text not in SIDES]
    sentences = [*_about(baseline, prices), *_resolution(scores)]
    rows, exact = list(comparison_output.shown(scores, differences, prices)), list(comparison_output.workload_rows(scores))
    whole = comparison_output.as_object(scores, differences, prices)
    if flags.rows == "workload":
        comparison_output.write(flags.form, flags.to, PrintedComparison(sentences, rows, exact, whole))
    crossed = [sentence for score in candidates for sentence in _crossed(score, differences.get(score.name), gates)]
    for sentence in crossed:
        note(sentence)
    return GATE if crossed else 0


def draw_frontier(settings: Settings, file: Path, policy: str, knob: str, flags: ComparisonFlags) -> int:
    """Print what is requested against what is risked, for values of a policy's setting and for upstream's margins."""
    prices = price_list.read(flags.prices)
    if flags.rows != "workload":
        raise BadInput("--frontier has no rows of samples: give --policy once for each value")
    scores = _scores(settings, file, frontier.specs(policy, knob), flags, prices)
    sentences = [
        *_about(scores[1], prices)[:1],
        "requests are means over container time; CPU and memory against upstream's margin of 0.15",
    ]
    exact = list(comparison_output.workload_rows(scores))
    rows = list(frontier.rows(scores))
    recording = file.parent.name if file.name == "usage.parquet" else file.stem
    picture = frontier.drawn(recording, frontier.points(scores), knob.partition("=")[0].strip(), policy)
    whole = {"frontier": rows, **comparison_output.as_object(scores, {}, prices)}
    comparison_output.write(
        flags.form, flags.to, PrintedComparison([*sentences, *_resolution(scores)], rows, exact, whole, picture)
    )
    return 0


def diff(settings: Settings, file: Path, policies: tuple[str, str], top: int, flags: ComparisonFlags) -> int:
    """Print the workloads that differ most between two policies."""
    if top < 1:
        raise BadInput(f"--top {top} shows nothing; give 1 or more")
    prices = price_list.read(flags.prices)
    first, second = _scores(settings, file, policies, flags, prices)
    rows = list(comparison_output.differing(first, second, top))
    total = difference(first, second)
    changed = f"cost {total.cost.estimate:+.1%}, OOM kills {total.kills.estimate:+.0f}, over {len(first.workloads)} workloads"
    sentences = [f"'{second.name}' against '{first.name}': {changed}; first those that differ most", f"prices: {prices}"]
    if not rows:
        sentences.append("no workload differs")
    exact = list(comparison_output.workload_rows([first, second]))
    whole = comparison_output.as_object([first, second], {second.name: total}, prices)
    comparison_output.write(flags.form, flags.to, PrintedComparison(sentences, rows, exact, whole))
    return 0


def _scores(
    settings: Settings, file: Path, policies: Sequence[str], flags: ComparisonFlags, prices: PriceList
) -> list[PolicyScore]:
    # before the scoring, which may take hours
    comparison_output.require_file(flags.form, flags.to)
    specs = policy_runs.read(policies, settings, flags.given)
    if flags.form != "parquet" or flags.to is None or flags.rows == "workload":
        with stoppable():
            return policy_runs.run(file, specs, settings, prices, flags.jobs)
    with TemporaryDirectory(prefix="ullage-samples-") as folder:
        with stoppable():
            # a sample a row is too much for memory, so each policy writes its own parts as it goes
            scores = policy_runs.run(file, specs, settings, prices, flags.jobs, Path(folder))
        comparison_output.samples(Path(folder), flags.to)
        return scores


def _about(baseline: PolicyScore, prices: PriceList) -> list[str]:
    hours, workloads = baseline.total("container_hours"), len(baseline.workloads)
    few = f"; of {workloads} {'workload' if workloads == 1 else 'workloads'} they are too narrow" if workloads < FEW else ""
    return [
        f"{workloads} workloads, {hours / 24:,.1f} container-days; baseline '{baseline.name}'; prices: {prices}",
        f"intervals: 95 %, bootstrap over workloads, {DRAWS:,} draws; ~ marks a difference that may be chance{few}",
    ]


def _resolution(scores: Sequence[PolicyScore]) -> list[str]:
    """What the recording hides: the same for every policy."""
    card = next((score.card for score in scores if score.card is not None), None)
    return [] if card is None else list(score_card.resolution_lines(card.resolution))


def _crossed(score: PolicyScore, against: PolicyDifference | None, gates: Gates) -> list[str]:
    sentences = []
    if gates.max_oom is not None and score.gated_kills > gates.max_oom:
        sentences.append(f"policy '{score.name}': {score.gated_kills} OOM kills are more than --max-oom {gates.max_oom}")
    if gates.max_regression is not None and against is not None and against.regression > gates.max_regression:
        sentences.append(
            f"policy '{score.name}': cost {against.cost.estimate:+.1%} and OOM kills {against.kills.estimate:+.0f} against "
            f"'{against.baseline}' are more than --max-regression {gates.max_regression:.0%}"
        )
    return sentences
