"""Removals and growth reckon with the requests that successors get from the recommendations in force."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.decisions.node_updates import NodeRemovalPlanned
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.scheduled_pods import PodShapeSeen
from schemas.names import Amounts, Workload
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores, Fraction
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, GIB, ScalerRun, controller, group, joined, pod, shape

SOON = {"delay_after_add": 0.0, "unneeded_time": 5.0, "interval": 1.0}


def small(name: str = "web", cpu: int = 1000, **more: Any) -> PodShapeSeen:
    return shape(name, cpu=cpu, containers={"app": {"cpu": cpu, "memory": GIB}}, **more)


def recommended(cpu: float, name: str = "web", kind: str = "ReplicaSet", gib: float = 1.0) -> RequestsRecommended:
    amounts = Amounts(Cores(cpu), Bytes(gib * GIB))
    container = ContainerRecommendation("app", amounts, amounts, amounts, amounts)
    return RequestsRecommended(f"r-{name}-{cpu}", when(START), Workload(CLUSTER, "shop", kind, name), (container,), {})


def policy(mode: UpdateMode = UpdateMode.RECREATE, **more: Any) -> VerticalPolicyChanged:
    return VerticalPolicyChanged(when(START), f"{CLUSTER}/*", "1", mode, **more)


def world(*more: Any, **settings: Any) -> ScalerRun:
    """Two nodes of four cores; each has a pod of one core, so that one node would take both."""
    run = ScalerRun(group(desired=2, least=1), *joined("n1"), *joined("n2"), small(), controller(), settings={**SOON, **settings})
    run.step(pod("a", node="n1"), pod("b", node="n2"), *more)
    run.run(20.0)
    return run


@pytest.mark.parametrize(
    ("facts", "goes"),
    [
        ((), True),
        ((policy(), recommended(2.5)), True),
        ((policy(), recommended(3.5)), False),
        ((policy(), recommended(1.0, gib=15.5)), False),
        ((recommended(3.5),), True),
        ((policy(UpdateMode.OFF), recommended(3.5)), True),
        ((policy(patch_new_pods=False), recommended(3.5)), True),
        ((policy(), recommended(3.5, name="other")), True),
        ((policy(), recommended(3.5), ControlChanged(when(START), CLUSTER, Mode.SHADOW, budget=Fraction(1.0))), True),
    ],
)
def test_a_node_goes_only_if_the_successors_of_its_pods_find_room(facts: tuple[Any, ...], goes: bool) -> None:
    assert bool(world(*facts).removed) is goes


@pytest.mark.parametrize("settings", [{"recommended_requests": False}, {"profile": "upstream"}])
def test_it_can_be_switched_off_and_upstream_does_not_know_it(settings: dict[str, Any]) -> None:
    assert world(policy(), recommended(3.5), **settings).removed != []


@pytest.mark.parametrize("more", [False, True])
def test_a_node_whose_pods_fit_only_because_they_come_back_smaller_goes_if_people_say_so(more: bool) -> None:
    """Pods of 2.5 cores do not fit beside each other, those of one core do. The lower threshold lets such a node be looked at."""
    run = ScalerRun(
        group(desired=2, least=1), *joined("n1"), *joined("n2"), small(cpu=2500), controller(),
        settings={**SOON, "utilization_threshold": 0.9, "smaller_successors": more},
    )  # fmt: skip
    run.step(pod("a", node="n1"), pod("b", node="n2"))
    run.run(20.0)
    assert run.removed == []
    run.step(policy(), recommended(1.0))
    run.run(400.0)  # a failed look counts for five minutes
    counts = [plan.because["pods that come back with recommended requests"] for plan in run.of(NodeRemovalPlanned)[:1]]
    assert counts == ([1] if more else [])


def test_a_successor_that_asks_for_less_of_one_resource_and_more_of_another_needs_the_larger_of_both() -> None:
    """A pod of one core and 1 GiB moves to a node of 4 cores and 16 GiB that has such a pod."""
    assert world(policy(), recommended(0.5, gib=1.0)).removed != []
    assert world(policy(), recommended(0.5, gib=15.5)).removed == []
    assert world(policy(), recommended(3.5, gib=0.5)).removed == []


def test_growth_for_the_pods_of_a_node_that_goes_is_for_what_they_will_request() -> None:
    """Two pods of one core come back with three cores each: two nodes, not one."""
    from tests.agents.logic.nodes.test_interruptions import notice

    run = ScalerRun(group(desired=1), *joined("n1"), small(), controller(), settings=SOON)
    run.step(pod("a", node="n1"), pod("b", node="n1"), policy(), recommended(3.0))
    run.run(5.0)
    run.step(notice())
    run.run(10.0)
    assert run.grown == [("a", 1, 3)]


def test_the_workload_is_found_by_the_controller_of_its_controller() -> None:
    run = ScalerRun(
        group(desired=2, least=1), *joined("n1"), *joined("n2"), small(), controller(deployment="shop-web"), settings=SOON
    )
    run.step(pod("a", node="n1"), pod("b", node="n2"), policy(), recommended(3.5, name="shop-web", kind="Deployment"))
    run.run(20.0)
    assert run.removed == []


@example(own=1, target=2023, starting=0, others=0)  # 2.023 cores are 2023.0000000000002 thousandths
@given(own=st.integers(1, 4000), target=st.integers(1, 4000), starting=st.integers(0, 4000), others=st.integers(0, 1000))
def test_a_successor_asks_for_the_target_beside_what_stays_and_never_for_less_than_its_start(
    own: int, target: int, starting: int, others: int
) -> None:
    run = ScalerRun(group(), policy(), recommended(target / 1000))
    fact = shape(cpu=max(own + others, starting), containers={"app": {"cpu": own}}, starting={"cpu": starting})
    run.step(fact, controller(), pod("a", node="n1"))
    state = run.stage.clusters
    found = state.successors.of(CLUSTER, state.ready_index().natures(CLUSTER), state.controllers)
    before = max(own + others, starting)
    expected = max(before + target - own, starting)
    amounts = [nature.shape.request("cpu") for nature in found.values()]
    assert amounts == ([] if expected == before else [expected])
