"""What the inventory of the Cluster Autoscaler's behaviour lists, as input and expected outcome, under its numbers (C1 …)."""

import numpy as np
import pytest

from agents.logic.nodes.aws.group_options import GroupOptions
from agents.logic.nodes.growth import expanders, node_estimator, pending_pods, scale_up, similar_node_groups
from agents.logic.nodes.growth.expanders import Expander, ExpanderContext, ExpanderOption, Prices
from agents.logic.nodes.growth.node_estimator import EstimatorLimits, GroupRow, GroupTemplate, PodGroup
from agents.logic.nodes.growth.pending_pods import PendingSettings
from agents.logic.nodes.growth.scale_up import ClusterLimits, ScaleUp, ScaleUpSettings
from agents.logic.nodes.removal import drain_rules
from agents.logic.nodes.removal.drain_rules import (
    Blocking,
    DeletionParallelism,
    DisruptionBudget,
    DisruptionBudgets,
    DrainContext,
    DrainSettings,
    KnownControllers,
    RunningDeletions,
)
from agents.logic.nodes.removal.unneeded_nodes import ScaleDown, ScaleDownSettings, StayReason
from agents.logic.nodes.scheduling.node_columns import NodeRow
from agents.logic.nodes.scheduling.pod_shapes import (
    ZONE,
    AffinityTerm,
    Audience,
    HostPort,
    PodNature,
    PodOwner,
    PodShape,
    SchedulablePod,
    SchedulingNode,
)
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from agents.logic.nodes.scheduling.scheduling_selectors import equals
from schemas.well_known_labels import HOSTNAME

MIB = 2**20
GPU = "nvidia.com/gpu"


def a_node(name: str, cpu: int, memory: int, pods: int = 110, **extra: int) -> SchedulingNode:
    offered = {"cpu": cpu, "memory": memory, "pods": pods, **extra}
    return SchedulingNode(name, ((HOSTNAME, name), (ZONE, "z1")), allocatable=offered, capacity=offered)


def a_shape(cpu: int, memory: int, **more: object) -> PodShape:
    return PodShape(requests=(("cpu", cpu), ("memory", memory)), **more)  # type: ignore[arg-type]


def an_estimate(template: SchedulingNode, groups: list[PodGroup], most: int = 0) -> tuple[int, int]:
    cluster = ScheduledCluster()
    cluster.add(
        SchedulingNode("other", ((HOSTNAME, "other"), (ZONE, "z2")), allocatable={"cpu": 100, "memory": 100 * MIB, "pods": 10})
    )
    found = node_estimator.estimate(cluster, GroupTemplate(template), groups, EstimatorLimits((most,)))
    return found.nodes, sum(found.placed)


# 9.1 Estimator


@pytest.mark.parametrize(
    ("template", "groups", "most", "expected"),
    [
        pytest.param(a_node("t", 1000, 2000 * MIB, 10), [PodGroup(a_shape(350, 1000), 10)], 0, (5, 10), id="C1"),
        pytest.param(a_node("t", 10000, 20000 * MIB, 10), [PodGroup(a_shape(10, 100), 20)], 0, (2, 20), id="C2"),
        pytest.param(
            a_node("t", 1000, 5000 * MIB, 10), [PodGroup(a_shape(200, 1000, ports=(HostPort(5555),)), 8)], 0, (8, 8), id="C3"
        ),
        pytest.param(a_node("t", 1000, 5000 * MIB, 10), [PodGroup(a_shape(500, 1000), 20)], 5, (5, 10), id="C4"),
        pytest.param(
            a_node("t", 1000, 5000 * MIB, 10),
            [PodGroup(a_shape(50, 1000), 10), PodGroup(a_shape(500, 1000), 10)],
            5,
            (5, 10),
            id="C5",
        ),
        pytest.param(
            a_node("t", 1000, 5000 * MIB, 100),
            [PodGroup(a_shape(50, 100), 50_000), PodGroup(a_shape(95, 190), 1000)],
            3000,
            (2595, 51_000),
            id="C9",
        ),
    ],
)
def test_an_estimate_is_upstreams(template: SchedulingNode, groups: list[PodGroup], most: int, expected: tuple[int, int]) -> None:
    assert an_estimate(template, groups, most) == expected


