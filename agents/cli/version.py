"""`ullage version`: print the versions of Ullage and of what it runs on."""

from agents.cli.options import OutputOption
from agents.terminal.output import data


def version(*, output: OutputOption = "table") -> None:
    """Print the versions of Ullage, Python, Faust and the two Kafka clients."""
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
