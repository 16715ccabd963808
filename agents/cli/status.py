"""`ullage status`, `plan`, `doctor` and `version`: is every part at work, what would be done now, and is everything there?"""

from agents.cli.options import At, CommonOptions, OutputOption, TextOutputOption, given
from agents.terminal.output import data


def status(*, output: OutputOption = "table", common: CommonOptions | None = None) -> None:
    """Print a line for the clock and each cluster, source, stage and consumer: is it at work, or what does it wait for?

    A line that somebody should look at is marked with `!`. Counts are of the last hour of event time, dead letters of the last
    day. Reads the end of the log only, however long the log is.
    """
    from agents.commands.status import status as command

    command.run(given(common).settings(), output)


def plan(*, output: TextOutputOption = "table", at: At = None, common: CommonOptions | None = None) -> None:
    """Say what would be done now: pods resized, restarted and left alone, nodes that come and go, and why. Reads the log only."""
    from agents.commands.past import plan as command

    command.run(given(common).settings(log__at=at), form=output)


def doctor(*, output: OutputOption = "table", common: CommonOptions | None = None) -> int:
    """Check Python, Java, Kafka's jars, broker, topics, disk, settings and the cluster; each line says what to do.

    Of the cluster: whether it answers, what each component may do there, CRDs, metrics API, webhook, clock, its name in the log.
    Exits with 1 when something failed. Changes nothing.
    """
    from agents.commands.health import doctor as command

    return command.run(given(common).settings, output)


def version(*, output: OutputOption = "table") -> None:
    """Print the versions of Ullage, Python, Faust and the two Kafka clients."""
    # imported here: no other command needs them, and each start would pay
    import platform
    from importlib import metadata

    from agents.terminal import output_table

    versions = {"ullage": number(), "python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in ("faust-streaming", "aiokafka", "kafka-python")}
    if output not in output_table.PEOPLE:
        output_table.print_rows(output, [{"name": name, "version": version} for name, version in versions.items()])
        return
    for name, version in versions.items():
        data(f"{name} {version}")


def number() -> str:
    """Ullage's own version."""
    from importlib import metadata

    return metadata.version("ullage")
