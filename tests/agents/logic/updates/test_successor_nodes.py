"""No pod is evicted whose successor no node could take: by the nodes that are there, groups that may grow, and DaemonSets."""

from dataclasses import replace
from typing import Any

import pytest

from agents.logic.updates.successor_nodes import requested
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.facts.nodes import (
    NodeChanged,
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceSeen,
    NodeRemoved,
    NodeTemplateSeen,
    ScalingActivityFailed,
)
from schemas.facts.pods import ContainerSeen, PodDeleted, PodPhase
from schemas.names import Amounts, Workload
from schemas.outcomes import Action, Result
from schemas.policies.vertical import UpdateMode
from tests.agents.logic.updates.test_updater import LATER, at_once, finished, look, open_stage, recommend
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, when

RECREATE = UpdateMode.RECREATE
AGENT = Workload("demo", "kube-system", "DaemonSet", "agent")


FAILED = ScalingActivityFailed(when(START), "demo", "big", "a1", "InsufficientInstanceCapacity")
COME = NodeInstanceSeen(when(START + MINUTE), "demo", "big", "i1", "aws:///a/i1", launched=when(START + 1))


def node(name: str = "n1", cores: float = 4.0, memory: float = 8.0 * GIB) -> NodeChanged:
    return NodeChanged(when(START), "demo", name, Amounts(cores, memory))  # type: ignore[arg-type]  # units


def group(name: str = "big", cores: int = 16, *, desired: int = 0, most: int = 3) -> NodeGroupSeen:
    template = NodeTemplateSeen(allocatable={"cpu": cores * 1000, "memory": 64 * GIB})
    return NodeGroupSeen(when(START), "demo", name, 0, most, desired, template)


def plans(*facts: Any, target: float = 6.0, mode: Any = RECREATE, groups: Any = (), **changed: Any) -> Any:
    """What is decided about three pods that request 1 core, on these nodes, when `target` cores are recommended."""
    stage = open_stage(mode=mode, **changed)
    look(stage, START + MINUTE, cluster_changes=list(facts), node_group_changes=list(groups))
    return at_once(stage, low=target, target=target, high=target)


def test_a_successor_that_no_node_could_take_is_refused_and_the_sentence_says_what_to_change() -> None:
    [refused] = plans(node("n1"), node("n2", 2.0))
    assert (type(refused), refused.guard, refused.pods) == (UpdateRefused, "node", 3)
    assert "would request 6000m and 1.00 GiB: node 'n1' has most, 4000m and 8.00 GiB beside DaemonSets" in refused.reason
    assert "larger node" in refused.reason


@pytest.mark.parametrize(
    ("facts", "groups", "changed"),
    [
        ([node("n1", 6.0)], [], {}),
        ([node("n1"), node("n2", 16.0)], [], {}),
        ([node("n1")], [group()], {}),
        ([], [], {}),
        ([node("n1", 0.0)], [], {}),
        ([node("n1")], [], {"honor_nodes": False}),
        ([node("n1")], [], {"profile": "upstream"}),
    ],
)
def test_one_that_a_node_or_a_growing_group_could_take_is_let_go(facts: Any, groups: Any, changed: Any) -> None:
    [first, *_] = plans(*facts, groups=groups, **changed)
    assert isinstance(first, EvictionPlanned)


def test_a_full_group_adds_no_node_and_one_that_is_gone_neither() -> None:
    [refused] = plans(node("n1"), groups=[group(desired=3)])
    assert refused.guard == "node"
    [refused] = plans(node("n1"), groups=[group(), NodeGroupGone(when(START), "demo", "big")])
    assert refused.guard == "node"
    [refused] = plans(node("n1"), node("n2", 16.0), NodeRemoved(when(START), "demo", "n2"))
    assert refused.guard == "node"


