"""The commands, listed once. Each stands in a file of its own and imports what it needs only when it runs."""

from cyclopts import App

from agents.cli import broker, config, doctor, tap, version

app = App(
    name="ullage",
    help="An event-sourced autoscaler for Kubernetes: every decision can be explained, replayed and tested on yesterday's data.",
    version_flags=["--version"],
    version=version.number,
    help_format="markdown",
)
for command in (broker.broker, tap.tap, config.app, doctor.doctor, version.version):
    app.command(command)
