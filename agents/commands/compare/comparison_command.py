"""Runs `ullage backtest --policy` and `ullage diff`: policies over one recording, side by side, with gates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import orjson

from agents.backtest import price_list, score_card
from agents.backtest.backtest import Backtest
from agents.backtest.partial_scores import PartialScore
from agents.backtest.policy_comparison import DRAWS, PolicyDifference, PolicyScore, difference, figures
from agents.backtest.price_list import PriceList
from agents.backtest.scoring import Score
from agents.backtest.workload_sums import ContainerSums
from agents.commands.compare import comparison_table, frontier, policy_specs, trace_backtest
from agents.commands.compare.policy_specs import BASELINE, SIDES, PolicySpec
from agents.logic.vertical.vertical_settings import ADAPTIVE, BUILT_IN
from agents.policies import policy_process
from agents.policies.policy_limits import PolicyLimits
from agents.processes.signals import stoppable
from agents.run.pipeline import stages
from agents.settings import log_factory, recorded_log, setting_texts
from agents.settings.all_settings import Settings
from agents.terminal import html_table, output_table
from agents.terminal.output import data, note
from agents.terminal.output_table import Row
from streams.errors import BadInput


def run(
    file: Path, specs: Sequence[PolicySpec], settings: Settings, prices: PriceList, jobs: int | None = None
) -> list[PolicyScore]:
    """A score for each policy. `settings` are those of the command line, for policies that no stage decides.

    `jobs`: processes for each policy, as `trace_backtest.scored` has it.
    """
    trace_backtest.require_jobs(jobs)
    scores: dict[str, PolicyScore] = {}
    done: PartialScore | None = None
    for spec in specs:
        if spec.settings is None:
            continue
        note(f"policy '{spec.name}' ...")
        if spec.settings.vertical.policy not in ("", BUILT_IN, ADAPTIVE):
            scores[spec.name] = policy_process.run(spec.name, PolicyLimits(), scored_alone, file, spec, prices)
        else:
            done = played(file, spec.settings, jobs)
            scores[spec.name] = _scored(spec.name, done, "ours", prices)
    if done is None:
        done = played(file, settings, jobs)
    for spec in specs:
        if spec.settings is None:
            scores[spec.name] = _scored(spec.name, done, SIDES[spec.name], prices)
    return [scores[spec.name] for spec in specs]


def scored_alone(file: Path, spec: PolicySpec, prices: PriceList) -> PolicyScore:
    """The score of one policy that stages decide by; what the process of a policy written as code does."""
    if spec.settings is None:
        raise BadInput(f"the policy '{spec.name}' is decided by no stage")
    return _scored(spec.name, played(file, spec.settings, jobs=1), "ours", prices)


def played(file: Path, settings: Settings, jobs: int | None) -> PartialScore:
    """One policy over a trace, a log file or an incident file. Raises BadInput."""
    if not recorded_log.is_log(file):
        return trace_backtest.scored(file, settings, jobs=jobs, by_workload=True)
    found = recorded_log.reading(settings, file)
    with log_factory.log(found) as log:
        backtest = Backtest(stages(found), log_factory.topics(found), found.updates, Score(sums=ContainerSums()))
        backtest.play(log)
        return backtest.score.part()


def _scored(name: str, part: PartialScore, side: str, prices: PriceList) -> PolicyScore:
    recorded = {each.workload: (each.cpu.seconds, each.memory.seconds) for each in part.totals("oracle")}
    found = figures(part.totals(side), recorded, prices)
    return PolicyScore(name, found, part.card() if side == "ours" else None)


ComparisonForm = Literal["table", "wide", "json", "yaml", "csv", "parquet", "md", "html"]


@dataclass(frozen=True, slots=True)
class PrintedComparison:
    """Sentences, a table for people, rows for programs, and everything as JSON."""

    said: Sequence[str]
    rows: Sequence[Row]
    exact: Sequence[Row]
    whole: object


def write(form: ComparisonForm, to: Path | None, what: PrintedComparison) -> None:
    """Print it, or write it into a file. Raises BadInput when that cannot be."""
    if form == "parquet":
        _parquet(to, what.exact)
        return
    if to is not None and form == "table":
        form = "wide"  # a file is no terminal
    lines = list(_lines(form, what))
    if to is None:
        for line in lines:
            data(line)
        return
    try:
        to.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"'{to}' cannot be written: {error.strerror}") from error
    note(f"written to {to}")


def _lines(form: ComparisonForm, what: PrintedComparison) -> Iterator[str]:
    match form:
        case "json":
            yield orjson.dumps(what.whole).decode()
        case "yaml":
            yield from output_table.document("yaml", what.whole)
        case "csv":
            yield from output_table.lines("csv", what.rows, what.exact)
        case "html":
            yield from html_table.lines("Policies compared", what.said, what.rows)
        case "md":
            yield from output_table.lines("md", what.rows, what.exact)
            yield ""
            for sentence in what.said:
                yield f"{sentence}  "
        case _:
            yield from output_table.fitted(form, what.said)
            yield from output_table.lines(
                "wide" if form == "wide" else "table", what.rows, what.exact, spare=comparison_table.SPARE
            )


def require_file(form: ComparisonForm, to: Path | None) -> None:
    """Raises BadInput for a binary form without a file, before any work is done."""
    if form == "parquet" and to is None:
        raise BadInput("Parquet is no text: give --fileoutput FILE.parquet")


def _parquet(to: Path | None, rows: Sequence[Row]) -> None:
    import duckdb

    require_file(form="parquet", to=to)
    with TemporaryDirectory(prefix="ullage-rows-") as folder:
        lines = Path(folder) / "rows.jsonl"
        lines.write_bytes(b"".join(orjson.dumps(dict(row)) + b"\n" for row in rows))
        source, target = (str(path).replace("'", "''") for path in (lines, to))
        copy = "COPY (SELECT * FROM read_json('SOURCE', format='newline_delimited')) TO 'TARGET' (FORMAT parquet)"
        try:
            with duckdb.connect() as db:
                db.execute(copy.replace("SOURCE", source).replace("TARGET", target))
        except (duckdb.Error, OSError) as error:
            raise BadInput(f"'{to}' cannot be written: {str(error).splitlines()[0]}") from error
    note(f"{len(rows)} rows written to {to}")


GATE = 3


@dataclass(frozen=True, slots=True)
class ComparisonFlags:
    """How to compare and what to print. `given` are the settings of the command line, `jobs` how many processes to score in."""

    given: tuple[str, ...]
    form: ComparisonForm
    to: Path | None
    prices: Path | None
    baseline: str = BASELINE
    jobs: int | None = None


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
    wanted = list(dict.fromkeys((flags.baseline, *policies, *SIDES)))
    prices = price_list.read(flags.prices)
    scores = _scores(settings, file, wanted, flags, prices)
    baseline = scores[0]
    differences = {score.name: difference(baseline, score) for score in scores[1:]}
    candidates = [score for text, score in zip(wanted, scores, strict=True) if text in policies and text not in SIDES]
    said = [*_about(baseline, prices), *_resolution(scores)]
    rows, exact = list(comparison_table.shown(scores, differences, prices)), list(comparison_table.workload_rows(scores))
    whole = comparison_table.as_object(scores, differences, prices)
    write(flags.form, flags.to, PrintedComparison(said, rows, exact, whole))
    crossed = [sentence for score in candidates for sentence in _crossed(score, differences.get(score.name), gates)]
    for sentence in crossed:
        note(sentence)
    return GATE if crossed else 0


def draw_frontier(settings: Settings, file: Path, policy: str, knob: str, flags: ComparisonFlags) -> int:
    """Print what is requested against what is risked, for values of a policy's setting and for upstream's margins."""
    prices = price_list.read(flags.prices)
    scores = _scores(settings, file, frontier.specs(policy, knob), flags, prices)
    said = [
        *_about(scores[1], prices)[:1],
        "requests are means over container time; CPU and memory against upstream's margin of 0.15",
    ]
    exact = list(comparison_table.workload_rows(scores))
    found = list(frontier.rows(scores))
    whole = {"frontier": found, **comparison_table.as_object(scores, {}, prices)}
    write(flags.form, flags.to, PrintedComparison([*said, *_resolution(scores)], found, exact, whole))
    return 0


def diff(settings: Settings, file: Path, policies: tuple[str, str], top: int, flags: ComparisonFlags) -> int:
    """Print the workloads that differ most between two policies."""
    if top < 1:
        raise BadInput(f"--top {top} shows nothing; give 1 or more")
    prices = price_list.read(flags.prices)
    one, two = _scores(settings, file, policies, flags, prices)
    rows = list(comparison_table.differing(one, two, top))
    total = difference(one, two)
    changed = f"cost {total.cost.estimate:+.1%}, OOM kills {total.kills.estimate:+.0f}, over {len(one.workloads)} workloads"
    said = [f"'{two.name}' against '{one.name}': {changed}; first those that differ most", f"prices: {prices}"]
    if not rows:
        said.append("no workload differs")
    exact = list(comparison_table.workload_rows([one, two]))
    whole = comparison_table.as_object([one, two], {two.name: total}, prices)
    write(flags.form, flags.to, PrintedComparison(said, rows, exact, whole))
    return 0


def _scores(
    settings: Settings, file: Path, policies: Sequence[str], flags: ComparisonFlags, prices: PriceList
) -> list[PolicyScore]:
    require_file(flags.form, flags.to)
    specs = policy_specs.read(policies, settings, flags.given)
    with stoppable():
        return run(file, specs, settings, prices, flags.jobs)


def _about(baseline: PolicyScore, prices: PriceList) -> list[str]:
    hours = baseline.total("container_hours")
    return [
        f"{len(baseline.workloads)} workloads, {hours / 24:,.1f} container-days; baseline '{baseline.name}'; prices: {prices}",
        f"intervals: 95 %, bootstrap over workloads, {DRAWS:,} draws; ~ marks a difference that may be chance",
    ]


def _resolution(scores: Sequence[PolicyScore]) -> list[str]:
    """What the recording hides: the same for every policy."""
    card = next((score.card for score in scores if score.card is not None), None)
    return [] if card is None else list(score_card.resolution_lines(card.resolution))


def _crossed(score: PolicyScore, against: PolicyDifference | None, gates: Gates) -> list[str]:
    found = []
    if gates.max_oom is not None and score.gated_kills > gates.max_oom:
        found.append(f"policy '{score.name}': {score.gated_kills} OOM kills are more than --max-oom {gates.max_oom}")
    if gates.max_regression is not None and against is not None and against.regression > gates.max_regression:
        found.append(
            f"policy '{score.name}': cost {against.cost.estimate:+.1%} and OOM kills {against.kills.estimate:+.0f} against "
            f"'{against.baseline}' are more than --max-regression {gates.max_regression:.0%}"
        )
    return found
