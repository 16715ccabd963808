"""The usage source on a real metrics.k8s.io, aggregated by a real API server: what it asks for, and what reaches the log."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pytest

from schemas.names import Workload
from schemas.units import Seconds
from streams.clients.cluster_port import Pod, PodUsage
from streams.clients.kube.api import Api
from streams.clients.kube.cluster_client import KubernetesClient
from streams.errors import EdgeError, GiveUp, TryAgain, Unreachable
from streams.log_context import LogContext
from streams.sources.simulated_cluster_poller import SimulatedClusterPoller
from streams.sources.usage.metrics_api_usage import MetricsApiUsage
from streams.sources.usage.usage_source import UsageSource
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.world import World
from tests.support.usage_scene import UsageScene, at

MIB = 1 << 20
ROLE = "/apis/rbac.authorization.k8s.io/v1"


class PodsOnly(KubernetesClient):
    """For a source of pods that leaves usage to others."""

    def usage(self) -> Sequence[PodUsage]:
        return []

    def pods(self) -> Sequence[Pod]:
        return [pod for pod in super().pods() if not pod.leaving]


@pytest.fixture
def scene(plane: Plane) -> Iterator[UsageScene]:
    scene = UsageScene()
    api = Api(plane.api_client(), timeout=Seconds(5.0))
    scene.asks = MetricsApiUsage(api, cluster="prod").read
    yield scene
    api.close()


@pytest.fixture
def pods(plane: Plane, scene: UsageScene) -> Iterator[SimulatedClusterPoller]:
    client = PodsOnly("prod", plane.api_client())
    yield SimulatedClusterPoller(client, LogContext(scene.log, scene.topics, scene.codec, client.cluster))
    client.close()


def names(made: Sequence[dict[str, dict[str, str]]]) -> list[str]:
    return [pod["metadata"]["name"] for pod in made]


def use(plane: Plane, world: World, pod: str, millicores: int, end: float) -> None:
    """From now on `pod` used so much, and as many MiB, in the half minute that ended `end` seconds after the scene's start."""
    plane.metrics.serve(world.namespace, pod, {"app": {"cpu": f"{millicores}m", "memory": f"{millicores}Mi"}}, at=at(end))


def workloads(scene: UsageScene, world: World) -> list[tuple[str, str, float, float, float]]:
    """What was published of this test's pods: workload's name, pod, millicores, MiB, and the window's end."""
    rows = [(Workload.parse(key), *rest) for key, *rest in scene.rows()]
    ours = [row for row in rows if row[0].namespace == world.namespace]
    return sorted((key.name, pod, cores * 1000, memory / MIB, end) for key, pod, _, cores, memory, end in ours)


def scrape(source: UsageSource, seconds: float) -> None:
    """A server that has just come back may need a moment for its aggregated APIs."""

    def done() -> bool:
        try:
            return source.scrape(at(seconds))
        except TryAgain:
            return False

    wait_for(done, what="a scrape that works")


def test_changing_usage_reaches_the_log_once_under_its_workload_though_the_server_restarts(
    plane: Plane, world: World, scene: UsageScene, pods: SimulatedClusterPoller
) -> None:
    one, two = names(world.deployment("web", replicas=2))
    (cart,) = names(world.deployment("cart"))
    pods.scrape(at(0))
    for number, pod in enumerate((one, two, cart), start=1):
        use(plane, world, pod, 100 * number, end=40.0 + number)
    source = scene.source()
    scrape(source, 60)
    first = [("cart", cart, 300, 300, 43), ("web", one, 100, 100, 41), ("web", two, 200, 200, 42)]
    assert workloads(scene, world) == sorted(first)

    use(plane, world, one, 150, end=101.0)
    plane.stop_apiserver(kill=True)
    with pytest.raises(Unreachable):
        source.scrape(at(90))
    plane.start_apiserver()
    scrape(source, 120)
    assert workloads(scene, world) == sorted([*first, ("web", one, 150, 150, 101)])

    another = scene.source()
    use(plane, world, cart, 350, end=162.0)
    scrape(another, 180)
    assert workloads(scene, world) == sorted([*first, ("web", one, 150, 150, 101), ("cart", cart, 350, 350, 162)])
    sees = [report.sees for partition, report in scene.reports() if (partition, report.source) == (0, "usage")]
    assert sees[0] == sees[-1] == ("pod-metrics",)
    assert () in sees


def test_usage_of_a_pod_that_is_newer_than_the_last_look_at_pods_is_published_when_that_has_come(
    plane: Plane, world: World, scene: UsageScene, pods: SimulatedClusterPoller
) -> None:
    pods.scrape(at(0))
    source = scene.source()
    (pod,) = names(world.deployment("late"))
    use(plane, world, pod, 100, end=50.0)
    scrape(source, 60)
    assert workloads(scene, world) == []
    pods.scrape(at(61))
    use(plane, world, pod, 200, end=110.0)
    scrape(source, 120)
    assert workloads(scene, world) == [("late", pod, 100, 100, 50), ("late", pod, 200, 200, 110)]


def test_a_metrics_api_that_is_broken_is_published_as_blindness_and_not_as_idleness(
    plane: Plane, world: World, scene: UsageScene, pods: SimulatedClusterPoller
) -> None:
    (pod,) = names(world.deployment("web"))
    pods.scrape(at(0))
    source = scene.source()
    use(plane, world, pod, 100, end=50.0)
    plane.metrics.refuse(503)
    try:
        with pytest.raises(TryAgain, match="no metrics today"):
            source.scrape(at(60))
    finally:
        plane.metrics.refuse(None)
    assert [report.sees for partition, report in scene.reports() if (partition, report.source) == (0, "usage")] == [()]
    scrape(source, 61)
    assert workloads(scene, world) == [("web", pod, 100, 100, 50)]


def test_the_right_to_list_usage_is_all_that_the_source_needs(plane: Plane, world: World) -> None:
    """A service account that may do nothing else asks; it gets the same answer."""
    rules = [{"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["list"]}]
    name = f"usage-{world.namespace}"
    account = f"/api/v1/namespaces/{world.namespace}/serviceaccounts"
    plane.ask.post(account, {"metadata": {"name": "usage"}})
    plane.ask.post(f"{ROLE}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "usage", "namespace": world.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    plane.ask.post(f"{ROLE}/clusterrolebindings", binding)
    token = plane.ask.post(
        f"{account}/usage/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    )
    connection = plane.api_client()
    connection.configuration.api_key = {"authorization": token["status"]["token"]}
    limited = Api(connection, timeout=Seconds(5.0))
    use(plane, world, "web-1", 100, end=50.0)
    wait_for(lambda: _may(limited), what="the right is in force")
    read = MetricsApiUsage(limited, cluster="prod").read(datetime(2026, 11, 21, tzinfo=UTC))
    assert "web-1" in read.pods
    with pytest.raises(GiveUp, match="403"):
        PodsOnly("prod", connection).pods()
    for kind in ("clusterroles", "clusterrolebindings"):
        plane.ask.delete(f"{ROLE}/{kind}/{name}")


def _may(api: Api) -> bool:
    try:
        return bool(MetricsApiUsage(api, cluster="prod").read(datetime(2026, 11, 21, tzinfo=UTC)).pods)
    except EdgeError:
        return False
