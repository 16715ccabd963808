"""What is requested against what is risked: a policy with several values of one of its settings, beside upstream's margins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agents.backtest.policy_comparison import PolicyScore
from agents.terminal.output_table import Row
from streams.errors import BadInput

MARGINS = (0.0, 0.15, 0.3, 0.6)
"""Upstream's `recommendation-margin-fraction` beside which a policy is drawn; 0.15 is its default."""


def specs(policy: str, knob: str) -> list[str]:
    """The policies to compare, as `backtest --policy` names them. `knob`: `vertical.risk_cpu=0.01,0.05`. Raises BadInput."""
    name, equals, listed = knob.partition("=")
    values = [value.strip() for value in listed.split(",") if value.strip()]
    if not equals or len(values) < 2 or len(set(values)) < len(values):  # noqa: PLR2004  # a line has two ends
        raise BadInput(f"--frontier '{knob}' is no setting with several values: give vertical.risk_cpu=0.01,0.02,0.05")
    decides = "" if policy in {"default", ""} else f",vertical.policy={policy}"
    margins = [f"upstream, margin {margin:g}:vertical.margin={margin:g},updates.profile=upstream" for margin in MARGINS]
    return [*margins, *(f"{name} {value}:{name.strip()}={value}{decides}" for value in values)]


def rows(scores: Sequence[PolicyScore]) -> Iterator[Row]:
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


def points(scores: Sequence[PolicyScore]) -> list[FrontierPoint]:
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
