"""The commands, listed once. Each stands in a file of its own and imports what it needs only when it runs."""

from cyclopts import App, Parameter

from agents.cli import (
    backtest,
    broker,
    checkpoints,
    config,
    consumer,
    demo,
    doctor,
    incident,
    mode,
    pause,
    plan,
    policy,
    recommendations,
    replay,
    revert,
    settings,
    source,
    status,
    tap,
    topics,
    version,
    why,
    why_not,
    worker,
)

app = App(
    name="ullage",
    help="An event-sourced autoscaler for Kubernetes: every decision can be explained, replayed and tested on yesterday's data.",
    version_flags=["--version"],
    version=version.number,
    help_format="markdown",
    default_parameter=Parameter(negative=(), show_default=lambda value: value or None),
)
for command in (
    demo.demo,
    broker.broker,
    topics.app,
    worker.worker,
    source.app,
    consumer.consumer,
    policy.app,
    settings.app,
    checkpoints.app,
    mode.mode,
    pause.pause,
    pause.resume,
    plan.plan,
    revert.revert,
    recommendations.recommendations,
    status.status,
    tap.tap,
    replay.replay,
    incident.export,
    incident.record,
    backtest.backtest,
    why.why,
    why_not.why_not,
    doctor.doctor,
    config.app,
    version.version,
):
    app.command(command)
app.command(incident.import_, name="import")