def test_c5_places_the_larger_pods_although_the_smaller_came_first() -> None:
    groups = [PodGroup(a_shape(50, 1000), 10), PodGroup(a_shape(500, 1000), 10)]
    found = node_estimator.estimate(
        ScheduledCluster(), GroupTemplate(a_node("t", 1000, 5000 * MIB, 10)), groups, EstimatorLimits((5,))
    )
    assert found.placed == (0, 10)


@pytest.mark.parametrize(("thresholds", "expected"), [((0,), None), ((-1,), 0), ((0, 5, 10), 5), ((5, -1), 0)])
def test_c10_a_negative_threshold_forbids_and_zero_does_not_limit(thresholds: tuple[int, ...], expected: int | None) -> None:
    assert node_estimator.limit(thresholds) == expected


# 9.2 Expanders


def an_option(group: str, nodes: int, template: SchedulingNode, pods: int = 1) -> ExpanderOption:
    return ExpanderOption(group, nodes, template, pods, pods, pods)


def test_c12_c13_least_waste_goes_by_both_resources() -> None:
    balanced, highmem, lowcpu = (
        an_option(name, 1, a_node(name, c, m)) for name, c, m in (("b", 16, 16), ("h", 16, 32), ("l", 8, 16))
    )
    assert expanders.keep(Expander.LEAST_WASTE, [balanced, highmem], ExpanderContext(), []) == [balanced]
    assert expanders.keep(Expander.LEAST_WASTE, [balanced, highmem, lowcpu], ExpanderContext(), []) == [lowcpu]


def test_c14_least_nodes_keeps_ties_and_skips_none() -> None:
    node = a_node("t", 1000, 1000)
    options = [an_option(str(place), number, node) for place, number in enumerate((0, 2, 2, 4))]
    assert [one.group for one in expanders.keep(Expander.LEAST_NODES, options, ExpanderContext(), [])] == ["1", "2"]
    assert expanders.keep(Expander.LEAST_NODES, options[:1], ExpanderContext(), []) == []


def test_the_cheaper_group_wins_by_price_and_one_without_a_price_is_none() -> None:
    options = [ExpanderOption(name, 1, a_node(name, 4000, 2**34), 4, 4000, 2**33) for name in ("dear", "cheap", "unknown")]
    prices = Prices({"dear": 0.4, "cheap": 0.1}, core=0.03, gib=0.004)
    found = expanders.keep(Expander.PRICE, options, ExpanderContext(prices=prices, cluster_nodes=10), [])
    assert [one.group for one in found] == ["cheap"]


def test_a_price_score_is_the_sum_that_can_be_redone() -> None:
    option = ExpanderOption("g", 2, a_node("g", 4000, 2**34), 4, 4000, 2**33)
    prices = Prices({"g": 0.2}, core=0.03, gib=0.004)
    stable = 0.5 * 0.03 + 500 / 1024 * 0.004
    worth = 4 * 0.03 + 8 * 0.004
    suppressed = (1.0 - 1) * (1 - np.tanh(1 / 15)) + 1  # a cluster of 20 nodes suits nodes of four cores, which these are
    assert expanders.price_score(option, prices, 20) == pytest.approx(suppressed * (0.4 + stable) / (worth + stable))


def test_chance_is_the_seeds_and_reaches_every_option() -> None:
    node = a_node("t", 1000, 1000)
    options = [an_option(str(place), 1, node) for place in range(4)]
    chosen = [expanders.choose((Expander.RANDOM,), options, ExpanderContext(seed=seed)).best for seed in range(60)]
    again = [expanders.choose((Expander.RANDOM,), options, ExpanderContext(seed=seed)).best for seed in range(60)]
    assert chosen == again
    assert {one.group for one in chosen if one is not None} == {"0", "1", "2", "3"}


