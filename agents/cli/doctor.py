"""`ullage doctor`: is everything here that Ullage needs, and if not, what to do."""

from agents.cli.options import CommonOptions, given


def doctor(*, common: CommonOptions | None = None) -> int:
    """Check Python, Java, Kafka's jars, the broker, the topics, the disk and the settings; each line says what to do.

    Exits with 1 when something failed. Changes nothing.
    """
    from agents.inspect import doctor as command

    return command.run(given(common).settings)
