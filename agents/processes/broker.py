"""Runs `ullage broker`: a real Apache Kafka on this machine, until stopped."""

import time
from pathlib import Path

from agents.processes.signals import until_stopped
from agents.terminal.output import data, note
from streams.broker import Broker, BrokerSettings
from streams.errors import LogUnavailable


def run(*, port: int, folder: Path | None, heap_mb: int) -> None:
    """Keep Kafka running, and print its HOST:PORT once it answers. Raises LogUnavailable when it ends by itself."""
    with until_stopped(), Broker(BrokerSettings(data=folder, port=port, heap_mb=heap_mb), progress=note) as kafka:
        data(kafka.bootstrap)
        note(f"Kafka answers on {kafka.bootstrap}; data in {kafka.data}; Ctrl-C ends it")
        while kafka.running:
            time.sleep(0.2)
        # a broker that ends by itself is a failure, whatever its exit code
        raise LogUnavailable(f"Kafka ended by itself; see {kafka.log}")