def test_what_daemonsets_request_is_not_there_for_others() -> None:
    daemon = pod("agent", START, workload=AGENT, node="n1", containers=(ContainerSeen("agent", Amounts(0.5, GIB)),))
    stage = open_stage(*(pod(name, START) for name in "abc"), daemon, mode=RECREATE)
    look(stage, START + MINUTE, cluster_changes=[node("n1", 6.0)])
    [refused] = [each for each in at_once(stage, low=6.0, target=6.0, high=6.0) if isinstance(each, UpdateRefused)]
    assert "node 'n1' has most, 5500m and 7.00 GiB beside DaemonSets" in refused.reason


def test_a_pod_that_comes_to_ask_for_less_is_let_go_whatever_nodes_have() -> None:
    [first, *_] = plans(node("n1", 0.1), target=0.2)
    assert isinstance(first, EvictionPlanned)


def test_an_attempt_in_place_is_not_held_back() -> None:
    """The kubelet says at once that it cannot be, and the pod stays."""
    [first, *_] = plans(node("n1"), mode=UpdateMode.IN_PLACE_OR_RECREATE)
    assert isinstance(first, ResizePlanned)


def full(*more: Any, target: float = 1.5, groups: Any = (), nodes: Any = None, **changed: Any) -> Any:
    """Three pods of 1 core on a node of 3.4 cores; each of them leaves 1.4 when it goes, and `target` is recommended."""
    here = [pod(name, START, node="n1") for name in "abc"]
    stage = open_stage(*here, *more, mode=RECREATE, **changed)
    look(stage, START + MINUTE, cluster_changes=nodes or [node("n1", 3.4)], node_group_changes=list(groups))
    return at_once(stage, low=target, target=target, high=target)


def daemon_evicted(room: NodeChanged, *groups: NodeGroupSeen) -> tuple[list[str], list[str]]:
    """The pods of a DaemonSet that are evicted, and why others are not: one on this node, of 1 core that would get 1.5."""
    containers = (ContainerSeen("app", Amounts(1.0, GIB), Amounts(2.0, 2 * GIB), ready=True),)  # type: ignore[arg-type]  # units
    agents = [pod(name, START, workload=AGENT, node=name, containers=containers) for name in ("n1", "n2")]
    stage = open_stage(*agents, mode=RECREATE)
    look(stage, START + MINUTE, cluster_changes=[room, node("n2", 1.2)], node_group_changes=list(groups))
    decided = at_once(stage, low=1.5, target=1.5, high=1.5, workload=AGENT)
    refused = [each.reason for each in decided if isinstance(each, UpdateRefused)]
    return [each.pod.name for each in decided if isinstance(each, EvictionPlanned)], refused


def test_a_node_that_may_come_is_no_room_for_a_pod_of_a_daemonset() -> None:
    """gardener#15360: a larger pod of a DaemonSet comes back to its full node, where it waits or takes the place of others."""
    evicted, [reason] = daemon_evicted(node("n1", 1.4), group())
    assert (evicted, "100m and 0 MiB are missing" in reason) == ([], True)


@pytest.mark.parametrize("schedulable", [True, False])
def test_a_pod_of_a_daemonset_comes_back_to_a_cordoned_node(schedulable: bool) -> None:
    """kubernetes#67845: such pods tolerate the cordon. Before: "no node has room now", whatever the node had."""
    assert daemon_evicted(replace(node("n1", 1.6), schedulable=schedulable))[0] == ["n1"]
    evicted, reasons = daemon_evicted(replace(node("n1", 1.4), schedulable=schedulable))
    assert (evicted, ["100m and 0 MiB are missing" in reason for reason in reasons]) == ([], [True])


def test_a_pod_of_a_daemonset_stays_on_a_node_that_is_not_ready_and_the_sentence_says_so() -> None:
    """kubernetes#70184: its successor could not begin while the node is down."""
    evicted, [reason] = daemon_evicted(replace(node("n1", 1.6), ready=False))
    assert (evicted, "node 'n1' is not ready" in reason) == ([], True)


