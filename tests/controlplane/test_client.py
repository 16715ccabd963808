"""Our client against a real API server: what it reads, what it changes, and what it says when it may not."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from schemas.facts.pods import PodPhase, ResizeState
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores, Seconds
from streams.clients.cluster_port import Pod, PodUsage
from streams.clients.kube.api import Api
from streams.clients.kube.cluster_client import KubernetesClient
from streams.clients.kube.list_watch_requests import ApiResource, ListWatchClient
from streams.clients.kube.pod_objects import AnnotatedMeta
from streams.errors import GiveUp, TryAgain, Unreachable
from tests.controlplane import kwok_stages
from tests.controlplane.api_audit import Change
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.world import World

MIB = 1 << 20


def seen(client: KubernetesClient, world: World) -> list[Pod]:
    return [pod for pod in client.pods() if pod.pod.namespace == world.namespace and not pod.leaving]


def one(client: KubernetesClient, world: World) -> Pod:
    (pod,) = seen(client, world)
    return pod


def test_the_pods_of_a_deployment_are_seen_with_workload_node_and_resources(client: KubernetesClient, world: World) -> None:
    asked = {"requests": {"cpu": "250m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}
    made = world.deployment("web", {"app": asked, "sidecar": {}}, replicas=2)
    pods = seen(client, world)
    assert [pod.pod.uid for pod in pods] == [pod["metadata"]["uid"] for pod in made]
    for pod in pods:
        assert pod.workload == Workload("real", world.namespace, "Deployment", "web")
        assert pod.phase is PodPhase.RUNNING
        assert pod.node is not None
        app, sidecar = pod.containers
        assert app.requests == Amounts(cpu=Cores(0.25), memory=Bytes(128 * MIB))
        assert app.limits == Amounts(memory=Bytes(256 * MIB))
        assert app.ready
        assert sidecar.requests == Amounts()


def test_usage_comes_through_the_aggregated_api_and_what_it_leaves_out_is_absent(
    plane: Plane, client: KubernetesClient, world: World
) -> None:
    at = datetime(2026, 11, 21, 12, 0, 5, tzinfo=UTC)
    plane.metrics.serve(world.namespace, "web-1", {"app": {"cpu": "250m"}, "db": {"memory": "64Mi"}}, at=at, window="1m0s")
    (usage,) = [usage for usage in client.usage() if usage.namespace == world.namespace]
    used = {"app": Amounts(cpu=Cores(0.25)), "db": Amounts(memory=Bytes(64 * MIB))}
    assert usage == PodUsage(world.namespace, "web-1", at, Seconds(60.0), used)


def test_a_metrics_api_that_is_broken_means_try_again(plane: Plane, client: KubernetesClient, world: World) -> None:
    plane.metrics.serve(world.namespace, "web-1", {"app": {"cpu": "250m"}}, at=datetime(2026, 11, 21, tzinfo=UTC))
    plane.metrics.refuse(503)
    with pytest.raises(TryAgain, match="no metrics today"):
        client.usage()


def test_a_resize_is_in_force_without_a_restart(plane: Plane, client: KubernetesClient, world: World) -> None:
    world.deployment("web", {"app": {"requests": {"cpu": "100m", "memory": "64Mi"}}})
    before = one(client, world)
    more = Amounts(cpu=Cores(0.321), memory=Bytes(100 * MIB))
    client.resize(before, requests={"app": more}, limits={})
    assert one(client, world).asked_requests == {"app": more}
    after = wait_for(lambda: next((pod for pod in seen(client, world) if pod.containers[0].requests == more), None))
    assert after.pod == before.pod
    assert after.containers[0].restarts == 0
    assert after.resize is ResizeState.NONE
    asked = Change("patch", world.namespace, "pods/resize", before.pod.name, 200)
    assert plane.changes(world.namespace, "pods/resize") == [asked]


@pytest.mark.parametrize(("word", "state"), [("Deferred", ResizeState.DEFERRED), ("Infeasible", ResizeState.INFEASIBLE)])
def test_a_kubelet_that_refuses_a_resize_is_seen_to_do_so(
    client: KubernetesClient, world: World, word: str, state: ResizeState
) -> None:
    world.deployment("web", {"app": {"requests": {"cpu": "100m"}}}, annotations={kwok_stages.RESIZE: word})
    client.resize(one(client, world), requests={"app": Amounts(cpu=Cores(0.2))}, limits={})
    wait_for(lambda: one(client, world).resize is state, what=f"the resize is {word}")
    assert one(client, world).containers[0].requests == Amounts(cpu=Cores(0.1))
    assert one(client, world).asked_requests == {"app": Amounts(cpu=Cores(0.2))}


def test_a_slow_resize_is_seen_in_progress_and_then_done(client: KubernetesClient, world: World) -> None:
    world.deployment("web", {"app": {"requests": {"cpu": "100m"}}}, annotations={kwok_stages.RESIZE: "Slow"})
    client.resize(one(client, world), requests={"app": Amounts(cpu=Cores(0.2))}, limits={})
    wait_for(lambda: one(client, world).resize is ResizeState.IN_PROGRESS, what="the resize is in progress")
    wait_for(lambda: one(client, world).containers[0].requests == Amounts(cpu=Cores(0.2)), what="the resize is done")
    assert one(client, world).resize is ResizeState.NONE


def test_a_resize_of_a_pod_that_was_replaced_is_given_up(client: KubernetesClient, world: World) -> None:
    world.deployment("web", {"app": {"requests": {"cpu": "100m"}}})
    pod = one(client, world)
    other = replace(pod, pod=replace(pod.pod, uid="another-uid"), version="")
    with pytest.raises(GiveUp):
        client.resize(other, requests={"app": Amounts(cpu=Cores(0.2))}, limits={})
    assert one(client, world).asked_requests == {"app": Amounts(cpu=Cores(0.1))}


def test_an_eviction_beyond_the_disruption_budget_is_tried_again_later(client: KubernetesClient, world: World) -> None:
    world.deployment("web", replicas=2)
    world.budget("web", minAvailable=2)
    first, _ = seen(client, world)
    with pytest.raises(TryAgain, match="disruption budget"):
        client.evict(first.pod)
    assert [pod.pod for pod in seen(client, world)].count(first.pod) == 1


def test_an_evicted_pod_is_replaced_by_another(client: KubernetesClient, world: World) -> None:
    world.deployment("web")
    before = one(client, world)
    client.evict(before.pod)
    (after,) = world.running("web", 1)
    assert after["metadata"]["uid"] != before.pod.uid
    with pytest.raises(GiveUp):
        client.evict(before.pod)


def test_an_eviction_of_a_pod_with_another_uid_is_given_up(client: KubernetesClient, world: World) -> None:
    world.deployment("web")
    pod = one(client, world).pod
    with pytest.raises(GiveUp, match="another-uid"):
        client.evict(PodName(pod.namespace, pod.name, "another-uid"))
    assert one(client, world).pod == pod


def test_an_oom_kill_is_seen_with_its_time_and_restart_count(client: KubernetesClient, world: World) -> None:
    (pod,) = world.deployment("web")
    at = datetime(2026, 11, 21, 12, 0, 5, tzinfo=UTC)
    world.oom_kill(pod["metadata"]["name"], "app", at=at)
    (kill,) = one(client, world).ooms
    assert (kill.container, kill.restarts, kill.at) == ("app", 1, at)


@pytest.mark.parametrize("kill", [False, True])
def test_a_server_that_is_down_is_unreachable_and_then_knows_the_same_pods(
    plane: Plane, client: KubernetesClient, world: World, kill: bool
) -> None:
    world.deployment("web")
    before = one(client, world)
    with plane.down(kill=kill), pytest.raises(Unreachable):
        client.pods()
    assert one(client, world) == before


class _Whole(msgspec.Struct):
    """An object with its data, if the server sends any."""

    metadata: AnnotatedMeta
    data: dict[str, str] | None = None


@pytest.mark.parametrize("metadata", [False, True])
def test_of_what_is_watched_by_its_labels_the_server_sends_no_data(plane: Plane, world: World, *, metadata: bool) -> None:
    kind: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}
    made = {**kind, "metadata": {"name": "rules", "labels": {"pinned": "true"}}, "data": {"key": "value"}}
    world.ask.post(world.path("configmaps"), made)
    client = ListWatchClient(Api(plane.api_client()))
    resource: ApiResource[Any] = ApiResource("rules", world.path("configmaps"), _Whole, "metadata.name=rules", metadata=metadata)
    [page] = client.list_pages(resource)
    [listed] = [item.object for item in page.items]
    watched = next(iter(client.watch(resource, "0"))).item.object
    for seen in (listed, watched):
        assert (seen.metadata.labels, seen.data) == ({"pinned": "true"}, None if metadata else {"key": "value"})
