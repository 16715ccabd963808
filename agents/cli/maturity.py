"""How far each part is, for README, `--help` and the chart: stable, beta, or alpha, which is off until somebody asks for it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """`commands` say its state in their help; `value` is what asks for it in the chart, empty for what the chart does not ask."""

    name: str
    state: str
    commands: tuple[str, ...]
    value: str = ""


PARTS = (
    Part(
        "`scan`, `backtest`, `why`, `replay`, the recommender in shadow",
        "beta",
        ("scan", "backtest", "diff", "why", "why-not", "replay", "recommendations"),
    ),
    Part(
        "changing pods: resizer, evictor, webhook", "alpha, off until `ullage mode apply`", ("mode", "revert", "consumer"), "mode"
    ),
    Part("policies as code", "beta", ("policy",)),
    Part("the policy `adaptive`", "alpha, off until a setting, a policy or an annotation names it", ()),
    Part(
        "replicas ahead of load",
        "alpha, off until its consumers are started",
        ("source", "consumer"),
        "replicaScaling",
    ),
    Part("node groups on AWS", "alpha, off until its source and consumer are started", ("source", "consumer"), "nodeScaling"),
)
"""Each state's evidence is beside it in README."""


def _texts() -> Mapping[str, str]:
    texts = dict[str, list[str]]()
    for part in PARTS:
        for command in part.commands:
            texts.setdefault(command, []).append(f"{part.name}: {part.state}")
    return {command: f"State of {'; '.join(states)}." for command, states in texts.items()}


TEXTS = _texts()
"""What the help of a command says, by its name."""
