"""`ullage broker`: a real Apache Kafka on this machine until Ctrl-C."""

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
    import time

    from agents.processes.output import data as out
    from agents.processes.output import note
    from agents.processes.signals import until_stopped
    from streams.broker import Broker, BrokerSettings
    from streams.errors import LogUnavailable

    with until_stopped(), Broker(BrokerSettings(data=data, port=port, heap_mb=heap), say=note) as kafka:
        out(kafka.bootstrap)
        note(f"Kafka answers on {kafka.bootstrap}; data in {kafka.data}; Ctrl-C ends it")
        while kafka.running:
            time.sleep(0.2)
        raise LogUnavailable(f"Kafka ended by itself; see {kafka.log}")
