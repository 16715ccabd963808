"""Runs `ullage backtest --policy` and `ullage diff`: policies over one recording, side by side, with gates.

With `--frontier` it draws what is requested against what is risked: a policy with several values of one of its settings, beside
upstream's margins. The nearer a point lies to the lower left, the better; where one line lies below and left of the other, its
policy requests less at the same risk.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from xml.sax.saxutils import escape

from agents.backtest import price_list, score_card
from agents.backtest.policy_comparison import DRAWS, FEW, PolicyDifference, PolicyScore, difference
from agents.backtest.price_list import PriceList
from agents.commands.compare import backtested_policies, comparison_output
from agents.commands.compare.backtested_policies import BASELINE, SIDES
from agents.commands.compare.comparison_output import ComparisonForm, PrintedComparison
from agents.processes.signals import stoppable
from agents.settings import setting_texts
from agents.settings.all_settings import Settings
from agents.terminal.output import note
from agents.terminal.output_table import Row
from schemas.units import counted
from streams.errors import BadInput

MARGINS = (0.0, 0.15, 0.3, 0.6)
"""Upstream's `recommendation-margin-fraction` beside which a policy is drawn; 0.15 is its default."""


def frontier_specs(policy: str, knob: str) -> list[str]:
    """The policies to compare, as `backtest --policy` names them. `knob`: `vertical.risk_cpu=0.01,0.05`. Raises BadInput."""
    name, equals, listed = knob.partition("=")
    values = [value.strip() for value in listed.split(",") if value.strip()]
    if not equals or len(values) < 2 or len(set(values)) < len(values):  # noqa: PLR2004  # a line has two ends
        raise BadInput(f"--frontier '{knob}' is no setting with several values: give vertical.risk_cpu=0.01,0.02,0.05")
    # else the setting of one policy would be turned while another one decides
    decides = "" if policy in {"default", ""} else f",vertical.policy={policy}"
    margins = [f"upstream, margin {margin:g}:vertical.margin={margin:g},updates.profile=upstream" for margin in MARGINS]
    return [*margins, *(f"{name} {value}:{name.strip()}={value}{decides}" for value in values)]


def frontier_rows(scores: Sequence[PolicyScore]) -> Iterator[Row]:
    """A row for each: requests in cores and GiB, and against upstream's with its default margin; what was risked by them.

    `beaten by` names one that requests less of both and risks no more, if there is one.
    """
    base = next(score for score in scores if score.name.endswith(f"margin {MARGINS[1]:g}"))
    figures = {score.name: _figures(score) for score in scores}
    for score in scores:
        cores, size, over, kills = figures[score.name]
        others = ((name, other) for name, other in figures.items() if name != score.name)
        better = [name for name, other in others if all(a <= b for a, b in zip(other, figures[score.name], strict=True))]
        hours = score.total("container_hours") or 1.0
        yield {
            "policy": score.name,
            "cores": f"{cores / hours:.3f}",
            "CPU": _against(cores, base.total("cpu_requested")),
            "GiB": f"{size / hours:.3f}",
            "memory": _against(size, base.total("memory_requested")),
            "cpu over": f"{over:.2%}",
            "OOM kills": round(kills),
            "beaten by": better[0] if better else "",
        }


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One policy in the picture: requests as a share of upstream's, the share of time short of CPU, kills a container-day."""

    name: str
    is_upstream: bool
    cpu: float
    memory: float
    over: float
    kills: float


def frontier_points(scores: Sequence[PolicyScore]) -> list[FrontierPoint]:
    """A point for each policy, in the order in which they were asked for."""
    base = next(score for score in scores if score.name.endswith(f"margin {MARGINS[1]:g}"))
    cpu, memory = (base.total(f"{resource}_requested") or 1.0 for resource in ("cpu", "memory"))
    points = []
    for score in scores:
        cores, size, over, kills = _figures(score)
        days = (score.total("container_hours") or 1.0) / 24
        upstream = score.name.startswith("upstream")
        label = score.name.rpartition(" ")[2]  # the margin, or the setting's value
        points.append(FrontierPoint(label, upstream, cores / cpu, size / memory, over, kills / days))
    return points


def _figures(score: PolicyScore) -> tuple[float, float, float, float]:
    hours = score.total("container_hours") or 1.0
    over = sum(workload.cpu_over * workload.container_hours for workload in score.workloads.values()) / hours
    return score.total("cpu_requested"), score.total("memory_requested"), over, score.total("kills")


def _against(amount: float, base: float) -> str:
    return f"{amount / base:.2f}" if base else "-"


_WIDTH, _HEIGHT, _PANEL = 880, 360, 360
_TOP, _BOTTOM = 70, 290
_LEFTS = (70, 500)
_TICKS = 4
_STYLE = """
:root { --ink: #1f2328; --faint: #59636e; --grid: #d1d9e0; --paper: #ffffff; --policy: #0969da; --upstream: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --ink: #f0f6fc; --faint: #9198a1; --grid: #3d444d; --paper: #0d1117;
  --policy: #4493f8; --upstream: #d29922; } }
text { font: 12px system-ui, sans-serif; fill: var(--faint); } .title { font-size: 15px; font-weight: 600; fill: var(--ink); }
.grid { stroke: var(--grid); } .policy { stroke: var(--policy); } .upstream { stroke: var(--upstream); }
polyline { fill: none; stroke-width: 2; } circle { stroke-width: 2; fill: var(--paper); }
"""
_Of = Callable[[FrontierPoint], float]


