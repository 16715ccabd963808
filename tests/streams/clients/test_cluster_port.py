"""One suite for the client port: the simulated cluster in memory and over HTTP through the real client must not differ."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from schemas.facts.pods import ResizeState
from schemas.names import Amounts, PodName
from schemas.units import Bytes, Cores
from streams.clients.cluster_port import ClusterClient, Pod
from streams.clients.kube.cluster_client import connect
from streams.errors import GiveUp, TryAgain
from streams.simulated.api_server import SimulatedClient, SimulatedServer
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_spec import ContainerTemplate, SimulatedDeployment, SimulatedNode, amounts, leak
from tests.support.simulated_shop import demo_cluster

START = datetime(2026, 3, 1, tzinfo=UTC)
MIB = 1 << 20


@pytest.fixture
def cluster() -> SimulatedCluster:
    cluster = demo_cluster(3, start=START)
    cluster.advance(START + timedelta(minutes=40))
    return cluster


@pytest.fixture(params=["memory", "http"])
def client(request: pytest.FixtureRequest, cluster: SimulatedCluster) -> Iterator[ClusterClient]:
    if request.param == "memory":
        yield SimulatedClient(cluster)
        return
    with SimulatedServer(cluster) as server:
        kubernetes = connect("demo", server.url)
        yield kubernetes
        kubernetes.close()


def one(client: ClusterClient, workload: str) -> Pod:
    return next(pod for pod in client.pods() if pod.workload.name == workload and all(c.ready for c in pod.containers))


def test_pods_are_answered_alike_and_in_order(client: ClusterClient, cluster: SimulatedCluster) -> None:
    pods = client.pods()
    assert pods == cluster.pods()
    names = [(pod.pod.namespace, pod.pod.name) for pod in pods]
    assert names == sorted(names)
    assert any(pod.ooms for pod in pods)
    assert {pod.workload.key for pod in pods if pod.workload.name == "web"} == {"demo/shop/Deployment/web"}


def test_usage_is_answered_alike_to_the_last_bit(client: ClusterClient, cluster: SimulatedCluster) -> None:
    assert client.usage() == cluster.usage()
    assert len(client.usage()) > 20


def test_usage_of_one_pod_is_that_of_the_list(client: ClusterClient) -> None:
    one = client.usage()[3]
    assert client.pod_usage(one.namespace, one.pod) == one
    assert client.pod_usage(one.namespace, "nobody") is None


def test_one_pod_is_read_by_name(client: ClusterClient) -> None:
    pod = one(client, "web")
    assert client.pod(pod.pod.namespace, pod.pod.name) == pod
    assert client.pod("shop", "nobody") is None


def test_a_resize_is_asked_at_once_and_in_force_later(client: ClusterClient, cluster: SimulatedCluster) -> None:
    pod = one(client, "web")
    requests, limits = {"web": Amounts(Cores(0.25), Bytes(300 * MIB))}, {"web": Amounts(Cores(0.5), Bytes(600 * MIB))}
    client.resize(pod, requests=requests, limits=limits)
    asked = client.pod("shop", pod.pod.name)
    assert asked is not None
    assert (asked.asked_requests["web"], asked.asked_limits["web"]) == (requests["web"], limits["web"])
    assert asked.asked_requests["proxy"] == pod.asked_requests["proxy"]
    assert (asked.containers, asked.resize) == (pod.containers, ResizeState.IN_PROGRESS)
    cluster.advance(cluster.now + timedelta(seconds=30))
    done = client.pod("shop", pod.pod.name)
    assert done is not None
    web = next(c for c in done.containers if c.name == "web")
    assert (web.requests, web.limits, web.restarts, done.resize) == (requests["web"], limits["web"], 0, ResizeState.NONE)


def test_cpu_finer_than_a_millicore_is_rounded_up(client: ClusterClient) -> None:
    pod = one(client, "web")
    client.resize(pod, requests={"web": Amounts(cpu=Cores(0.0253))}, limits={})
    asked = client.pod("shop", pod.pod.name)
    assert asked is not None
    assert asked.asked_requests["web"] == Amounts(Cores(0.026), pod.asked_requests["web"].memory)


def test_a_resize_beyond_the_node_is_accepted_then_infeasible_and_another_one_may_follow(
    client: ClusterClient, cluster: SimulatedCluster
) -> None:
    pod = one(client, "metrics")
    client.resize(pod, requests={"metrics": Amounts(cpu=Cores(99.0))}, limits={})
    cluster.advance(cluster.now + timedelta(minutes=5))
    stuck = client.pod("platform", pod.pod.name)
    assert stuck is not None
    assert (stuck.resize, stuck.asked_requests["metrics"].cpu) == (ResizeState.INFEASIBLE, 99.0)
    assert stuck.containers[0].requests == pod.containers[0].requests
    client.resize(stuck, requests={"metrics": Amounts(cpu=Cores(0.5))}, limits={})
    cluster.advance(cluster.now + timedelta(minutes=1))
    small = client.pod("platform", pod.pod.name)
    assert small is not None
    assert (small.resize, small.containers[0].requests.cpu) == (ResizeState.NONE, 0.5)


def test_a_request_above_its_limit_is_given_up(client: ClusterClient) -> None:
    pod = one(client, "cart")
    with pytest.raises(GiveUp, match=r"422 .*must be less than or equal to memory limit"):
        client.resize(pod, requests={"cart": Amounts(memory=Bytes(1 << 30))}, limits={})


def test_a_resize_of_another_uid_or_nobody_is_given_up(client: ClusterClient) -> None:
    pod = one(client, "web")
    with pytest.raises(GiveUp, match=r"409 .*UID"):
        client.resize(replace(pod, pod=replace(pod.pod, uid="stranger")), requests={"web": Amounts(cpu=Cores(0.1))}, limits={})
    with pytest.raises(GiveUp, match=r"404 .*nobody"):
        client.resize(replace(pod, pod=PodName("shop", "nobody", "u")), requests={"web": Amounts(cpu=Cores(0.1))}, limits={})


def test_a_resize_of_a_pod_that_has_changed_since_it_was_read_means_try_again(client: ClusterClient) -> None:
    pod = one(client, "web")
    client.resize(pod, requests={"web": Amounts(cpu=Cores(0.1))}, limits={})
    with pytest.raises(TryAgain, match=r"409 .*has been modified"):
        client.resize(pod, requests={"web": Amounts(cpu=Cores(0.2))}, limits={})
    now = client.pod("shop", pod.pod.name)
    assert now is not None
    assert now.asked_requests["web"].cpu == 0.1
    client.resize(now, requests={"web": Amounts(cpu=Cores(0.2))}, limits={})


def test_an_evicted_pod_is_gone_and_another_comes(client: ClusterClient, cluster: SimulatedCluster) -> None:
    pod = one(client, "web")
    before = {p.pod.uid for p in client.pods() if p.workload == pod.workload}
    client.evict(pod.pod)
    assert client.pod("shop", pod.pod.name) is None
    cluster.advance(cluster.now + timedelta(seconds=15))
    after = {p.pod.uid for p in client.pods() if p.workload == pod.workload}
    assert len(before) == len(after) == 8
    assert before - after == {pod.pod.uid}


def test_an_eviction_of_another_uid_or_nobody_is_given_up(client: ClusterClient) -> None:
    pod = one(client, "web")
    with pytest.raises(GiveUp, match=r"409"):
        client.evict(replace(pod.pod, uid="stranger"))
    with pytest.raises(GiveUp, match="evicting 'shop/nobody' did not work: 404"):
        client.evict(PodName("shop", "nobody", "u"))


def test_a_used_up_disruption_budget_means_try_again(client: ClusterClient) -> None:
    ready = [p for p in client.pods() if p.workload.name == "web" and all(c.ready for c in p.containers)]
    assert len(ready) == 8
    for pod in ready[:2]:
        client.evict(pod.pod)
    with pytest.raises(TryAgain, match=r"429 .*6 pods must stay ready") as caught:
        client.evict(ready[2].pod)
    assert caught.value.after == 10


def test_no_budget_means_every_pod_may_go(client: ClusterClient) -> None:
    pods = [p for p in client.pods() if p.workload.name == "reports"]
    for pod in pods:
        client.evict(pod.pod)
    assert not [p for p in client.pods() if p.workload.name == "reports"]


def test_init_containers_and_amounts_of_the_pod_itself_are_answered_alike() -> None:
    app = ContainerTemplate("app", leak(cores=0.1, memory=100, per_hour=0), amounts(0.1, 128))
    proxy = ContainerTemplate("proxy", leak(cores=0.1, memory=90, per_hour=0), amounts(0.1, 64), amounts(None, 64), sidecar=True)
    setup = ContainerTemplate("setup", leak(cores=0.1, memory=50, per_hour=0), amounts(None, 64), lasts=30)
    own = amounts(1.0, 512)
    deployment = SimulatedDeployment("shop", "web", 2, (app,), init=(setup, proxy), requests=own, limits=own)
    node = SimulatedNode("node-1", Cores(4.0), Bytes(8 << 30))
    cluster = SimulatedCluster(name="demo", seed=1, start=START, nodes=[node], deployments=[deployment])
    with SimulatedServer(cluster) as server:
        kubernetes = connect("demo", server.url)
        for step in range(1, 12):
            cluster.advance(START + timedelta(seconds=15 * step))
            assert kubernetes.pods() == cluster.pods()
            assert kubernetes.usage() == cluster.usage()
        kubernetes.close()
    [pod, _] = cluster.pods()
    assert (pod.requests, pod.limits, pod.init_containers[1].broken) == (own, own, True)
