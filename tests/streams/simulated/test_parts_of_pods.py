"""Init containers, sidecars and amounts of the pod itself in the simulated cluster: what runs, what counts and what is refused.

Expected sums are worked out by Kubernetes' rules (PodRequests in k8s.io/component-helpers), refusals by its validation.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from agents.logic.resources import limit_ranges
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitType
from schemas.units import Bytes, Cores
from streams.clients import cluster_port
from streams.clients.cluster_port import Pod
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_spec import (
    ContainerTemplate,
    Load,
    LoadMoment,
    Shape,
    SimulatedDeployment,
    SimulatedNode,
    amounts,
)
from streams.simulated.pod_admission import ApiRefusal, PodAdmission, SimulatedLimitRange, SimulatedQuota, spelled, used
from tests.support import resize_objection

START = datetime(2026, 3, 1, tzinfo=UTC)
MIB = 1 << 20
SECOND = timedelta(seconds=1)
NOTHING = Amounts(), Amounts()
HALF_A_CORE = ContainerTemplate("proxy", None, amounts(0.5, 100), sidecar=True)
A_CORE_AT_FIRST = ContainerTemplate("setup", None, amounts(1.0, 100))


def steady(cores: float, mib: int) -> Shape:
    def shape(_moment: LoadMoment) -> Load:
        return Load(Cores(cores), Bytes(mib * MIB))

    return shape


def cluster_of_pods(
    *init: ContainerTemplate,
    needs: int = 100,
    replicas: int = 1,
    cores: float = 0.5,
    rules: PodAdmission | None = None,
    own: tuple[Amounts, Amounts] = NOTHING,
) -> SimulatedCluster:
    """Pods of a container `main` with so many MiB, beside these init containers, on a node of 4 cores and 8 GiB."""
    main = ContainerTemplate("main", steady(0.1, needs), amounts(cores, 200))
    deployment = SimulatedDeployment("shop", "web", replicas, (main,), init=init, requests=own[0], limits=own[1])
    nodes = [SimulatedNode("node-1", Cores(4.0), Bytes(8 << 30))]
    return SimulatedCluster(name="demo", seed=1, start=START, nodes=nodes, deployments=[deployment], rules=rules)


def only(cluster: SimulatedCluster) -> Pod:
    (pod,) = cluster.pods()
    return pod


def test_init_containers_run_in_turn_and_sidecars_beside_all_that_follows() -> None:
    setup = ContainerTemplate("setup", steady(1.0, 50), amounts(0.1, 100), lasts=30)
    proxy = ContainerTemplate("proxy", steady(0.2, 60), amounts(0.1, 100), sidecar=True)
    cluster = cluster_of_pods(setup, proxy)
    told = []
    for step in range(1, 7):
        cluster.advance(START + 15 * step * SECOND)
        told.append(tuple(cluster.usage()[0].containers) if cluster.usage() else ())
    # started at 15, at work at 30 and 45, done at 60; the proxy starts then, and with it the container
    assert told == [(), ("setup",), ("setup",), (), ("proxy", "main"), ("proxy", "main")]
    pod = only(cluster)
    assert [(seen.name, seen.sidecar, seen.ready) for seen in pod.init_containers] == [
        ("setup", False, True),
        ("proxy", True, True),
    ]


def test_an_init_container_that_is_killed_keeps_its_pod_from_running() -> None:
    cluster = cluster_of_pods(ContainerTemplate("setup", steady(0.1, 300), amounts(0.1, 100), amounts(None, 200), lasts=30))
    cluster.advance(START + timedelta(minutes=10))
    [setup] = only(cluster).init_containers
    assert setup.broken
    assert setup.restarts > 3
    assert not any(seen.ready for seen in only(cluster).containers)
    assert only(cluster).ooms == (), "as the real client tells only of containers"


@pytest.mark.parametrize(
    ("init", "own", "counts"),
    [
        ((), Amounts(), 500),
        ((HALF_A_CORE,), Amounts(), 1000),
        # it runs alone, so only what it asks for beyond the container counts
        ((A_CORE_AT_FIRST,), Amounts(), 1000),
        # the sidecar runs beside the init container after it
        ((HALF_A_CORE, A_CORE_AT_FIRST), Amounts(), 1500),
        ((A_CORE_AT_FIRST, HALF_A_CORE), Amounts(), 1000),
        ((), amounts(2.0, None), 2000),
    ],
)
def test_the_scheduler_and_quotas_count_what_kubernetes_counts(
    init: tuple[ContainerTemplate, ...], own: Amounts, counts: int
) -> None:
    quota = SimulatedQuota("shop", "team", {"requests.cpu": 1_000_000})
    cluster = cluster_of_pods(*init, replicas=9, rules=PodAdmission([quota]), own=(own, Amounts()))
    cluster.advance(START + 15 * SECOND)
    assert sum(pod.node is not None for pod in cluster.pods()) == 4000 // counts
    assert used(quota, cluster.pods_by_name.values()) == {"requests.cpu": 9 * counts}


def test_memory_of_the_whole_pod_above_its_own_limit_kills_the_largest_container() -> None:
    proxy = ContainerTemplate("proxy", steady(0.1, 60), amounts(0.1, 50), sidecar=True)
    cluster = cluster_of_pods(proxy, needs=600, own=(amounts(1.0, 640), amounts(1.0, 640)))
    cluster.advance(START + timedelta(minutes=5))
    assert [kill.container for kill in only(cluster).ooms] == ["main"]
    assert only(cluster).init_containers[0].restarts == 0


@pytest.mark.parametrize("own", [NOTHING, (Amounts(), Amounts(Cores(0.0), Bytes(0)))])
def test_a_limit_of_zero_holds_nothing(own: tuple[Amounts, Amounts]) -> None:
    """autoscaler#7882: people write 0 for no limit, and so does the kubelet read it."""
    main = ContainerTemplate("main", steady(1.5, 900), Amounts(Cores(0.0), Bytes(0)), Amounts(Cores(0.0), Bytes(0)))
    deployment = SimulatedDeployment("shop", "web", 1, (main,), requests=own[0], limits=own[1])
    nodes = [SimulatedNode("node-1", Cores(4.0), Bytes(8 << 30))]
    cluster = SimulatedCluster(name="demo", seed=1, start=START, nodes=nodes, deployments=[deployment])
    cluster.advance(START + timedelta(minutes=5))
    [pod], [usage] = cluster.pods(), cluster.usage()
    assert (pod.ooms, usage.containers["main"]) == ((), Amounts(Cores(1.5), Bytes(900 * MIB)))
    limited = replace(pod, limits=Amounts(memory=Bytes(1 << 30)))
    assert (limited.limit_beside(limited.containers[0]), pod.limit_beside(pod.containers[0])) == (1 << 30, None)


