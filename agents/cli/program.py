"""The list of all commands. Each imports what it needs only when it runs."""

from collections.abc import Callable, Mapping

from cyclopts import App, Group, Parameter

from agents.cli import (
    backtest,
    checkpoints,
    demo,
    doctor,
    incident,
    looking_back,
    mode,
    policy,
    processes,
    recommendations,
    replay,
    scan,
    settings,
    source,
    status,
    topics,
    why,
)
from agents.cli.help_texts import EXAMPLES, TEXTS

app = App(
    name="ullage",
    help="An event-sourced autoscaler for Kubernetes: every decision can be explained, replayed and tested on yesterday's data.",
    version_flags=["--version"],
    version=doctor.number,
    help_format="markdown",
    # no `--no-...` beside a flag unless it asks for one, and no default that says nothing
    default_parameter=Parameter(negative=(), show_default=lambda value: value or None),
)
_GROUPS: Mapping[str, tuple[App | Callable[..., object], ...]] = {
    "Look without installing": (demo.demo, demo.up, scan.scan, backtest.backtest, backtest.diff, demo.simulate),
    "Processes": (processes.run, processes.worker, source.app, processes.consumer, processes.broker),
    "Say what may happen": (mode.mode, mode.pause, mode.resume, mode.revert, policy.app, settings.app),
    "Ask what happens": (
        *(status.status, status.plan, recommendations.recommendations, why.why, why.why_not, looking_back.timeline),
        *(looking_back.history, looking_back.tap, looking_back.report),
    ),
    "The log": (topics.app, replay.replay, incident.export, incident.record, checkpoints.app),
    "The installation": (doctor.doctor, settings.config_app, doctor.version),
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
            app.command(command, group=group, help_epilogue=_example(command.__name__.replace("_", "-")))
# `import` is a word of Python, so no function can have the command's name
app.command(incident.import_, name="import", group="The log", help_epilogue=_example("import"))
app.register_install_completion_command(help="Let this shell complete commands and flags.", group="The installation")
