"""Names that others wrote never leave their place in a path: they are refused before a request goes out, or quoted."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from agents.settings import cluster_factory
from agents.settings.all_settings import ClusterSettings
from schemas.facts.pods import PodPhase
from schemas.names import Amounts, PodName, Workload
from schemas.units import Cores
from streams.clients.cluster_port import Pod
from streams.clients.kube import api_paths
from streams.clients.kube.api import Api
from streams.clients.kube.cluster_client import KubernetesClient, connect
from streams.clients.kube.vpa_status_client import VpaStatusClient
from streams.errors import GiveUp
from tests.support.scripted_api import ScriptedApi


def _shown(pod: PodName) -> Pod:
    """As the cluster would show a pod of this name."""
    workload = Workload("demo", pod.namespace, "Deployment", "web")
    return Pod(workload, pod, PodPhase.RUNNING, datetime(2026, 1, 1, tzinfo=UTC), (), asked_requests={}, asked_limits={})


HOSTILE = [
    PodName("../../nodes", "web-0", "u"),
    PodName("shop/pods/other/eviction?dryRun=All#", "web-0", "u"),
    PodName("Shop", "web-0", "u"),
    PodName("", "web-0", "u"),
    PodName("s" * 64, "web-0", "u"),
    PodName("shop", "..", "u"),
    PodName("shop", ".", "u"),
    PodName("shop", "a/../../b", "u"),
    PodName("shop", "a%2f..%2fb", "u"),
    PodName("shop", "web-0\r\nHost: elsewhere", "u"),
    PodName("shop", "\x1b[2J", "u"),
    PodName("shop", "w" * 254, "u"),
]
ACTS: dict[str, Callable[[KubernetesClient, PodName], object]] = {
    "evict": lambda client, pod: client.evict(pod),
    "resize": lambda client, pod: client.resize(_shown(pod), requests={"app": Amounts(Cores(1.0), None)}, limits={}),
    "read": lambda client, pod: client.pod(pod.namespace, pod.name),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("pod", HOSTILE, ids=range(len(HOSTILE)))
def test_a_plan_about_a_pod_that_cannot_be_asks_nothing(act: str, pod: PodName) -> None:
    with ScriptedApi([]).serving() as server:
        client = connect("demo", server.url)
        with pytest.raises(GiveUp, match="that Kubernetes would take"):
            ACTS[act](client, pod)
        assert server.requests == []


@pytest.mark.parametrize("pod", HOSTILE[:3] + HOSTILE[5:], ids=range(len(HOSTILE) - 2))
def test_the_status_of_a_vpa_that_cannot_be_is_not_asked_for(pod: PodName) -> None:
    with ScriptedApi([]).serving() as server:
        client = VpaStatusClient(Api(cluster_factory.connection(ClusterSettings(url=server.url))))
        with pytest.raises(GiveUp, match="that Kubernetes would take"):
            client.read(pod.namespace, pod.name)
        assert server.requests == []


def test_a_name_with_signs_of_a_query_is_quoted_and_stays_a_name() -> None:
    assert api_paths.scoped("/api/v1", "shop", "pods", "a?b#c d") == "/api/v1/namespaces/shop/pods/a%3Fb%23c%20d"


def test_what_kubernetes_takes_passes() -> None:
    assert api_paths.root("apps/v1") == "/apis/apps/v1"
    assert api_paths.root("v1") == "/api/v1"
    assert api_paths.group_root("argoproj.io") == "/apis/argoproj.io"
    assert api_paths.scoped("/apis/rbac/v1", "shop", "roles", "a:b") == "/apis/rbac/v1/namespaces/shop/roles/a%3Ab"
    api_paths.check_kind("ReplicaSet")
