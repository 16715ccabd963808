"""Sections 9.1 to 9.5 of the inventory of the Cluster Autoscaler's behaviour, where `test_conformance` has them not: growth."""

import pytest
import yaml

from agents.logic.nodes.growth import expanders, node_estimator, similar_node_groups
from agents.logic.nodes.growth.expanders import ExpanderContext, ExpanderOption, PrioritiesError
from agents.logic.nodes.growth.node_estimator import EstimatorLimits, GroupRow, GroupTemplate, PodGroup
from agents.logic.nodes.growth.similar_node_groups import SimilarityRules, TemplateUsage
from agents.logic.nodes.scheduling import placement_rules
from agents.logic.nodes.scheduling.pod_shapes import ZONE, PodShape, SchedulingNode
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from schemas.decisions.node_updates import ScaleRefused, ScaleUpPlanned
from schemas.facts.nodes import NodeTemplateSeen
from schemas.outcomes import Result
from schemas.well_known_labels import HOSTNAME
from tests.support.node_scene import SIZE, ScalerRun, controller, group, joined, node, pod, shape

MIB, GPU = 2**20, "nvidia.com/gpu"
PRIORITIES = "5:\n - .*t2\\.micro.*\n10:\n - .*t2\\.large.*\n - .*t3\\.large.*\n50:\n - .*m4\\.4xlarge.*\n"
QUICK = {"unneeded_time": 3.0, "delay_after_add": 0.0, "interval": 1.0}


def a_node(name: str, cpu: int, memory: int, pods: int, zone: str = "z1") -> SchedulingNode:
    offered = {"cpu": cpu, "memory": memory, "pods": pods}
    return SchedulingNode(name, ((HOSTNAME, name), (ZONE, zone)), allocatable=offered, capacity=offered)


def spread(cpu: int, memory: int, key: str, skew: int, domains: int) -> PodShape:
    """Pods with a label of their own that are to be spread."""
    rule = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "minDomains": domains}
    whole = [{**rule, "labelSelector": {"matchLabels": {"app": "x"}}}]
    whose = placement_rules.RuleOwner("default", {"app": "x"})
    requests = (("cpu", cpu), ("memory", memory))
    return PodShape(labels=(("app", "x"),), requests=requests, spread=placement_rules.spread(whole, whose))


@pytest.mark.parametrize(
    ("shape_", "pods", "expected"),
    [
        pytest.param(spread(200, 200, HOSTNAME, 2, 1), 8, (4, 8), id="C6"),
        pytest.param(spread(20, 100, ZONE, 2, 1), 8, (1, 2), id="C7"),
        pytest.param(spread(20, 100, HOSTNAME, 1, 3), 12, (3, 12), id="C8"),
    ],
)
def test_pods_that_are_spread_need_as_many_nodes_as_upstream_counts(
    shape_: PodShape, pods: int, expected: tuple[int, int]
) -> None:
    cluster = ScheduledCluster()
    cluster.add(a_node("other", 100, 100 * MIB, 10, "z2"))
    found = node_estimator.estimate(
        cluster, GroupTemplate(a_node("t", 1000, 5000 * MIB, 10)), [PodGroup(shape_, pods)], EstimatorLimits((0,))
    )
    assert (found.nodes, sum(found.placed)) == expected


def test_c11_a_cluster_with_as_many_nodes_as_it_may_have_gets_none() -> None:
    run = ScalerRun(group(desired=2), *joined("n1"), *joined("n2"), shape(cpu=4000), settings={"most_nodes": 2})
    run.step(pod("full-1", node="n1"), pod("full-2", node="n2"), pod("waits"))
    run.run(5.0)
    assert run.grown == []
    assert "MaxNodesTotalReached" in [one.code for one in run.of(ScaleRefused)]


# 9.2 Expanders


def kept(names: list[str], text: str | None, chain: str = "priority") -> list[str]:
    options = [ExpanderOption(name, place + 1, a_node(name, 1000, MIB, 10), 1, 1, 1) for place, name in enumerate(names)]
    priorities = None if text is None else expanders.read_priorities(yaml.safe_load(text))
    return [one.group for one in expanders.choose(expanders.chain(chain.split(",")), options, ExpanderContext(priorities)).equals]


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        pytest.param(["t2.large", "m4.4xlarge"], PRIORITIES, ["m4.4xlarge"], id="C15"),
        pytest.param(["t2.large", "t3.large", "t2.micro"], PRIORITIES, ["t2.large", "t3.large"], id="C16"),
        pytest.param(["t2.large", "t3.large"], "5:\n - .*\n10:\n - .*t2\\.large.*\n", ["t2.large"], id="C17"),
        pytest.param(["t2.large", "t3.large"], None, ["t2.large", "t3.large"], id="C18 no ConfigMap"),
    ],
)
def test_the_groups_of_the_highest_priority_that_matches_stay(names: list[str], text: str | None, expected: list[str]) -> None:
    assert kept(names, text) == expected