# 9.4 Limits and orchestration


def decided(
    groups: list[GroupRow], pods: list[PodShape], settings: ScaleUpSettings, nodes: list[SchedulingNode] | None = None
) -> ScaleUp:
    cluster = ScheduledCluster()
    cluster.add_all(nodes or [])
    pending_shapes = np.array([cluster.shape(pod) for pod in pods], np.int64)
    return scale_up.decide(cluster, groups, pending_shapes, settings, ExpanderContext())


def grown(found: ScaleUp) -> dict[str, int]:
    return {one.group: one.after for one in found.increases}


def test_c33_a_limit_on_cores_caps_the_growth_and_all_pods_count_as_triggered() -> None:
    group = GroupRow("g", 0, 10, 1, GroupTemplate(a_node("t", 2000, 2**30)))
    found = decided(
        [group],
        [a_shape(2000, 1)] * 2,
        ScaleUpSettings(limits=ClusterLimits(resources={"cpu": 9000})),
        [a_node("a", 2000, 2**30), a_node("b", 4000, 2**30)],
    )
    assert grown(found) == {"g": 2}
    assert found.triggered == [0, 1]


def test_c34_a_limit_on_memory_caps_the_growth() -> None:
    group = GroupRow("g", 0, 10, 1, GroupTemplate(a_node("t", 1000, 100 * MIB)))
    limits = ClusterLimits(resources={"memory": 1300 * MIB})
    nodes = [a_node("a", 1000, 100 * MIB), a_node("b", 1000, 1000 * MIB)]
    assert grown(decided([group], [a_shape(1, 100 * MIB)] * 3, ScaleUpSettings(limits=limits), nodes)) == {"g": 3}


def test_c35_the_most_nodes_of_the_cluster_cap_the_growth() -> None:
    group = GroupRow("g", 0, 10, 2, GroupTemplate(a_node("t", 1000, 2**30)))
    nodes = [a_node("a", 100, 2**30), a_node("b", 100, 2**30)]
    assert grown(decided([group], [a_shape(900, 1)] * 3, ScaleUpSettings(limits=ClusterLimits(nodes=3)), nodes)) == {"g": 3}


def test_c36_a_group_of_which_one_node_passes_a_limit_is_skipped_with_upstreams_words() -> None:
    groups = [
        GroupRow("small", 0, 10, 0, GroupTemplate(a_node("s", 2000, 2**30))),
        GroupRow("large", 0, 10, 0, GroupTemplate(a_node("l", 9000, 2**30))),
    ]
    found = decided(groups, [a_shape(1000, 1)], ScaleUpSettings(limits=ClusterLimits(resources={"cpu": 8000})))
    assert grown(found) == {"small": 1}
    assert found.skipped == {"large": 'exceeded quota: "cluster-wide", resources: cpu'}


def test_c38_pods_are_triggered_remain_or_await() -> None:
    groups = [
        GroupRow("one", 0, 10, 0, GroupTemplate(a_node("o", 1000, 2**30, gpu=1))),
        GroupRow("two", 0, 10, 0, GroupTemplate(a_node("t", 4000, 2**30))),
    ]
    fits_two, fits_none = a_shape(3900, 2**29), a_shape(9000, 1)
    fits_one = PodShape(requests=(("cpu", 10), ("gpu", 1), ("memory", 1)))
    found = decided(groups, [fits_two, fits_none, fits_one], ScaleUpSettings())
    assert grown(found) == {"two": 1}
    assert (found.triggered, found.remaining, found.awaiting) == ([0], [1], [2])


