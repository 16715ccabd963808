"""A real control plane for the tests of this folder: built once for a machine, started once for a session (3 to 7 s).

    def test_a_pod_is_seen(plane: Plane, world: World, client: KubernetesClient) -> None: ...

`plane`   has url, token, ca, kubeconfig, api_client() of the user `ullage`; `with plane.down(kill=True):`, restart_apiserver(),
          expire_versions() (watches and pages of before are published 410 then), changes(namespace, "pods/resize") from the audit
          log (nothing twice?). Three nodes of 4 CPUs and 16 GiB are there.
`world`   has a namespace of its own: world.deployment("web", {"app": {"requests": {"cpu": "100m"}}}, replicas=2) gives the
          running pods; vpa(), budget(), oom_kill(), add_nodes(), pods(), path("vpas", name), resources_in_force().
`plane.ask` (and world.ask) asks the server without our code: get, find, post, patch, delete; `Refused` has the code.
`plane.metrics.serve(namespace, pod, {"app": {"cpu": "250m"}}, at=..., window="30s")` is what metrics.k8s.io then answers.
`client`  is our KubernetesClient on it; `broker`, `prefix`, `topics_made` are those of tests/kafka, one Kafka beside it.
`wait_for(condition, timeout=..., what=...)` is of tests.controlplane.api_requests. A pod with stages.RESIZE = "Deferred",
"Infeasible" or "Slow" (an annotation) is resized so. Run `make test-controlplane`; logs: .run/controlplane.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.clients.kube.cluster_client import KubernetesClient
from tests.controlplane import build
from tests.controlplane.plane import Plane
from tests.controlplane.world import World, make_nodes
from tests.support.kafka_fixtures import broker, embedded, prefix, topics_made

__all__ = ["broker", "embedded", "prefix", "topics_made"]

NODES = ("base-1", "base-2", "base-3")


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """The session's control plane."""
    yield from started(request)


def started(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """A control plane with three nodes; for a test that must be the first in it, too."""
    built = build.folder()
    if not built.is_dir():
        _absent(f"NO CONTROL PLANE: '{built}' is not there. Build it first: python tests/controlplane/build.py")
    plane = Plane(built)
    plane.start()
    try:
        make_nodes(plane.ask, NODES, cpu="4", memory="16Gi", labels={})
        yield plane
    finally:
        plane.stop()
    if not request.session.testsfailed:
        plane.delete_folder()


@pytest.fixture(scope="session")
def helm() -> Path:
    """The program Helm."""
    program = build.helm()
    if not program.is_file():
        pytest.skip(f"there is no Helm at '{program}': python tests/controlplane/build.py helm builds it")
    return program


@pytest.fixture
def world(plane: Plane) -> Iterator[World]:
    """A namespace that nobody else uses."""
    made = World(plane.ask)
    yield made
    if not plane.apiserver.running:
        plane.start_apiserver()
    plane.metrics.refuse(None)
    plane.metrics.forget(made.namespace)
    made.close()


@pytest.fixture
def client(plane: Plane) -> Iterator[KubernetesClient]:
    """The code under test, connected to the plane as cluster `real`."""
    made = KubernetesClient("real", plane.api_client())
    yield made
    made.close()


def _absent(why: str) -> None:
    """Green must mean tested: where CI says so, nothing is skipped."""
    if os.environ.get("CI") == "true" or os.environ.get("ULLAGE_REQUIRE_CONTROLPLANE") == "1":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)