@pytest.mark.parametrize("text", ["text", "- a\n- b\n", "10: t2.large\n", "ten:\n - a\n"])
def test_c18_what_cannot_be_read_is_refused_and_then_nothing_is_left_out(text: str) -> None:
    with pytest.raises(PrioritiesError):
        expanders.read_priorities(yaml.safe_load(text))


def test_c19_the_next_expander_decides_among_equal_priorities_and_chance_among_what_is_equal_then() -> None:
    same = "10:\n - .*\n"
    assert kept(["b", "a"], same) == ["b", "a"]
    assert kept(["b", "a"], same, "priority,least-nodes") == ["b"]
    small, large = (ExpanderOption(name, 1, a_node(name, cpu, MIB, 10), 1, 100, MIB) for name, cpu in (("s", 100), ("l", 800)))
    context = ExpanderContext(expanders.read_priorities(yaml.safe_load(same)))
    chain = expanders.chain(["priority", "least-waste"])
    assert expanders.choose(chain, [large, small], context).best == small
    equals = [ExpanderOption(name, 1, a_node(name, 100, MIB, 10), 1, 100, MIB) for name in ("x", "y")]
    chosen = [expanders.choose(chain, equals, ExpanderContext(context.priorities, seed=seed)).best for seed in range(40)]
    assert {one.group for one in chosen if one is not None} == {"x", "y"}


@pytest.mark.parametrize("names", [["random", "most-pods"], ["most-pods", "most-pods"], ["cheapest"]])
def test_c20_a_chain_that_makes_no_sense_is_refused_at_the_start(names: list[str]) -> None:
    with pytest.raises(expanders.ExpanderError):
        expanders.chain(names)


# 9.3 Balancing and similarity

FOUR = [GroupRow(f"ng{n}", 0, 10, target) for n, target in ((1, 1), (2, 3), (3, 5), (4, 5))]
SIZES = {"1": (1, 1), "2": (1, 3), "3": (3, 10), "4": (5, 7)}
NG1, NG2, NG3, NG4 = (GroupRow(name, 0, most, target) for name, (target, most) in SIZES.items())
OVER = GroupRow("5", 0, 3, 6)


@pytest.mark.parametrize(
    ("groups", "nodes", "sizes"),
    [
        pytest.param(FOUR, 1, [2, 3, 5, 5], id="C21 one"),
        pytest.param(FOUR, 2, [3, 3, 5, 5], id="C21 two"),
        pytest.param(FOUR, 4, [4, 4, 5, 5], id="C21 four"),
        pytest.param(FOUR, 5, [4, 5, 5, 5], id="C22 five"),
        pytest.param(FOUR, 10, [6, 6, 6, 6], id="C22 ten"),
        pytest.param([NG1], 1, [1], id="C23"),
        pytest.param([NG1, NG2], 1, [1, 2], id="C24 one"),
        pytest.param([NG1, NG2], 5, [1, 3], id="C24 capped"),
        pytest.param([NG2, NG3], 4, [3, 5], id="C25"),
        pytest.param([NG2, NG3, NG4], 9, [3, 7, 8], id="C26"),
        pytest.param([NG2, NG3, NG4], 900, [3, 7, 10], id="C26 capped"),
        pytest.param([OVER, NG2], 1, [2, 6], id="C27"),
    ],
)
def test_new_nodes_go_to_the_smallest_groups_one_by_one(groups: list[GroupRow], nodes: int, sizes: list[int]) -> None:
    targets = similar_node_groups.share_nodes(groups, nodes)
    assert sorted({**{one.name: one.target for one in groups}, **targets}.values()) == sizes
    assert OVER.name not in targets


def template(labels: dict[str, str] | None = None, less: dict[str, int] | None = None, **more: int) -> TemplateUsage:
    """A node with these labels; `less`: what of it is allocatable where that is not all."""
    offered = {"cpu": 1000, "memory": 16116152 << 10, "pods": 110, **more}
    return TemplateUsage(
        SchedulingNode("n", tuple(sorted((labels or {}).items())), allocatable={**offered, **(less or {})}, capacity=offered), {}
    )


PLACE = {HOSTNAME: "a", ZONE: "a", "eks.amazonaws.com/nodegroup": "a"}


@pytest.mark.parametrize(
    ("other", "similar"),
    [
        pytest.param(template(cpu=1001), False, id="C28"),
        pytest.param(template(memory=15944120 << 10), True, id="C29 1.07 percent"),
        pytest.param(template(memory=int((16116152 << 10) * 0.98)), False, id="C29 2 percent"),
        pytest.param(template(less={"cpu": 999}), True, id="C30 a little"),
        pytest.param(template(less={"cpu": 500}), False, id="C30 a lot"),
        pytest.param(template(**{GPU: 1}), False, id="C31"),
        pytest.param(template(PLACE), True, id="C32 place and name"),
        pytest.param(template({"team": "b"}), False, id="C32 anything else"),
    ],
)
def test_groups_are_alike_or_not(other: TemplateUsage, similar: bool) -> None:
    assert similar_node_groups.alike(template(), other, SimilarityRules()) is similar


