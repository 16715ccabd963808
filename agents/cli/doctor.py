"""`ullage doctor`: is everything here that Ullage needs, and if not, what to do."""

from agents.cli.options import CommonOptions, given


def doctor(*, common: CommonOptions | None = None) -> int:
    """Check Python, Java, Kafka's jars, the broker, the topics, the disk and the settings; each line says what to do.

    Exits with 1 when something failed. Changes nothing.
    """
    from agents.inspect import doctor as checkup
    from agents.processes.output import data

    failed = False
    for result in checkup.all_checks(given(common).settings):
        data(f"{result.level:<4}  {result.name:<9} {result.said}")
        if result.fix:
            data(f"                {result.fix}")
        failed |= result.level == "fail"
    return int(failed)
