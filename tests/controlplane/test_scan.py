"""`ullage scan` with a kubeconfig, on a real API server and its metrics API: nothing is installed, nothing is changed."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from agents import cli
from tests.controlplane.plane import Plane
from tests.controlplane.world import World

MIB = 1 << 20


def test_a_scan_knows_workloads_requests_and_limits_and_changes_nothing(
    plane: Plane, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    limited = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
    pods = [*world.deployment("web", {"app": limited}, replicas=2), *world.deployment("cart")]
    for pod in pods:
        used = {"app": {"cpu": "500m", "memory": "400Mi"}}
        plane.metrics.serve(world.namespace, pod["metadata"]["name"], used, at=datetime.now(UTC))
    before = len(plane.changes(world.namespace, "pods"))
    assert cli.run(["scan", "--kubeconfig", str(plane.kubeconfig), "-n", world.namespace, "-s", "app", "-f", "json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name: (row["kind"], row["pods"]) for name, row in rows.items()} == {
        "web": ("Deployment", 2),
        "cart": ("Deployment", 1),
    }
    web = rows["web"]
    assert (web["requests_cpu"], web["requests_memory"], web["limits_memory"]) == (0.1, 64 * MIB, 128 * MIB)
    # One sample of 0.5 cores and 400 MiB, in buckets that grow by 5 %, and a margin of 15 %; the limit stays twice the request.
    assert web["recommended_requests_cpu"] == pytest.approx(0.5 * 1.15, rel=0.06)
    assert web["recommended_requests_memory"] == pytest.approx(400 * MIB * 1.15, rel=0.1)
    assert web["recommended_limits_memory"] == pytest.approx(2 * web["recommended_requests_memory"], abs=1)
    assert len(plane.changes(world.namespace, "pods")) == before


def test_all_clusters_are_all_contexts_of_the_kubeconfig(
    plane: Plane, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [pod] = world.deployment("web")
    plane.metrics.serve(world.namespace, pod["metadata"]["name"], {"app": {"cpu": "500m", "memory": "4Mi"}}, at=datetime.now(UTC))
    tree = yaml.safe_load(plane.kubeconfig.read_text())
    tree["contexts"] = [{**tree["contexts"][0], "name": name} for name in ("east", "west")]
    both = tmp_path / "both"
    both.write_text(yaml.safe_dump(tree))
    assert cli.run(["scan", "--all-clusters", "--kubeconfig", str(both), "-n", world.namespace, "-f", "json"]) == 0
    assert sorted(row["cluster"] for row in json.loads(capsys.readouterr().out)) == ["east", "west"]
    assert cli.run(["scan", "--all-clusters", "-c", "east", "--kubeconfig", str(both)]) == 2
