"""`ullage version`."""

from agents.processes.output import data


def version() -> None:
    """Print the versions of Ullage, Python, Faust and the two Kafka clients."""
    import platform
    from importlib import metadata

    data(f"ullage {number()}")
    data(f"python {platform.python_version()}")
    for name in ("faust-streaming", "aiokafka", "kafka-python"):
        data(f"{name} {metadata.version(name)}")


def number() -> str:
    """Ullage's own version."""
    from importlib import metadata

    return metadata.version("ullage")