def test_c32_a_label_of_the_settings_is_one_by_which_alike_groups_may_differ() -> None:
    def of(team: str) -> list[object]:
        labels = {"topology.kubernetes.io/zone": "z", "team": team}
        return [group(team, desired=1), *joined(team, team)[:1], node(team, team, labels={**labels, HOSTNAME: team})]

    waiting = [shape(cpu=4000), *[pod(f"full-{n}", node=n) for n in ("a", "b")], *[pod(f"waits-{n}") for n in range(4)]]
    facts = [*of("a"), *of("b"), *waiting]
    apart = ScalerRun(*facts)  # type: ignore[arg-type]  # a mixture of facts
    apart.run(3.0)
    assert [(before, after) for _name, before, after in apart.grown] == [(1, 5)]
    alike = ScalerRun(*facts, settings={"balance_ignored": "team"})  # type: ignore[arg-type]  # as above
    alike.run(3.0)
    assert sorted(alike.grown) == [("a", 1, 3), ("b", 1, 3)]


# 9.4 and 9.5 Orchestration, and which pods count


def test_c36_a_limit_of_the_cluster_skips_the_group_that_would_pass_it() -> None:
    small, large = {**SIZE, "cpu": 2000}, {**SIZE, "cpu": 9000}
    facts = [group("s", **sized(small)), group("l", **sized(large)), shape(cpu=1000), pod("waits")]
    run = ScalerRun(*facts, settings={"most_cores": 8})
    run.run(3.0)
    assert run.grown == [("s", 0, 1)]
    assert run.of(ScaleUpPlanned)[0].because["skipped"] == {"l": 'exceeded quota: "cluster-wide", resources: cpu'}


def sized(size: dict[str, int]) -> dict[str, NodeTemplateSeen]:
    """The field of a group whose new node has this size."""
    return {"template": NodeTemplateSeen({}, (), size, size)}


def test_c37_the_group_grows_whose_new_node_takes_the_pod_that_no_node_has_room_for() -> None:
    small, large = {**SIZE, "cpu": 100}, {**SIZE, "cpu": 1000}
    nodes = [
        *joined("n1", "ng1")[:1], node("n1", "ng1", allocatable=small, capacity=small),
        *joined("n2", "ng2")[:1], node("n2", "ng2", allocatable=large, capacity=large),
    ]  # fmt: skip
    facts = [group("ng1", desired=1, **sized(small)), group("ng2", desired=1, **sized(large)), *nodes]
    run = ScalerRun(*facts, shape("s", cpu=80), shape("m", cpu=800), shape("p", cpu=500))
    run.step(pod("s", "s", node="n1"), pod("m", "m", node="n2"), pod("new", "p"))
    run.run(3.0)
    assert run.grown == [("ng2", 1, 2)]


def test_c51_a_pod_of_which_no_scheduler_said_that_it_fits_nowhere_triggers_nothing() -> None:
    """Upstream waits for no such word only of schedulers that a flag names, which is not here."""
    run = ScalerRun(group(), shape(), pod("unseen", unschedulable=""), pod("gated", unschedulable="SchedulingGated"))
    run.run(5.0)
    assert run.grown == []


def test_c50_a_pod_with_a_nominated_node_occupies_that_node_and_triggers_nothing() -> None:
    run = ScalerRun(group(desired=1), *joined("n1"), shape(cpu=2500), pod("comes", nominated="n1"))
    run.run(5.0)
    assert run.grown == []
    run.step(pod("second"))
    run.run(3.0)
    assert run.grown == [("a", 1, 2)]


def test_c52_a_pod_that_fits_on_a_node_that_is_coming_makes_no_second_one_come() -> None:
    run = ScalerRun(group(), shape(cpu=1000), pod("first"))
    run.run(3.0)
    [plan] = run.of(ScaleUpPlanned)
    run.answer(plan, Result.DONE)
    run.step(group(desired=1), pod("second"))
    run.run(5.0)
    assert run.grown == [("a", 0, 1)]
    run.step(*[pod(f"more-{number}") for number in range(3)])
    run.run(5.0)
    assert run.grown == [("a", 0, 1), ("a", 1, 2)]


def test_c53_a_pod_of_a_node_that_is_drained_counts_as_one_that_waits() -> None:
    """The only room on n2 is for it, so a node comes for the next pod although that would fit there, too."""
    facts = [group(desired=2), *joined("n1"), *joined("n2"), shape(cpu=1500), shape("big", cpu=2500), controller()]
    run = ScalerRun(*facts, settings=QUICK)
    run.step(pod("stays", "big", node="n2"), pod("moves", node="n1"))
    run.run(8.0)
    assert (run.removed, run.grown) == (["n1"], [])
    run.step(pod("next"))
    run.run(3.0)
    assert run.grown == [("a", 2, 3)]
