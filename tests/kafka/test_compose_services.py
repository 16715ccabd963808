"""The services of docker-compose.yml that run our program, started by their own commands and settings, in the order of the file.

There is no Docker engine here, so the images, networks and volumes are not tried; Kafka is the embedded one, on another address.
"""

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.broker.preflight import free_ports
from streams.topics import Topics
from tests.support.commands import ROOT, Commands

OURS = ("ULLAGE_LOG__BROKERS", "ULLAGE_TOPICS__PARTITIONS")
"""Settings that a test has others for."""


def in_order(services: Mapping[str, Any], profile: str) -> list[str]:
    """Our services without a profile or with this one, each after those that it depends on."""
    mine = [name for name, of in services.items() if "build" in of and set(of.get("profiles", [])) <= {profile}]
    order: list[str] = []
    while len(order) < len(mine):
        order.append(next(n for n in mine if n not in order and {*services[n]["depends_on"], *order} & {*mine} <= {*order}))
    return order


@pytest.mark.timeout(400)
def test_the_demos_services_start_in_order_and_show_what_goes_in_and_out(broker: str, prefix: str, tmp_path: Path) -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    order = in_order(services, "demo")
    assert order == ["topics", "clock", "worker", "cluster", "consumer"]
    (port,) = free_ports(1)
    commands = Commands(broker, Topics(prefix, int(services["worker"]["environment"]["ULLAGE_TOPICS__PARTITIONS"])), tmp_path)

    def run(name: str, *words: str) -> str:
        commands.start(name, *words)
        commands.wait(lambda: commands.running[name].poll() == 0, 90, f"the end of `ullage {' '.join(words)}`")
        return (tmp_path / f"{name}.log").read_text()

    try:
        for service in order:
            told = services[service]["environment"]
            commands.told = {name.removeprefix("ULLAGE_"): value for name, value in told.items() if name not in OURS}
            commands.told["METRICS__PORT"] = "0"
            words = [word.replace("8899", str(port)) for word in services[service]["command"]]
            if services[service].get("restart") == "no":
                run(service, *words)
                continue
            for number in range(services[service].get("deploy", {}).get("replicas", 1)):
                commands.start(f"{service}-{number}", *words)
        commands.told = {}
        commands.wait(lambda: listens(port), 60, "an answer of the simulated cluster")
        for topic in ("pod-metrics", "pod-changes", "node-group-changes"):
            shown = run(f"tap-{topic}", "tap", topic, "--from", "begin", "--follow", "--limit", "1", "-o", "jsonl")
            assert json.loads(shown.splitlines()[0])["value"]["cluster" if topic != "pod-changes" else "workload"]
        assert "apply" in run("mode", "mode", "apply", "--reason", "let us see")
        run("outcome", "tap", "outcomes", "--from", "begin", "--follow", "--limit", "1", "-o", "jsonl")
        assert "recommender" in run("tables", "checkpoints", "tables")
        assert "every decision is as published" in run("replay", "replay", "--verify")
    finally:
        commands.close()


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