def test_nobody_is_evicted_in_a_full_cluster_whose_successor_would_wait() -> None:
    [refused] = full()
    assert (type(refused), refused.guard, refused.pods) == (UpdateRefused, "node", 3)
    assert "would request 1500m and 1.00 GiB: 100m and 0 MiB are missing" in refused.reason
    assert "Add a node, free one, or set updates.other_autoscaler" in refused.reason


OTHER = Workload("demo", "web", "Deployment", "other")
KARPENTER = replace(node("n1", 3.4), labels={"karpenter.sh/nodepool": "default"})


@pytest.mark.parametrize(
    ("nodes", "groups", "changed"),
    [
        ([node("n1", 3.5)], [], {}),  # what the pod frees is enough
        ([node("n1", 3.4), node("n2", 1.5)], [], {}),
        ([node("n1", 3.4)], [group(cores=2)], {}),
        ([KARPENTER], [], {}),
        ([node("n1", 3.4)], [], {"other_autoscaler": True}),
        ([node("n1", 3.4)], [], {"honor_nodes": False}),
        ([node("n1", 3.4)], [], {"profile": "upstream"}),
    ],
)
def test_one_is_let_go_where_a_node_has_room_or_may_come(nodes: Any, groups: Any, changed: Any) -> None:
    [first, *_] = full(nodes=nodes, groups=groups, **changed)
    assert isinstance(first, EvictionPlanned)


@pytest.mark.parametrize(
    ("nodes", "groups", "more"),
    [
        ([node("n1", 3.4), replace(node("n2", 2.0), schedulable=False)], [], []),
        ([node("n1", 3.4), replace(node("n2", 2.0), ready=False)], [], []),
        ([node("n1", 3.4)], [group(cores=1)], []),
        ([node("n1", 3.5)], [], [pod("w", START, workload=OTHER, node=None, phase=PodPhase.PENDING)]),  # it would come first
        ([node("n1", 3.4), node("n2", 2.0)], [], [pod("o", START, workload=OTHER, node="n2")]),
        ([node("n1", 3.4), node("n2", 2.0)], [], [pod("o", START, workload=OTHER, node="n2", leaving=True)]),
    ],
)
def test_what_takes_no_pods_or_is_taken_is_no_room(nodes: Any, groups: Any, more: Any) -> None:
    decided = full(*more, nodes=nodes, groups=groups)
    assert {each.guard for each in decided if isinstance(each, UpdateRefused)} == {"node"}
    assert not any(isinstance(each, EvictionPlanned) for each in decided)


def test_a_room_is_given_to_one_successor_alone_also_in_the_next_interval() -> None:
    stage = open_stage(*(pod(name, START, node="n1") for name in "abc"), mode=RECREATE, eviction_tolerance=1.0)
    look(stage, START + MINUTE, cluster_changes=[node("n1", 3.0), node("n2", 1.6)])
    decided = at_once(stage, low=1.6, target=1.6, high=1.6)
    # the second pod that goes has 1 core that the first one leaves on n1, beside its own
    assert [type(each) for each in decided] == [EvictionPlanned, EvictionPlanned, UpdateRefused]
    assert look(stage, LATER + MINUTE) == []


def test_where_a_pod_runs_on_an_unknown_node_nobody_is_held_back() -> None:
    [first, *_] = full(pod("z", START, workload=OTHER))
    assert isinstance(first, EvictionPlanned)


def test_a_daemon_that_does_not_fit_its_own_node_any_more_stays() -> None:
    """Another node is no help for it."""
    here = [
        pod("z", START, node="n1", workload=OTHER),
        pod("d", START, node="n1", workload=AGENT),
        pod("e", START, node="n2", workload=AGENT),
    ]
    stage = open_stage(*here, mode=RECREATE, protected_namespaces="", eviction_tolerance=1.0)
    look(stage, START + MINUTE, cluster_changes=[node("n1", 2.4), node("n2", 4.0)])
    decided = look(stage, LATER, recommendations_by_cluster=[recommend(LATER, AGENT, low=1.5, target=1.5, high=1.5)])
    assert [(type(each).__name__, each.pod.name) for each in decided] == [("EvictionPlanned", "e"), ("UpdateRefused", "d")]


