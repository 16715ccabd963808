"""docs/first-hour.md, run command by command on the real control plane. The page is the script: there is no other.

The plane's nodes run no containers, so what the chart would start is started here as processes; all else is as the page says.
The namespace `shop` of the page is one of the test's own, and the brokers are the session's.
"""

import os
import re
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import pytest

from schemas.outcomes import ActionFinished
from streams.codec.event_codec import Codec
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_range import read_range
from streams.topics import Topics
from tests.controlplane import audit_judge, build
from tests.controlplane.conftest import started
from tests.controlplane.plane import Plane, free_ports
from tests.controlplane.webhook_replicas import CONFIGURATION
from tests.controlplane.world import World
from tests.support.commands import ROOT, Commands

PAGE = ROOT / "docs/first-hour.md"
BINARIES = ROOT / ".venv/bin"
BOX = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WATCHING = {"clock": ("source", "clock"), "kube": ("source", "kube"), "usage": ("source", "usage"), "worker": ("worker",)}
QUICK = {
    "USAGE__INTERVAL_SECONDS": "1",
    "VERTICAL__INTERVAL": "1",
    "UPDATES__INTERVAL": "2",
    "UPDATES__LIFETIME": "0",
    "UPDATES__WARM_UP": "0",
    "UPDATES__COOL_DOWN": "3",
}
"""An hour in a minute: what the page lets people wait for."""


class Hour:
    """The page's commands, box by box, in one shell's environment; `said` is what the last box printed."""

    def __init__(self, plane: Plane, world: World, commands: Commands, folder: Path) -> None:
        self.world, self.commands, self.said = world, commands, ""
        self._boxes = iter(BOX.findall(PAGE.read_text(encoding="utf-8")))
        self._environment = {
            "PATH": f"{BINARIES}:{build.helm().parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "KUBECONFIG": str(plane.kubeconfig),
            "BROKERS": commands.broker,
            "ULLAGE_TOPICS__PREFIX": commands.topics.prefix,
            "ULLAGE_TOPICS__PARTITIONS": str(commands.topics.partitions),
            "ULLAGE_WORKER__NAME": commands.topics.prefix,
            **{f"ULLAGE_{name}": value for name, value in QUICK.items()},
        }

    def box(self) -> str:
        """Run the next box; every command must do its part."""
        script = next(self._boxes)
        script = re.sub(r"\bshop\b(?=[/ ']|$)", self.world.namespace, script, flags=re.MULTILINE)
        ended = subprocess.run(
            ["bash", "-ec", f"{script}\nenv -0 > $HOME/environment"],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ended.returncode == 0, f"{script}\n{ended.stdout}\n{ended.stderr}"
        kept = (Path(self._environment["HOME"]) / "environment").read_text().split("\0")
        self._environment = dict(variable.split("=", 1) for variable in kept if "=" in variable)
        self.said = ended.stdout
        return self.said

    def over(self) -> bool:
        return next(self._boxes, None) is None

    def requests(self) -> set[str]:
        """What the pods' containers request of CPU now."""
        return {pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in self.world.pods("web")}


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """A plane of its own, for Helm takes over nothing that others have made."""
    yield from started(request)


@pytest.fixture
def hour(plane: Plane, world: World, broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> Iterator[Hour]:
    if not build.helm().is_file():
        pytest.skip("there is no Helm: python tests/controlplane/build.py helm builds it")
    told = {
        "CLUSTER__NAME": "prod",
        "CLUSTER__KUBECONFIG": str(plane.kubeconfig),
        "CLUSTER__NAMESPACES": world.namespace,
        **QUICK,
    }
    commands = Commands(broker, topics_made(partitions=2), tmp_path, told)
    made = Hour(plane, world, commands, tmp_path)
    yield made
    commands.close()
    helm = [str(build.helm()), "uninstall", "ullage", "--namespace", "ullage", "--ignore-not-found"]
    subprocess.run(helm, env={"KUBECONFIG": str(plane.kubeconfig), "HOME": str(tmp_path)}, check=False, capture_output=True)


@pytest.mark.timeout(600)
def test_the_page_does_what_it_says(hour: Hour, plane: Plane, world: World) -> None:
    world.deployment("web", {"app": {"requests": {"cpu": "1", "memory": "1Gi"}}}, replicas=2)
    stop = threading.Event()
    threading.Thread(target=_measure, args=(plane, world, stop), daemon=True).start()
    try:
        _go_through(hour)
    finally:
        stop.set()
    assert hour.over()
    done = _done(hour)
    assert audit_judge.faults(plane.at.audit, world.namespace, done, ["ullage"]) == []


def _go_through(hour: Hour) -> None:
    assert "ullage-worker" in hour.box()
    for name, words in WATCHING.items():
        hour.commands.start(name, *words)
    hour.commands.wait(lambda: hour.requests() == {"1"}, 30, "the pods run")
    _wait_for_figures(hour)
    assert "at work" in hour.box()
    assert "Deployment/web" in hour.box()
    assert "would be" in hour.box()
    hour.box()
    port, health = free_ports(2)
    at = ("webhook.host=127.0.0.1", f"webhook.port={port}", f"webhook.url=https://127.0.0.1:{port}/", f"metrics.port={health}")
    hour.commands.start("webhook", "consumer", "webhook", *(word for each in at for word in ("--set", each)))
    hour.commands.wait(lambda: _ready(health) and hour.world.ask.find(CONFIGURATION), 60, "the webhook is ready and registered")
    assert "successfully rolled out" in hour.box()
    assert "1" not in hour.requests(), "new pods get what is recommended"
    for name in ("resizer", "evictor"):
        hour.commands.start(name, "consumer", name)
    hour.commands.wait(lambda: _done(hour), 60, "an outcome says so")
    assert "patch" in hour.box()
    assert hour.box().endswith("apply, 10% of the pods at one time\n") or "PAUSED" in hour.said
    hour.box()
    hour.commands.wait(lambda: hour.requests() == {"1"}, 90, "the pods have back what they had")
    hour.commands.wait(lambda: len(_done(hour)) >= 2 * 2, 30, "an outcome says of both that they were resized, and put back")
    assert hour.box().count("Running") == 2


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:  # a process of this test
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def _wait_for_figures(hour: Hour) -> None:
    """A recommendation is in the log."""
    hour.commands.wait(lambda: _recommended(hour), 60, "something is recommended")


def _done(hour: Hour) -> list[ActionFinished]:
    """The outcomes in the log."""
    codec = Codec(hour.commands.topics)
    with KafkaLog(KafkaConnection(hour.commands.broker)) as log:
        records = read_range(log, [hour.commands.topics.wire("outcomes")])
        return [event for record in records if isinstance(event := codec.decode_or_none(record), ActionFinished)]


def _recommended(hour: Hour) -> bool:
    with KafkaLog(KafkaConnection(hour.commands.broker)) as log:
        return any(True for _ in read_range(log, [hour.commands.topics.wire("recommendations")]))


def _measure(plane: Plane, world: World, stop: threading.Event) -> None:
    """What the pods use, measured each second."""
    while not stop.wait(1.0):
        for pod in world.pods("web"):
            usage = {"app": {"cpu": "100m", "memory": "500Mi"}}
            plane.metrics.serve(world.namespace, pod["metadata"]["name"], usage, at=datetime.now(UTC), window="1s")
