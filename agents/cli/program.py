"""The list of all commands, with an example for the help of each, and how far each part is. Each imports only when it runs.

A part is stable, beta, or alpha, which is off until somebody asks for it; README and the chart say the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cyclopts import App, Group, Parameter

from agents.cli import (
    backtest,
    checkpoints,
    demo,
    mode,
    past,
    policy,
    processes,
    recommendations,
    settings,
    source,
    status,
    topics,
)

EXAMPLES: Mapping[str, str] = {
    "backtest": "ullage backtest usage.csv --policy team.py --max-oom 0",
    "broker": "ullage broker --data ~/ullage-kafka",
    "checkpoints": "ullage checkpoints show",
    "config": "ullage config show --origin",
    "consumer": "ullage consumer resizer --set cluster.in_cluster=true",
    "demo": "ullage demo --seconds 30",
    "diff": "ullage diff built-in team.py --data usage.csv",
    "doctor": "ullage doctor --brokers kafka:9092",
    "export": "ullage export incident.parquet --from 2h",
    "history": "ullage history shop/Deployment/web --from 7d",
    "import": "ullage import incident.parquet --to incident.jsonl",
    "mode": "ullage mode plan --reason 'a look before we leap'",
    "pause": "ullage pause --reason 'black friday'",
    "plan": "ullage plan -o json",
    "policy": "ullage policy set 'prod/ci/Job/*' --mode Off",
    "recommendations": "ullage recommendations --limit 20",
    "record": "ullage record incident.parquet --for 10m",
    "replay": "ullage replay --verify",
    "report": "ullage report report.html --from 7d",
    "resume": "ullage resume",
    "revert": "ullage revert 'shop/*' --since 2h",
    "run": "ullage run clock worker source-kube source-usage",
    "scan": "ullage scan --namespace shop",
    "settings": "ullage settings plan --set updates.budget=0.05",
    "simulate": "ullage simulate docs/scenarios/rush.yaml",
    "source": "ullage source kube --set cluster.in_cluster=true",
    "status": "ullage status",
    "tap": "ullage tap pod-updates --last 20",
    "timeline": "ullage timeline --from 1h --namespace shop",
    "topics": "ullage topics plan",
    "up": "ullage up",
    "version": "ullage version",
    "why": "ullage why shop/web-7c5d8-x2x4z",
    "why-not": "ullage why-not shop/web-7c5d8-x2x4z",
    "worker": "ullage worker --set metrics.port=9102",
}


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
    Part("replicas ahead of load", "alpha, off until its consumers are started", ("source", "consumer"), "replicaScaling"),
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


app = App(
    name="ullage",
    help="An event-sourced autoscaler for Kubernetes: every decision can be explained, replayed and tested on yesterday's data.",
    version_flags=["--version"],
    version=status.number,
    help_format="markdown",
    # no `--no-...` beside a flag unless it asks for one, and no default that says nothing
    default_parameter=Parameter(negative=(), show_default=lambda value: value or None),
)
_GROUPS: Mapping[str, tuple[App | Callable[..., object], ...]] = {
    "Look without installing": (demo.demo, demo.up, recommendations.scan, backtest.backtest, backtest.diff, demo.simulate),
    "Processes": (processes.run, processes.worker, source.app, processes.consumer, processes.broker),
    "Say what may happen": (mode.mode, mode.pause, mode.resume, mode.revert, policy.app, settings.app),
    "Ask what happens": (
        *(
            status.status,
            status.plan,
            recommendations.recommendations,
            past.why,
            past.why_not,
            past.timeline,
        ),
        *(past.history, past.tap, past.report),
    ),
    "The log": (topics.app, past.replay, past.export, past.record, checkpoints.app),
    "The installation": (status.doctor, settings.config_app, status.version),
}


def _example(name: str) -> str:
    example = f"Example: `{EXAMPLES[name]}`"
    return f"{example}\n\n{TEXTS[name]}" if name in TEXTS else example


for number, (title, commands) in enumerate(_GROUPS.items()):
    group = Group(title, sort_key=number)
    for command in commands:
        if isinstance(command, App):
            # the manual, unlike `--help`, does not take it from the parent
            command.default_parameter = app.default_parameter
            command.group, command.help_epilogue = (group,), _example(command.name[0])
            app.command(command)
        else:
            # a function has no hyphen in its name, and a command may have
            app.command(command, group=group, help_epilogue=_example(command.__name__.replace("_", "-")))
# `import` is a word of Python, so no function can have the command's name
app.command(past.import_, name="import", group="The log", help_epilogue=_example("import"))
app.register_install_completion_command(help="Let this shell complete commands and flags.", group="The installation")