def frontier_picture(recording: str, points: Sequence[FrontierPoint], knob: str, policy: str) -> str:
    """The picture. `knob` is the setting whose values are the points of `policy`."""
    title = f"Requested against risked on {recording}: {policy} by {knob}, beside upstream by its margin"
    panels = (
        ("CPU requested, upstream's is 1", "time with more CPU used than requested, %", lambda p: p.cpu, lambda p: 100 * p.over),
        ("memory requested, upstream's is 1", "OOM kills a container and day", lambda p: p.memory, lambda p: p.kills),
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="title">',
            f'<title id="title">{escape(title)}</title>',
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="var(--paper)"/>',
            f'<text class="title" x="{_LEFTS[0]}" y="30">{escape(title)}</text>',
            *(part for left, panel in zip(_LEFTS, panels, strict=True) for part in _panel(left, points, panel)),
            f'<text x="{_LEFTS[0]}" y="{_HEIGHT - 14}"><tspan fill="var(--policy)">● {escape(policy)}</tspan>',
            '<tspan dx="16" fill="var(--upstream)">● upstream</tspan></text>',
            "</svg>",
        ]
    )


def _panel(left: int, points: Sequence[FrontierPoint], panel: tuple[str, str, _Of, _Of]) -> list[str]:
    """Axes with numbers, and a line through the points of each side, each with its value beside it."""
    across, up, x, y = panel
    least, most = min(map(x, points)), max(map(x, points))
    # points that lie together would leave the axis without a length
    room = max((most - least) * 0.1, 0.01)
    least, most, highest = least - room, most + room, max(max(map(y, points)) * 1.1, 1e-9)

    def place(point: FrontierPoint) -> tuple[float, float]:
        return left + _PANEL * (x(point) - least) / (most - least), _BOTTOM - (_BOTTOM - _TOP) * y(point) / highest

    parts = [f'<text x="{left}" y="{_TOP - 14}">{escape(up)}</text>']
    parts.append(f'<text x="{left + _PANEL}" y="{_BOTTOM + 36}" text-anchor="end">{escape(across)}</text>')
    for tick in range(_TICKS + 1):
        share = tick / _TICKS
        level, column = _BOTTOM - (_BOTTOM - _TOP) * share, left + _PANEL * share
        parts.append(f'<path class="grid" d="M{left} {level:.1f}H{left + _PANEL}"/>')
        parts.append(f'<text x="{left - 8}" y="{level + 4:.1f}" text-anchor="end">{highest * share:.3g}</text>')
        parts.append(
            f'<text x="{column:.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{least + (most - least) * share:.2f}</text>'
        )
    for name in ("upstream", "policy"):
        side = [point for point in points if point.is_upstream == (name == "upstream")]
        line = " ".join("{:.1f},{:.1f}".format(*place(point)) for point in side)
        parts.append(f'<polyline class="{name}" points="{line}"/>')
        for point in side:
            cx, cy = place(point)
            parts.append(f'<circle class="{name}" cx="{cx:.1f}" cy="{cy:.1f}" r="4"/>')
            parts.append(f'<text x="{cx + 8:.1f}" y="{cy - 6:.1f}">{escape(point.name)}</text>')
    return parts


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
    scores = _scores(settings, file, frontier_specs(policy, knob), flags, prices)
    sentences = [
        *_about(scores[1], prices)[:1],
        "requests are means over container time; CPU and memory against upstream's margin of 0.15",
    ]
    exact = list(comparison_output.workload_rows(scores))
    rows = list(frontier_rows(scores))
    recording = file.parent.name if file.name == "usage.parquet" else file.stem
    picture = frontier_picture(recording, frontier_points(scores), knob.partition("=")[0].strip(), policy)
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
    rows = list(comparison_output.differing(first, second, top, prices.currency))
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
    specs = backtested_policies.read(policies, settings, flags.given)
    if flags.form != "parquet" or flags.to is None or flags.rows == "workload":
        with stoppable():
            return backtested_policies.run(file, specs, settings, prices, flags.jobs)
    with TemporaryDirectory(prefix="ullage-samples-") as folder:
        with stoppable():
            # a sample a row is too much for memory, so each policy writes its own parts as it goes
            scores = backtested_policies.run(file, specs, settings, prices, flags.jobs, Path(folder))
        comparison_output.samples(Path(folder), flags.to)
        return scores


def _about(baseline: PolicyScore, prices: PriceList) -> list[str]:
    hours, workloads = baseline.total("container_hours"), len(baseline.workloads)
    few = f"; of {counted(workloads, 'workload')} they are too narrow" if workloads < FEW else ""
    return [
        f"{counted(workloads, 'workload')}, {hours / 24:,.1f} container-days; baseline '{baseline.name}'; prices: {prices}",
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