def test_a_stateful_set_makes_each_pod_once_those_before_it_are_ready() -> None:
    main = ContainerTemplate("main", steady(0.1, 100), amounts(0.1, 200))
    web = SimulatedDeployment("shop", "web", 4, (main,), kind="StatefulSet")
    nodes = [SimulatedNode("node-1", Cores(4.0), Bytes(8 << 30))]
    cluster = SimulatedCluster(name="demo", seed=1, start=START, nodes=nodes, deployments=[web])
    numbers = [(cluster.advance(START + minutes * timedelta(minutes=1)), len(cluster.pods()))[1] for minutes in range(1, 6)]
    assert (numbers[0] < 4, sorted(numbers), numbers[-1]) == (True, numbers, 4)
    young = max(cluster.pods_by_name.values(), key=lambda pod: pod.ordinal)
    first = min(cluster.pods_by_name.values(), key=lambda pod: pod.ordinal)
    young.containers[0].kill(int(cluster.now.timestamp()))
    cluster.evict(first.name)
    cluster.advance(cluster.now + 15 * SECOND)
    assert sorted(pod.ordinal for pod in cluster.pods_by_name.values()) == [0, 1, 2, 3], "the first waits for nobody"


def test_cpu_of_the_whole_pod_is_throttled_for_all_alike() -> None:
    proxy = ContainerTemplate("proxy", steady(0.3, 60), amounts(0.1, 50), sidecar=True)
    cluster = cluster_of_pods(proxy, own=(amounts(0.2, None), amounts(0.2, None)), cores=0.1)
    cluster.advance(START + timedelta(minutes=5))
    [usage] = cluster.usage()
    assert {name: used.cpu for name, used in usage.containers.items()} == {"proxy": 0.15, "main": 0.05}