def test_beyond_upstream_several_groups_grow_in_one_decision() -> None:
    groups = [
        GroupRow("one", 0, 10, 0, GroupTemplate(a_node("o", 1000, 2**30, gpu=1))),
        GroupRow("two", 0, 10, 0, GroupTemplate(a_node("t", 4000, 2**30))),
    ]
    fits_one = PodShape(requests=(("cpu", 10), ("gpu", 1), ("memory", 1)))
    found = decided(groups, [a_shape(3900, 2**29), fits_one, a_shape(9000, 1)], ScaleUpSettings(several=True))
    assert grown(found) == {"one": 1, "two": 1}
    assert (found.triggered, found.remaining) == ([0, 1], [2])


def test_c39_nodes_with_more_gpus_need_fewer_of_them() -> None:
    pod = PodShape(requests=((GPU, 1),))
    for gpus, nodes in ((1, 3), (2, 2), (4, 1)):
        group = GroupRow("g", 0, 10, 0, GroupTemplate(a_node("t", 1000, 2**30, **{GPU: gpus})))
        assert grown(decided([group], [pod] * 3, ScaleUpSettings())) == {"g": nodes}


def test_c40_similar_groups_share_the_growth() -> None:
    sizes = (("ng1", 1, 1), ("ng2", 1, 2), ("ng3", 1, 5), ("ng4", 3, 5))
    groups = [GroupRow(name, 0, most, target, GroupTemplate(a_node(name, 1000, 2**30))) for name, target, most in sizes]
    found = decided(groups, [a_shape(900, 1)] * 2, ScaleUpSettings(likeness=similar_node_groups.SimilarityRules()))
    assert grown(found) == {"ng2": 2, "ng3": 2}
    assert found.skipped == {"ng1": "max node group size reached"}


def test_c42_a_minimum_is_enforced_as_far_as_the_limits_let_it() -> None:
    cluster = ScheduledCluster()
    cluster.add_all([a_node("a", 16000, 2**30), a_node("b", 16000, 2**30)])
    group = GroupRow("g", 3, 10, 1, GroupTemplate(a_node("t", 16000, 2**30)))
    settings = ScaleUpSettings(limits=ClusterLimits(resources={"cpu": 48_000}))
    raised = scale_up.below_minimum([group], cluster, settings)
    assert [(one.group, one.after) for one in raised] == [("g", 2)]


def test_c43_a_group_says_why_it_may_not_grow() -> None:
    template = GroupTemplate(a_node("t", 1000, 2**30))
    groups = [
        GroupRow("full", 0, 3, 3, template),
        GroupRow("failed", 0, 3, 0, template, backed_off=True),
        GroupRow("sick", 0, 3, 0, template, healthy=False),
        GroupRow("unknown", 0, 3, 0, None),
    ]
    found = decided(groups, [a_shape(1, 1)], ScaleUpSettings())
    assert found.skipped == {
        "full": "max node group size reached",
        "failed": "in backoff after failed scale-up",
        "sick": "not ready for scale-up",
        "unknown": "not ready for scale-up",
    }
    assert found.increases == []


# 9.5 Which pods count


def a_pod(age: float, *, delay: str = "", priority: int | None = None, gpu: int = 0) -> SchedulablePod:
    shape = PodShape(requests=(("cpu", 100), *(((GPU, gpu),) if gpu else ())))
    return SchedulablePod(
        "p", PodNature(shape, annotations={pending_pods.DELAY: delay} if delay else {}, priority=priority), created=1000 - age
    )


@pytest.mark.parametrize(
    ("pod", "overall", "counts"),
    [
        pytest.param(a_pod(60, delay="5m"), 0, False, id="C45 too young for its annotation"),
        pytest.param(a_pod(301, delay="5m"), 0, True, id="C45 old enough"),
        pytest.param(a_pod(200, delay="2m"), 300, False, id="C46 the longer delay of all applies"),
        pytest.param(a_pod(301, delay="x"), 300, True, id="C46 nonsense is ignored"),
    ],
)
def test_a_pod_waits_for_its_delay(pod: SchedulablePod, overall: float, counts: bool) -> None:
    assert (pending_pods.old_enough([pod], PendingSettings(delay=overall), 1000.0) == [pod]) is counts


