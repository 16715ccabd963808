"""The priority expander goes by the ConfigMap's fact; without one that can be used every group is as good, and it says why."""

from typing import Any

import pytest

from agents.logic.nodes.cluster import cluster_view
from schemas.decisions.node_updates import ScaleRefused, ScaleUpPlanned
from schemas.facts.nodes import ExpanderPrioritiesGone, ExpanderPrioritiesSeen
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, ScalerRun, group, pod, shape

NAME = "cluster-autoscaler-priority-expander"
PRIORITY: dict[str, Any] = {"expanders": "priority,most-pods", "balance": False}


def priorities(unsupported: str = "", **patterns: tuple[str, ...]) -> ExpanderPrioritiesSeen:
    listed = {key.lstrip("p"): each for key, each in patterns.items()}
    return ExpanderPrioritiesSeen(when(START), CLUSTER, "kube-system", NAME, listed, unsupported)


def run_with(*facts: Any, pods: int = 1) -> ScalerRun:
    """Two groups of which `b` would take more pods at once, and a pod that waits."""
    small = group("a")
    run = ScalerRun(small, group("b"), shape(cpu=3000), *facts, settings=PRIORITY)
    run.step(*[pod(f"p{number}") for number in range(pods)])
    run.run(2.0)
    return run


@pytest.mark.parametrize(("high", "low"), [("a", "b"), ("b", "a")])
def test_the_group_with_the_highest_priority_grows(high: str, low: str) -> None:
    run = run_with(priorities(p10=(f"^{low}$",), p50=(f"^{high}$",)))
    assert run.grown == [(high, 0, 1)]


def test_a_group_that_matches_nothing_is_left_out_and_the_plan_says_so() -> None:
    run = run_with(priorities(p10=("^b$",)))
    [plan] = run.of(ScaleUpPlanned)
    assert plan.group == "b"
    assert plan.because["expander"] == ["PriorityConfigMapNotMatchedGroup a"]
    [refused] = run.of(ScaleRefused)
    assert (refused.code, refused.subject.object_kind, refused.subject.name) == (
        "PriorityConfigMapNotMatchedGroup",
        "ConfigMap",
        NAME,
    )
    assert "'a'" in refused.reason


def test_where_no_pattern_matches_any_group_a_record_says_so_once() -> None:
    run = run_with(priorities(p10=("^c$",)))
    assert len(run.grown) == 1
    run.run(20.0)
    [refused] = run.of(ScaleRefused)
    assert refused.code == "PriorityConfigMapNoGroupMatched"
    assert "'a', 'b'" in refused.reason


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ([], "no ConfigMap of priorities was seen"),
        ([priorities("the priorities are no YAML")], "the priorities are no YAML"),
        ([priorities(p10=("(?=a)",))], "uses what Go's patterns do not have"),
        ([priorities(px=("a",))], "'x' is no integer"),
        ([priorities(p10=("^b$",)), ExpanderPrioritiesGone(when(START), CLUSTER, "kube-system", NAME)], "no ConfigMap"),
    ],
)
def test_without_priorities_that_can_be_used_a_group_grows_all_the_same_and_a_record_says_why(
    facts: list[Any], says: str
) -> None:
    run = run_with(*facts)
    assert len(run.grown) == 1
    [refused] = [one for one in run.of(ScaleRefused) if one.code == "PriorityConfigMapInvalid"]
    assert says in refused.reason
    assert refused.subject.name == NAME


def test_priorities_that_change_count_from_then_on() -> None:
    run = run_with(priorities(p10=("^a$",), p50=("^b$",)))
    run.step(priorities(p90=("^a$",), p50=("^b$",)), group("b", desired=1))
    run.step(*[pod(f"more{number}") for number in range(2)])
    run.run(2.0)
    assert [one[0] for one in run.grown] == ["b", "a"]


@pytest.mark.parametrize(("expanders", "read"), [("priority,most-pods", True), ("most-pods", False)])
def test_priorities_are_read_only_where_the_expanders_ask_for_them(expanders: str, read: bool) -> None:
    settings = {"expanders": expanders}
    run = ScalerRun(group("a"), shape(), priorities(p10=("^a$",)), settings=settings)
    view = cluster_view.view(run.stage.clusters, CLUSTER, run.stage.settings, 0.0)
    assert (cluster_view.expander_context(view, run.stage.settings, 0).priorities is not None) is read


@pytest.mark.parametrize(("namespace", "name"), [("other", NAME), ("kube-system", "other")])
def test_another_config_map_that_goes_takes_no_priorities_away(namespace: str, name: str) -> None:
    run = run_with(priorities(p10=("^b$",)), ExpanderPrioritiesGone(when(START), CLUSTER, namespace, name))
    assert run.grown == [("b", 0, 1)]
    assert CLUSTER in run.stage.clusters.priorities