_PROXY = ContainerTemplate("proxy", None, amounts(0.1, None), sidecar=True)


@pytest.mark.parametrize(
    ("init", "own", "rules", "says"),
    [
        ((), (amounts(0.4, None), Amounts()), PodAdmission(), "greater than or equal to aggregate container requests of 0.5"),
        ((_PROXY,), (amounts(0.5, None), Amounts()), PodAdmission(), "aggregate container requests of 0.6"),
        ((), (amounts(2.0, None), amounts(1.0, None)), PodAdmission(), "cpu request 2 must be less than or equal to cpu limit 1"),
        (
            (_PROXY,),
            NOTHING,
            PodAdmission([SimulatedQuota("shop", "team", {"requests.memory": 1 << 40})]),
            "must specify requests.memory for: proxy",
        ),
        (
            (_PROXY,),
            NOTHING,
            PodAdmission((), [SimulatedLimitRange("shop", "r", (Limit(LimitType.CONTAINER, least=amounts(0.2, None)),))]),
            "minimum cpu usage per Container is 0.2, but request is 0.1",
        ),
        (
            (_PROXY,),
            NOTHING,
            PodAdmission((), [SimulatedLimitRange("shop", "r", (Limit(LimitType.POD, most=amounts(0.55, None)),))]),
            "maximum cpu usage per Pod is 0.55",
        ),
    ],
)
def test_new_pods_are_refused_for_what_all_their_parts_ask_for(
    init: tuple[ContainerTemplate, ...], own: tuple[Amounts, Amounts], rules: PodAdmission, says: str
) -> None:
    cluster = cluster_of_pods(*init, own=own, rules=rules)
    cluster.advance(START + 15 * SECOND)
    assert not cluster.pods()
    assert says in cluster.refusal(cluster.deployments[0])


def test_amounts_of_the_pod_itself_stand_for_those_that_a_quota_demands() -> None:
    quota = SimulatedQuota("shop", "team", {"limits.memory": 4 << 30})
    cluster = cluster_of_pods(_PROXY, own=(Amounts(), amounts(None, 1024)), replicas=5, rules=PodAdmission([quota]))
    cluster.advance(START + 15 * SECOND)
    assert [pod.requests.memory for pod in cluster.pods()] == [200 * MIB] * 4, "what its containers request is its default"
    assert "exceeded quota: team" in cluster.refusal(cluster.deployments[0])


@pytest.mark.parametrize(("since_136", "says"), [(True, "aggregate container requests of 0.9"), (False, "pod-level resources")])
def test_a_resize_beyond_the_pods_own_amounts_is_refused_and_before_kubernetes_136_any(since_136: bool, says: str) -> None:
    cluster = cluster_of_pods(own=(amounts(0.8, None), Amounts()), rules=PodAdmission(resizes_pod_level=since_136))
    cluster.advance(START + 60 * SECOND)
    with pytest.raises(ApiRefusal, match=says):
        cluster.resize(only(cluster).pod, requests={"main": amounts(0.9, None)}, limits={})
    if since_136:
        cluster.resize(only(cluster).pod, requests={"main": amounts(0.7, None)}, limits={})


def test_a_resize_of_an_init_container_is_refused() -> None:
    cluster = cluster_of_pods(_PROXY)
    cluster.advance(START + 60 * SECOND)
    with pytest.raises(ApiRefusal, match="no container 'proxy'"):
        cluster.resize(only(cluster).pod, requests={"proxy": amounts(0.2, None)}, limits={})