def test_c47_c48_pods_that_are_all_new_are_waited_for() -> None:
    settings = PendingSettings()
    assert pending_pods.all_new([a_pod(1)], settings, 1000.0)
    assert not pending_pods.all_new([a_pod(1), a_pod(3)], settings, 1000.0)
    assert pending_pods.all_new([a_pod(3), a_pod(20, gpu=1)], settings, 1000.0)
    assert not pending_pods.all_new([a_pod(3), a_pod(31, gpu=1)], settings, 1000.0)


@pytest.mark.parametrize(("priority", "expected"), [(-11, True), (-10, False), (None, False)])
def test_c49_pods_below_the_cutoff_are_expendable(priority: int | None, expected: bool) -> None:
    assert pending_pods.expendable(a_pod(60, priority=priority).nature, PendingSettings()) is expected


# 9.7 Scale-down


@pytest.mark.parametrize(
    ("previous", "unneeded_time", "interval", "expected"),
    [(0, 60, 10, 20), (3, 60, 10, 23), (70, 60, 10, 70), (77, 60, 10, 70), (0, 0, 10, 20), (13, 60, 1, 33), (13, 60, 30, 30)],
)
def test_c76_c77_only_so_many_unneeded_nodes_are_looked_for(
    previous: int, unneeded_time: float, interval: float, expected: int
) -> None:
    assert drain_rules.most_unneeded(previous, 10, unneeded_time, interval) == expected


@pytest.mark.parametrize(
    ("empty", "drain", "most", "running", "expected"),
    [
        pytest.param(11, 0, DeletionParallelism(10, 5), RunningDeletions(), (10, 0), id="C80 too many"),
        pytest.param(10, 0, DeletionParallelism(10, 5), RunningDeletions(1, 1), (8, 0), id="C80 some run"),
        pytest.param(3, 3, DeletionParallelism(10, 5), RunningDeletions(5, 5), (0, 0), id="C80 all run"),
        pytest.param(0, 6, DeletionParallelism(10, 5), RunningDeletions(), (0, 5), id="C81 too many"),
        pytest.param(0, 5, DeletionParallelism(10, 5), RunningDeletions(1, 2), (0, 3), id="C81 some drain"),
        pytest.param(0, 4, DeletionParallelism(10, 5), RunningDeletions(7, 1), (0, 2), id="C81 little is left"),
        pytest.param(8, 8, DeletionParallelism(10, 5), RunningDeletions(), (8, 2), id="C82"),
        pytest.param(3, 4, DeletionParallelism(), RunningDeletions(), (3, 1), id="C83"),
    ],
)
def test_budgets_crop_the_nodes_that_go(
    empty: int, drain: int, most: DeletionParallelism, running: RunningDeletions, expected: tuple[int, int]
) -> None:
    chosen = drain_rules.crop_to_parallelism([f"e{i}" for i in range(empty)], [f"d{i}" for i in range(drain)], most, running)
    assert (len(chosen[0]), len(chosen[1])) == expected


REPLICATED = (PodOwner("ReplicaSet", "rs", "apps/v1"),)
SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}


def a_scene(now: float) -> DrainContext:
    return DrainContext(now, DrainSettings(), KnownControllers({("ReplicaSet", "default", "rs"): 10}), DisruptionBudgets([]))


