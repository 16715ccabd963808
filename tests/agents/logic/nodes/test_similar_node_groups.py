"""Thousands of groups are of few kinds: those that no pod can tell apart are estimated once, and the others are told apart."""

from functools import partial
from typing import Any

from schemas.facts.nodes import NodeTemplateSeen
from schemas.facts.scheduled_pods import LabelQuery, RequiredPodAffinity
from tests.support.cost_in_steps import steps
from tests.support.node_scene import SIZE, ScalerRun, controller, group, joined, pod, shape


def groups(count: int) -> list[Any]:
    return [group(f"g{number}") for number in range(count)]


def test_more_groups_than_one_decision_estimates_are_no_matter_where_no_pod_tells_them_apart() -> None:
    run = ScalerRun(*groups(300), shape(), controller())
    run.step(pod("p"))
    run.run(3.0)
    assert len(run.grown) == 1
    assert not any("TooMany" in code or "Limited" in code for code in run.refused("g299"))


def test_a_pod_that_selects_a_group_gets_it_among_many() -> None:
    run = ScalerRun(*groups(200), shape(node_selector={"group": "g150"}), controller())
    run.step(pod("p"))
    run.run(3.0)
    assert run.grown == [("g150", 0, 1)]


def test_a_running_pod_that_keeps_others_off_its_group_tells_that_group_from_the_rest() -> None:
    apart = (RequiredPodAffinity("group", LabelQuery({"app": "web"})),)
    lonely = shape("lonely", cpu=4000, anti_affinity=apart)
    run = ScalerRun(group("a", desired=1), group("b"), *joined("n1"), shape(cpu=3000), controller(), lonely, controller("lonely"))
    run.step(pod("l", "lonely", node="n1"), pod("p"))
    run.run(3.0)
    assert run.grown == [("b", 0, 1)]


def test_groups_that_differ_in_what_no_rule_minds_share_growth_and_others_do_not() -> None:
    def of(name: str, zone: str, team: str) -> Any:
        return group(name, template=NodeTemplateSeen({"topology.kubernetes.io/zone": zone, "team": team}, (), SIZE, SIZE))

    run = ScalerRun(of("a", "1", "x"), of("b", "2", "x"), of("c", "3", "y"), shape(cpu=3000), controller(replicas=8))
    run.step(*[pod(f"p{number}") for number in range(4)])
    run.run(3.0)
    assert sorted(run.grown) in ([("a", 0, 2), ("b", 0, 2)], [("c", 0, 4)])


def test_a_thousand_groups_cost_little_more_than_a_quarter_of_them() -> None:
    costs = []
    for count in (250, 1000):
        shapes = [one for number in range(50) for one in (shape(f"s{number}", cpu=100 + number), controller(f"s{number}"))]
        run = ScalerRun(*groups(count), *shapes)
        run.step(*[pod(f"p{number}", f"s{number}") for number in range(50)])
        costs.append(steps(partial(run.run, 3.0)))
        assert len(run.grown) == 1
    assert costs[1] < 4 * costs[0]
    assert costs[1] < 1_000_000  # with an estimate of each group it is many millions
