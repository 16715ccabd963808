"""`ullage doctor`: check whether everything that Ullage needs is present, and say what to do if not."""

from agents.cli.options import CommonOptions, OutputOption, given


def doctor(*, output: OutputOption = "table", common: CommonOptions | None = None) -> int:
    """Check Python, Java, Kafka's jars, broker, topics, disk, settings and the cluster; each line says what to do.

    Of the cluster: whether it answers, what each component may do there, CRDs, metrics API, webhook, clock, its name in the log.
    Exits with 1 when something failed. Changes nothing.
    """
    from agents.commands.health import doctor as command

    return command.run(given(common).settings, output)