def looked(down: ScaleDown, used: list[int], now: float, *, ready: bool = True) -> ScheduledCluster:
    """One look at nodes of 1000 m each, of which the n-th runs one pod of `used[n]` m (none if 0)."""
    cluster = ScheduledCluster()
    cluster.add_all([a_node(f"n{i}", 1000, 2**30) for i in range(len(used))])
    nodes = []
    for row, cpu in enumerate(used):
        pods = [SchedulablePod(f"p{row}", PodNature(a_shape(cpu, 1), REPLICATED, SAFE))] if cpu else []
        for pod in pods:
            cluster.place(cluster.shape(pod.shape), row)
        nodes.append(NodeRow(row, cluster.columns.nodes[row], "g", pods, 0.0, ready=ready))
    down.look(cluster, nodes, {"g": GroupRow("g", 1, 100, 10)}, a_scene(now))
    return cluster


def test_c75_a_node_used_by_more_than_the_threshold_is_no_candidate() -> None:
    down = ScaleDown(ScaleDownSettings())
    looked(down, [600, 500, 100], 0.0)
    assert down.stays["n0"].reason is StayReason.USED
    assert set(down.unneeded) == {"n1"}, "its pod goes to n2, which then finds no room for both"
    assert down.stays["n2"].reason is StayReason.NO_PLACE


@pytest.mark.parametrize(
    ("target", "draining", "expected"),
    [
        pytest.param(10, 2, (3, 2), id="C78 room for all"),
        pytest.param(10, 5, (3, 4), id="C78 room for four to drain"),
        pytest.param(5, 5, (2, 0), id="C79"),
    ],
)
def test_the_minimum_counts_running_deletions(target: int, draining: int, expected: tuple[int, int]) -> None:
    settings = ScaleDownSettings(parallelism=DeletionParallelism(100, 100), default=GroupOptions(unneeded=0))
    down = ScaleDown(settings)
    cluster = looked(down, [900, *[10] * draining, 0, 0, 0], 0.0)
    groups = {"g": GroupRow("g", 1, 100, target, options=GroupOptions(unneeded=0), deleting=2)}
    chosen = down.choose(groups, RunningDeletions(), cluster, 1.0)
    assert (len(chosen.empty), len(chosen.drain)) == expected
    left = 3 + draining - sum(expected)
    assert sum(stay.reason is StayReason.MIN_SIZE for stay in chosen.waiting.values()) == left


def test_c92_a_node_that_becomes_unready_waits_longer_from_the_same_start() -> None:
    down = ScaleDown(ScaleDownSettings())
    looked(down, [900, 0], 0.0)
    groups = {"g": GroupRow("g", 1, 100, 10)}
    cluster = looked(down, [900, 0], 601.0, ready=False)
    assert down.choose(groups, RunningDeletions(), cluster, 601.0).waiting["n1"].reason is StayReason.NOT_UNREADY_LONG_ENOUGH
    cluster = looked(down, [900, 0], 1201.0, ready=False)
    assert [one.node.name for one in down.choose(groups, RunningDeletions(), cluster, 1201.0).empty] == ["n1"]


def test_a_timer_starts_anew_when_a_node_was_needed_in_between() -> None:
    down = ScaleDown(ScaleDownSettings())
    looked(down, [900, 0], 0.0)
    looked(down, [900, 800], 300.0)
    cluster = looked(down, [900, 0], 601.0)
    assert (
        down.choose({"g": GroupRow("g", 1, 100, 10)}, RunningDeletions(), cluster, 601.0).waiting["n1"].reason
        is StayReason.NOT_LONG_ENOUGH
    )


def test_c93_a_pod_that_moved_in_the_simulation_counts_where_it_went() -> None:
    down = ScaleDown(ScaleDownSettings())
    looked(down, [420, 300, 250], 0.0)
    # 250 m would go beside 300 m, both again beside 420 m; one of the three nodes must keep them all.
    assert len(down.unneeded) == 2
    destinations = {row for one in down.unneeded.values() for row, _pods in one.moves}
    last = {f"n{row}" for row in destinations} - set(down.unneeded)
    assert len(last) == 1