CORES, MIBIBYTES = (0.1, 0.2, 0.5, 1.0, 2.0), (64, 128, 256, 512, 1024)
AMOUNTS = st.builds(amounts, st.none() | st.sampled_from(CORES), st.none() | st.sampled_from(MIBIBYTES))
LIMITS = st.builds(Limit, st.sampled_from((LimitType.CONTAINER, LimitType.POD)), least=AMOUNTS, most=AMOUNTS)
HARD = st.dictionaries(
    st.sampled_from(("requests.cpu", "limits.cpu", "requests.memory", "limits.memory")),
    st.sampled_from((1500, 3000, 600 * MIB, 3000 * MIB)),
    max_size=2,
)


@st.composite
def pairs(draw: st.DrawFn, times: tuple[float, ...] = (1, 2)) -> tuple[Amounts, Amounts]:
    """Requests, and limits that are as large or larger, where there are some."""
    requests, most = draw(AMOUNTS), draw(AMOUNTS)
    factor = draw(st.sampled_from(times))
    cpu = None if most.cpu is None else Cores((requests.cpu or most.cpu) * factor)
    memory = None if most.memory is None else Bytes(int((requests.memory or most.memory) * factor))
    return requests, Amounts(cpu, memory)


@st.composite
def deployments(draw: st.DrawFn) -> SimulatedDeployment:
    containers = [ContainerTemplate(f"c{n}", None, *draw(pairs())) for n in range(draw(st.integers(1, 2)))]
    init = [ContainerTemplate(f"i{n}", None, *draw(pairs()), sidecar=draw(st.booleans())) for n in range(draw(st.integers(0, 2)))]
    own = draw(pairs((4, 8)) | st.just(NOTHING))
    return SimulatedDeployment("shop", "web", 1, tuple(containers), init=tuple(init), requests=own[0], limits=own[1])


@settings(max_examples=60, deadline=None)
@given(
    deployment=deployments(),
    ranges=st.lists(LIMITS, max_size=1),
    hard=HARD,
    asked_for=st.builds(amounts, st.sampled_from(CORES), st.sampled_from(MIBIBYTES)),
)
def test_a_resize_that_our_guards_let_pass_is_accepted(
    deployment: SimulatedDeployment, ranges: list[Limit], hard: dict[str, int], asked_for: Amounts
) -> None:
    """Two counts by Kubernetes' rules, each written for itself: that of the product and that of the simulated API server."""
    rules = PodAdmission([SimulatedQuota("shop", "q", hard)], [SimulatedLimitRange("shop", "r", tuple(ranges))])
    node = SimulatedNode("node-1", Cores(64.0), Bytes(256 << 30))
    cluster = SimulatedCluster(name="demo", seed=1, start=START, nodes=[node], deployments=[deployment], rules=rules)
    cluster.advance(START + 15 * SECOND)
    # a pod that is refused anyway shows nothing
    assume(cluster.pods())
    pod = only(cluster)
    # as our resizes are: requests of both, and limits as large where there are some
    changed = {
        seen.name: (asked_for, Amounts(seen.limits.cpu and asked_for.cpu, seen.limits.memory and asked_for.memory))
        for seen in pod.containers
    }
    bounds = limit_ranges.of_events([LimitRangeChanged(START, "demo", "shop", "r", tuple(ranges))])
    in_use = used(rules.quotas[0], cluster.pods_by_name.values())
    texts = [{name: spelled(name, listed[name]) for name in hard} for listed in (hard, in_use)]
    quota = ResourceQuotaChanged(START, "demo", "shop", "q", texts[0], texts[1])
    objection = resize_objection.objection(cluster_port.pod_changed(pod, START), changed, bounds, [quota])
    event(f"{'refused' if objection else 'passed'} by us")
    if objection is None:
        requests, limits = ({name: pair[kind] for name, pair in changed.items()} for kind in (0, 1))
        cluster.resize(pod.pod, requests=requests, limits=limits)
