"""`ullage up` against a real cluster: a table on the screen, nothing changed in the cluster, and nothing left behind."""

import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.world import World
from tests.support.commands import ROOT


@pytest.mark.timeout(180)
def test_one_command_shows_what_containers_should_request_and_changes_nothing(plane: Plane, world: World, tmp_path: Path) -> None:
    pods = world.deployment("web", {"app": {"requests": {"cpu": "1", "memory": "1Gi"}}}, replicas=2)
    world.vpa("web", "web", spec={"updatePolicy": {"updateMode": "Off"}})
    stop = threading.Event()
    measuring = threading.Thread(target=_measure, args=(plane, world, pods, stop), daemon=True)
    measuring.start()
    sets = [f"cluster.namespaces={world.namespace}", "usage.interval_seconds=1", "vertical.interval=1"]
    command = [sys.executable, "-m", "agents", "up", "--kubeconfig", str(plane.kubeconfig)]
    command += [part for each in sets for part in ("--set", each)]
    shown, said = tmp_path / "shown", tmp_path / "said"
    with shown.open("wb") as out, said.open("wb") as err:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=err)
    try:
        wait_for(lambda: _row(shown, process, said).split()[2:3] == ["2"], timeout=120.0, what="the table shows both pods")
    finally:
        stop.set()
        process.send_signal(signal.SIGINT)
        code = process.wait(60.0)
    assert code == 0, said.read_text()
    assert "called 'plane' in the log" in said.read_text()
    columns = _row(shown, process, said).split()
    assert columns[:4] == [world.namespace, "Deployment/web", "2", "app"]
    assert "1000m → 126m" in _row(shown, process, said)
    assert "source  usage        at work" in shown.read_text()
    assert [
        change for resource in ("pods", "pods/resize", "pods/eviction") for change in plane.changes(world.namespace, resource)
    ] == []
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout
    assert left == ""


def test_a_cluster_that_does_not_answer_is_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agents", "up", "--set", "cluster.url=http://127.0.0.1:1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr.startswith(
        "ullage: the cluster cannot be watched: asking for a sign of life 'http://127.0.0.1:1' did not work"
    )
    assert list(tmp_path.iterdir()) == []


def _row(shown: Path, process: "subprocess.Popen[bytes]", said: Path) -> str:
    """The newest row of the workload."""
    assert process.poll() in (None, 0), said.read_text()[-3000:]
    rows = [line for line in shown.read_text().splitlines() if "Deployment/web" in line]
    return rows[-1] if rows else ""


def _measure(plane: Plane, world: World, pods: list[dict[str, dict[str, str]]], stop: threading.Event) -> None:
    """What the pods use, measured each second."""
    while not stop.wait(1.0):
        for pod in pods:
            usage = {"app": {"cpu": "100m", "memory": "500Mi"}}
            plane.metrics.serve(world.namespace, pod["metadata"]["name"], usage, at=datetime.now(UTC), window="1s")