def test_c94_a_failed_simulation_is_believed_for_five_minutes() -> None:
    down = ScaleDown(ScaleDownSettings())
    looked(down, [950, 100], 0.0)
    assert down.stays["n1"].reason is StayReason.NO_PLACE
    looked(down, [100, 100], 200.0)
    assert down.stays["n1"].reason is StayReason.RECENT
    looked(down, [100, 100], 300.0)
    assert "n1" not in down.stays or down.stays["n1"].reason is not StayReason.RECENT


def a_look(pods: list[SchedulablePod], scene: DrainContext) -> ScaleDown:
    """One look at as many nodes of 1000 m as there are pods, each of which runs one of them."""
    cluster = ScheduledCluster()
    cluster.add_all([a_node(f"n{i}", 1000, 2**30) for i in range(len(pods))])
    nodes = [NodeRow(row, cluster.columns.nodes[row], "g", [pod], 0.0) for row, pod in enumerate(pods)]
    for row, pod in enumerate(pods):
        cluster.place(cluster.shape(pod.shape), row)
    down = ScaleDown(ScaleDownSettings())
    down.look(cluster, nodes, {"g": GroupRow("g", 1, 100, 10)}, scene)
    return down


def test_a_node_whose_removal_failed_still_takes_pods_of_others() -> None:
    pinned = SchedulablePod("pinned", PodNature(a_shape(100, 1, node_selector=((HOSTNAME, "n0"),)), REPLICATED, SAFE))
    full, small = (SchedulablePod(str(cpu), PodNature(a_shape(cpu, 1), REPLICATED, SAFE)) for cpu in (950, 100))
    down = a_look([pinned, full, small], a_scene(0.0))
    assert down.stays["n0"].reason is StayReason.NO_PLACE
    assert [(row, [pod.name for pod in pods]) for row, pods in down.unneeded["n2"].moves] == [(0, ["100"])]


def test_what_one_removal_takes_from_a_disruption_budget_the_next_does_not_have() -> None:
    protected = [SchedulablePod(f"p{i}", PodNature(a_shape(100, 1, labels=(("app", "x"),)), REPLICATED)) for i in range(3)]
    budget = DisruptionBudget("one", "default", equals({"app": "x"}), 1)
    scene = DrainContext(
        0.0, DrainSettings(), KnownControllers({("ReplicaSet", "default", "rs"): 3}), DisruptionBudgets([budget])
    )
    down = a_look(protected, scene)
    assert set(down.unneeded) == {"n0"}
    assert down.stays["n1"].reason is StayReason.BLOCKED
    assert down.stays["n1"].blocking is Blocking.DISRUPTION_BUDGET


# Rules that the vectors do not reach


def test_pods_that_keep_apart_by_host_need_a_node_each() -> None:
    term = AffinityTerm(Audience(equals({"app": "x"}), frozenset(("default",))), HOSTNAME)
    pod = a_shape(10, 1, labels=(("app", "x"),), anti_affinity=(term,))
    assert an_estimate(a_node("t", 1000, 2**30), [PodGroup(pod, 7)]) == (7, 7)


def test_a_pod_that_waits_is_told_for_each_group_why() -> None:
    cluster = ScheduledCluster()
    pod = cluster.shape(a_shape(2000, 1, node_selector=(("pool", "a"),)))
    labelled = SchedulingNode("l", ((HOSTNAME, "l"), ("pool", "a")), allocatable={"cpu": 1000, "memory": 2**30, "pods": 10})
    groups = [
        GroupRow("plain", 0, 1, 0, GroupTemplate(a_node("p", 4000, 2**30))),
        GroupRow("small", 0, 1, 0, GroupTemplate(labelled)),
    ]
    found = {name: (one.plugin, one.reasons) for name, one in scale_up.why_not(cluster, groups, pod).items()}
    assert found == {
        "plain": ("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",)),
        "small": ("NodeResourcesFit", ("Insufficient cpu",)),
    }
    assert cluster.size == 0
