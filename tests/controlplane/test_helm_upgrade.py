"""What an upgrade of the chart keeps: the passwords and certificates that an installation made, on the real API server."""

import base64
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.chart_values import CHART
from tests.controlplane.conftest import started
from tests.controlplane.plane import Plane
from tests.controlplane.world import World


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """A plane of its own, for Helm takes over nothing that others have made."""
    yield from started(request)


class Release:
    """The chart installed with its own Kafka."""

    def __init__(self, helm: Path, plane: Plane, world: World, folder: Path) -> None:
        self._helm, self._world = helm, world
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(plane.kubeconfig)}

    def helm(self, *words: str) -> str:
        """Runs `helm` in the release's namespace; it must do its part."""
        command = [str(self._helm), *words, "--namespace", self._world.namespace]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=self._environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def secret(self, name: str) -> dict[str, str]:
        found = self._world.ask.get(f"/api/v1/namespaces/{self._world.namespace}/secrets/{name}")
        return {key: str(value) for key, value in found["data"].items()}


@pytest.fixture
def release(helm: Path, plane: Plane, world: World, tmp_path: Path) -> Iterator[Release]:
    made = Release(helm, plane, world, tmp_path)
    yield made
    made.helm("uninstall", "ullage", "--ignore-not-found")


@pytest.mark.timeout(300)
def test_an_upgrade_keeps_the_passwords_and_certificates_of_the_charts_kafka(release: Release) -> None:
    names = ("ullage-kafka", "ullage-kafka-broker", "ullage-kafka-worker", "ullage-kafka-commands")
    release.helm("install", "ullage", str(CHART), "--set-string", "clusterName=prod,kafka.kind=single")
    installed = {name: release.secret(name) for name in names}
    assert {"username", "password", "ca.crt"} <= installed["ullage-kafka"].keys()
    assert len({secret["password"] for secret in installed.values()}) == len(names), "nobody has another's password"
    release.helm("upgrade", "ullage", str(CHART), "--reuse-values", "--set-string", "mode=shadow")
    assert {name: release.secret(name) for name in names} == installed
    release.helm("rollback", "ullage", "1")
    assert {name: release.secret(name) for name in names} == installed
    said = release.helm("get", "values", "ullage", "--all")
    for secret in installed.values():
        assert base64.b64decode(secret["password"]).decode() not in said


@pytest.mark.timeout(300)
def test_a_second_installation_takes_over_the_passwords_that_the_volume_of_the_charts_kafka_knows(release: Release) -> None:
    names = ("ullage-kafka", "ullage-kafka-broker", "ullage-kafka-worker", "ullage-kafka-commands")
    install = ("install", "ullage", str(CHART), "--set-string", "clusterName=prod,kafka.kind=single")
    release.helm(*install, "--set-string", "commonAnnotations.owner=platform")
    installed = {name: release.secret(name) for name in names}
    release.helm("uninstall", "ullage")
    release.helm(*install)
    assert {name: release.secret(name) for name in names} == installed
