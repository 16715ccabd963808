"""The simulated cluster: what befalls containers, and what is never lost or overfilled."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.facts.pods import ContainerRun, PodPhase, ResizeState
from schemas.names import Amounts, PodName
from schemas.units import Bytes, Cores, millicores
from streams.clients.cluster_port import Patch, Pod
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_spec import (
    ContainerTemplate,
    Load,
    LoadMoment,
    Shape,
    SimulatedDeployment,
    SimulatedNode,
    amounts,
    leak,
)
from streams.simulated.demo_shop import DEPLOYMENTS, NODES
from streams.simulated.pod_admission import ApiRefusal
from tests.support.simulated_shop import demo_cluster

START = datetime(2026, 3, 1, tzinfo=UTC)
MIB = 1 << 20
SECOND = timedelta(seconds=1)


def steady(cores: float, mib: int) -> Shape:
    def shape(_moment: LoadMoment) -> Load:
        return Load(Cores(cores), Bytes(mib * MIB))

    return shape


def cluster_of(
    shape: Shape, requests: Amounts, limits: Amounts, *, replicas: int = 1, keep: int = 0, node: SimulatedNode | None = None
) -> SimulatedCluster:
    template = ContainerTemplate("main", shape, requests, limits)
    nodes = [node or SimulatedNode("node-1", Cores(4.0), Bytes(8 << 30))]
    deployments = [SimulatedDeployment("shop", "web", replicas, (template,), keep)]
    return SimulatedCluster(name="demo", seed=1, start=START, nodes=nodes, deployments=deployments)


def only(cluster: SimulatedCluster) -> Pod:
    (pod,) = cluster.pods()
    return pod


def test_cpu_above_the_limit_is_throttled() -> None:
    cluster = cluster_of(steady(3.0, 100), amounts(0.5, 200), amounts(1.0, 400))
    cluster.advance(START + 120 * SECOND)
    (usage,) = cluster.usage()
    assert usage.containers["main"] == Amounts(Cores(1.0), Bytes(100 * MIB))


def test_without_a_limit_nothing_is_throttled_or_killed() -> None:
    cluster = cluster_of(steady(3.0, 900), amounts(0.5, 200), Amounts())
    cluster.advance(START + timedelta(hours=1))
    (usage,) = cluster.usage()
    assert (usage.containers["main"].cpu, only(cluster).ooms) == (3.0, ())


def test_memory_above_the_limit_is_an_oom_kill_and_restarts_come_later_each_time() -> None:
    # a step is 15 s: started at 15, killed at 30; back at once, so at the step at 45; killed at 60;
    # back after 10 s, at 75; killed at 90; back after 20 s, at 120; killed at 135
    cluster = cluster_of(steady(0.1, 300), amounts(0.1, 200), amounts(None, 256))
    told = []
    for step in range(1, 10):
        cluster.advance(START + 15 * step * SECOND)
        told += [(kill.restarts, int((kill.at - START).total_seconds())) for kill in only(cluster).ooms]
    assert sorted(set(told)) == [(1, 30), (2, 60), (3, 90), (4, 135)]
    [seen] = only(cluster).containers
    assert seen.restarts == 3
    assert seen.last_run == ContainerRun(START + 135 * SECOND, START + 120 * SECOND, "OOMKilled")
    assert cluster.usage() == []


def test_a_pod_is_described_anew_where_something_changed_and_only_there() -> None:
    cluster = cluster_of(steady(0.1, 300), amounts(0.1, 200), amounts(None, 256))
    seen = []
    for step in range(1, 10):
        cluster.advance(START + 15 * step * SECOND)
        seen.append(only(cluster))
        assert only(cluster) is seen[-1]
    versions = {(pod.containers, pod.ooms): pod.version for pod in seen}
    assert len({pod.version for pod in seen}) == len(versions) > 4


def test_a_leak_begins_anew_after_its_kill() -> None:
    # 100 MiB and 3,600 MiB an hour, so 1 MiB a second: over 160 MiB in the step 75 s after the start
    cluster = cluster_of(leak(cores=0.1, memory=100, per_hour=3600), amounts(0.1, 100), amounts(None, 160))
    cluster.advance(START + 90 * SECOND)
    (kill,) = only(cluster).ooms
    assert (kill.at - START).total_seconds() == 15 + 75
    cluster.advance(START + 120 * SECOND)
    (usage,) = cluster.usage()
    assert usage.containers["main"].memory == 115 * MIB


def test_more_memory_ends_the_kills() -> None:
    cluster = cluster_of(steady(0.1, 300), amounts(0.1, 200), amounts(None, 256))
    cluster.advance(START + timedelta(hours=1))
    cluster.resize(
        only(cluster).pod,
        requests={"main": Amounts(memory=Bytes(350 * MIB))},
        limits={"main": Amounts(memory=Bytes(448 * MIB))},
    )
    cluster.advance(START + timedelta(hours=2))
    before = only(cluster).containers[0].restarts
    cluster.advance(START + timedelta(hours=5))
    assert only(cluster).containers[0].restarts == before
    assert only(cluster).containers[0].ready


def test_a_pod_without_room_is_pending_until_there_is_some() -> None:
    cluster = cluster_of(steady(0.1, 100), amounts(3.0, 100), Amounts(), replicas=2)
    cluster.advance(START + 60 * SECOND)
    assert sorted(pod.phase for pod in cluster.pods()) == [PodPhase.PENDING, PodPhase.RUNNING]
    running = next(pod for pod in cluster.pods() if pod.node)
    cluster.resize(running.pod, requests={"main": Amounts(cpu=Cores(1.0))}, limits={})
    cluster.advance(START + 120 * SECOND)
    assert [pod.phase for pod in cluster.pods()] == [PodPhase.RUNNING] * 2


def test_a_resize_without_room_is_deferred_until_there_is_some() -> None:
    cluster = cluster_of(steady(0.1, 100), amounts(1.5, 100), Amounts(), replicas=2)
    cluster.advance(START + 60 * SECOND)
    first, second = cluster.pods()
    cluster.resize(first.pod, requests={"main": Amounts(cpu=Cores(3.5))}, limits={})
    assert [pod.resize for pod in cluster.pods()] == [ResizeState.IN_PROGRESS, ResizeState.NONE]
    cluster.advance(START + 120 * SECOND)
    waiting = cluster.pod("shop", first.pod.name)
    assert waiting is not None
    assert (waiting.resize, waiting.containers[0].requests.cpu) == (ResizeState.DEFERRED, 1.5)
    cluster.resize(second.pod, requests={"main": Amounts(cpu=Cores(0.5))}, limits={})
    cluster.advance(START + 180 * SECOND)
    done = cluster.pod("shop", first.pod.name)
    assert done is not None
    assert (done.resize, done.containers[0].requests.cpu) == (ResizeState.NONE, 3.5)


def test_the_hook_is_asked_once_for_each_new_pod_and_its_patch_counts_for_the_scheduler() -> None:
    asked: list[str] = []

    def admit(pod: Pod) -> Patch:
        asked.append(pod.pod.uid)
        return Patch({"main": Amounts(cpu=Cores(0.25))}, {"main": Amounts(cpu=Cores(0.5))})

    cluster = cluster_of(steady(0.1, 100), amounts(3.0, 100), amounts(4.0, 200), replicas=4)
    cluster.admit = admit
    cluster.advance(START + 60 * SECOND)
    assert [pod.phase for pod in cluster.pods()] == [PodPhase.RUNNING] * 4
    assert cluster.pods()[0].containers[0].requests == Amounts(Cores(0.25), Bytes(100 * MIB))
    assert sorted(asked) == sorted(pod.pod.uid for pod in cluster.pods())


def test_a_patch_that_makes_no_sense_keeps_a_pod_from_being_created_and_nothing_else() -> None:
    cluster = cluster_of(steady(0.1, 100), amounts(1.0, 100), amounts(2.0, 200))
    cluster.admit = lambda _pod: Patch({"main": Amounts(cpu=Cores(3.0))})
    cluster.advance(START + 60 * SECOND)
    assert cluster.pods() == []
    assert "cpu request 3 must be less than or equal to cpu limit 2" in cluster.refusal(cluster.deployments[0])
    cluster.admit = lambda _pod: Patch()
    cluster.advance(START + 75 * SECOND)
    assert cluster.pods() == [], "its ReplicaSet tries less and less often"
    cluster.advance(START + 90 * SECOND)
    assert only(cluster).containers[0].requests.cpu == 1.0
    assert cluster.refusal(cluster.deployments[0]) == ""


def test_time_moves_forward_only_and_how_often_makes_no_difference() -> None:
    at_once, often = demo_cluster(5, start=START), demo_cluster(5, start=START)
    at_once.advance(START + timedelta(hours=1))
    for seconds in range(0, 3600 + 1, 7):
        often.advance(START + seconds * SECOND)
    often.advance(START + timedelta(hours=1))
    often.advance(START)
    assert (often.pods(), often.usage()) == (at_once.pods(), at_once.usage())


def test_another_seed_is_another_cluster() -> None:
    one, other = demo_cluster(1, start=START), demo_cluster(2, start=START)
    for cluster in (one, other):
        cluster.advance(START + timedelta(hours=1))
    assert one.usage() != other.usage()


def test_without_a_start_the_first_advance_is_the_beginning() -> None:
    cluster = demo_cluster(1)
    cluster.advance(START)
    assert {pod.created for pod in cluster.pods()} == {START}


def test_the_demo_has_all_its_pods_running_and_its_oom_kills_within_the_first_hours() -> None:
    cluster = demo_cluster(7, start=START)
    cluster.advance(START + timedelta(hours=2))
    pods = cluster.pods()
    assert len(pods) == 36
    assert all(pod.phase is PodPhase.RUNNING for pod in pods)
    assert {pod.workload.name for pod in pods if pod.ooms} == {"cart", "checkout", "ledger"}


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["evict", "resize", "wait"]),
        st.integers(0, 10_000),
        st.floats(0.01, 20.0),
        st.integers(1, 40_000),
    ),
    max_size=40,
)


def play(cluster: SimulatedCluster, actions: list[tuple[str, int, float, int]], look: Callable[[], None]) -> None:
    """Do what the list says to the pod at that position, ignoring refusals, 15 to 60 s apart."""
    at = START + 60 * SECOND
    cluster.advance(at)
    for verb, which, cores, mib in actions:
        pods = cluster.pods()
        pod = pods[which % len(pods)]
        try:
            if verb == "evict":
                cluster.evict(pod.pod)
            elif verb == "resize":
                new = Amounts(Cores(cores), Bytes(mib * MIB))
                name = pod.containers[0].name
                cluster.resize(pod.pod, requests={name: new}, limits={name: new})
        except ApiRefusal:
            pass
        at += (15 + which % 46) * SECOND
        cluster.advance(at)
        look()


@settings(max_examples=25, deadline=None)
@given(ACTIONS)
def test_no_pod_is_lost_and_no_node_is_overfilled_whatever_is_done(actions: list[tuple[str, int, float, int]]) -> None:
    cluster = demo_cluster(1, start=START)
    wanted = {deployment.name: deployment.replicas for deployment in DEPLOYMENTS}
    room = {node.name: (millicores(node.cores), node.memory) for node in NODES}
    uids: set[str] = set()

    def look() -> None:
        pods = cluster.pods()
        counts = {name: sum(pod.workload.name == name for pod in pods) for name in wanted}
        assert counts == wanted
        for node, (most_cpu, most_memory) in room.items():
            requests = [c.requests for pod in pods if pod.node == node for c in pod.containers]
            assert sum(millicores(r.cpu or Cores(0)) for r in requests) <= most_cpu
            assert sum(r.memory or 0 for r in requests) <= most_memory
        assert len({pod.pod.uid for pod in pods}) == len(pods)
        for pod in cluster.pods_by_name.values():
            pod.described = None
        assert cluster.pods() == pods, "what was kept is not what is made anew"
        uids.update(pod.pod.uid for pod in pods)

    play(cluster, actions, look)


@settings(max_examples=10, deadline=None)
@given(ACTIONS)
def test_the_same_seed_and_calls_give_the_same_cluster(actions: list[tuple[str, int, float, int]]) -> None:
    told: list[list[object]] = []
    for _ in range(2):
        cluster, seen = demo_cluster(1, start=START), list[object]()
        play(cluster, actions, lambda cluster=cluster, seen=seen: seen.append((cluster.pods(), cluster.usage())))  # type: ignore[misc]
        told.append(seen)
    assert told[0] == told[1]


def test_evictions_never_go_below_what_must_stay_ready() -> None:
    cluster = cluster_of(steady(0.1, 100), amounts(0.1, 100), Amounts(), replicas=3, keep=2)
    cluster.advance(START + 60 * SECOND)
    first, second, _ = cluster.pods()
    cluster.evict(first.pod)
    with pytest.raises(ApiRefusal, match="2 pods must stay ready"):
        cluster.evict(second.pod)
    cluster.advance(START + 120 * SECOND)
    cluster.evict(second.pod)
    assert len(cluster.pods()) == 2


def test_a_pod_that_is_not_there_is_not_found() -> None:
    cluster = cluster_of(steady(0.1, 100), amounts(0.1, 100), Amounts())
    with pytest.raises(ApiRefusal, match='pods "ghost" not found'):
        cluster.evict(PodName("shop", "ghost", "u"))


def test_pods_that_share_a_load_have_equal_parts_of_it_and_their_number_may_be_set() -> None:
    template = ContainerTemplate("main", steady(3.0, 100), amounts(0.5, 256))
    deployment = SimulatedDeployment("shop", "web", 2, (template,), shared=True)
    cluster = SimulatedCluster(
        name="demo", seed=1, start=START, nodes=[SimulatedNode("n", Cores(64.0), Bytes(64 << 30))], deployments=[deployment]
    )
    cluster.advance(START + timedelta(minutes=5))
    assert [usage.containers["main"].cpu for usage in cluster.usage()] == [1.5, 1.5]
    cluster.scale("shop", "web", 6)
    cluster.advance(START + timedelta(minutes=10))
    assert [usage.containers["main"].cpu for usage in cluster.usage()] == [0.5] * 6
    cluster.scale("shop", "web", 1)
    cluster.advance(START + timedelta(minutes=15))
    assert [usage.containers["main"].cpu for usage in cluster.usage()] == [3.0]
