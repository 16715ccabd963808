"""`ullage broker`: run a real Apache Kafka on this machine until Ctrl-C."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def broker(
    *,
    port: Annotated[int, Parameter(help="The port to listen on (loopback only); 0 takes any free one.")] = 9092,
    data: Annotated[Path | None, Parameter(help="The data folder, kept; without it a throw-away one.")] = None,
    heap: Annotated[int, Parameter(help="Java heap in MB.")] = 512,
) -> None:
    """Start a real Apache Kafka (one node, loopback, no Docker) and keep it until Ctrl-C.

    The first start fetches 38 MB of jars, checked against pinned hashes. When Kafka answers, its HOST:PORT is printed.
    """
    from agents.processes import broker as process

    process.run(port=port, folder=data, heap_mb=heap)
