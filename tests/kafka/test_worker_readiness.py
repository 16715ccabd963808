"""When a worker says that it is ready, on a real Kafka."""

from collections.abc import Callable
from pathlib import Path
from urllib import request
from urllib.error import URLError

from streams.broker.preflight import free_ports
from streams.topics import Topics
from tests.support.commands import Commands


def ready(port: int) -> bool:
    try:
        with request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return int(answer.status) == 200
    except (URLError, OSError):
        return False


def test_workers_are_ready_in_a_log_without_ticks_also_after_a_rebalance(
    broker: str, topics_made: Callable[..., Topics], tmp_path: Path
) -> None:
    """The rules are the only records. Nothing follows them, so a partition that stays must be given them again."""
    ports = free_ports(2)
    site = Commands(broker, topics_made(partitions=2), tmp_path)
    try:
        for name, port in zip(("first", "second"), ports, strict=True):
            site.told = {"METRICS__PORT": str(port)}
            site.start(name, "worker")
            site.wait(lambda port=port: ready(port), 60, f"the {name} worker is ready\n{site.said(name)}")
        site.wait(lambda: all(ready(port) for port in ports), 60, "both are ready")
    finally:
        site.close()