def test_a_pod_that_serves_nobody_may_go_and_wait() -> None:
    broken = ContainerSeen("app", Amounts(1.0, GIB), restarts=2)
    stage = open_stage(*(pod(name, START, node="n1", containers=(broken,)) for name in "abc"), mode=RECREATE)
    look(stage, START + MINUTE, cluster_changes=[node("n1", 3.4)])
    assert isinstance(at_once(stage, low=1.5, target=1.5, high=1.5)[0], EvictionPlanned)


def test_the_room_of_a_successor_that_is_not_seen_yet_is_not_given_away_again() -> None:
    """Only node n1 has room for 1.5 cores, and the successor of the pod that was there will take them."""
    stage = open_stage(
        pod("a", START, node="n1"), pod("b", START, node="n2"), mode=RECREATE, eviction_tolerance=1.0, min_replicas=1
    )
    look(stage, START + MINUTE, cluster_changes=[node("n1", 2.0), node("n2", 1.2)])
    [first, *_] = at_once(stage, low=1.5, target=1.5, high=1.5)
    assert (type(first), first.pod.name) == (EvictionPlanned, "a")
    gone, done = PodDeleted(when(LATER + 1), API, first.pod), finished(first, Result.DONE, Action.EVICT)
    decided = look(stage, LATER + MINUTE, outcomes=[done], pod_changes_by_cluster=[gone])
    assert not any(isinstance(each, EvictionPlanned) for each in decided)


def test_a_resumed_stage_knows_the_nodes() -> None:
    stage, other = open_stage(mode=RECREATE), open_stage(mode=RECREATE)
    look(stage, START + MINUTE, cluster_changes=[node("n1")], node_group_changes=[group(desired=3)])
    for chunk in stage.chunks():
        other.load(chunk, stage.dump(chunk))
    [refused] = look(other, LATER, recommendations_by_cluster=[recommend(LATER, low=6.0, target=6.0, high=6.0)])
    assert refused.guard == "node"


def test_sidecars_count_beside_the_containers_and_beside_the_init_containers_after_them() -> None:
    app, side = ContainerSeen("app", Amounts(1.0, GIB)), ContainerSeen("mesh", Amounts(0.5, GIB), sidecar=True)
    first = ContainerSeen("setup", Amounts(0.2, 8 * GIB))
    fact = pod("a", START, containers=(app,), init_containers=(side, first))
    assert requested(fact, {}) == (1.5, 9 * GIB)
    assert requested(replace(fact, init_containers=(first, side)), {}) == (1.5, 8 * GIB)
    assert requested(fact, {"app": Amounts(2.0, None)}) == (2.5, 9 * GIB)
    assert requested(replace(fact, requests=Amounts(3.0, None)), {}) == (3.0, 9 * GIB)


@pytest.mark.parametrize(
    ("groups", "goes"),
    [
        ([group()], True),
        ([group(), FAILED], False),
        ([group(), FAILED, group()], False),
        ([group(), FAILED, replace(COME, launched=when(START - 60 * MINUTE))], False),
        ([group(), FAILED, COME], True),
        ([group(), replace(FAILED, at=when(START - 60 * MINUTE))], True),
    ],
)
def test_in_a_full_cluster_no_node_is_expected_of_a_group_whose_cloud_has_just_failed_it(groups: Any, goes: bool) -> None:
    first = full(groups=groups)[0]
    assert isinstance(first, EvictionPlanned) is goes
    assert goes or first.guard == "node"
