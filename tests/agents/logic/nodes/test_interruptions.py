"""Notices: a node whose instance the cloud takes is emptied at once; advice replaces it as any other node that is needed."""

from typing import Any

import pytest

from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleUpPlanned
from schemas.facts.nodes import InstanceInterruptionNoticed, InterruptionKind, NodeInstanceGone
from schemas.outcomes import OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, instance, joined, node, pod, shape


def notice(name: str = "n1", kind: InterruptionKind = InterruptionKind.SPOT) -> InstanceInterruptionNoticed:
    return InstanceInterruptionNoticed(when(START), CLUSTER, name, kind, "m-1", when(START))


def world(**settings: Any) -> ScalerRun:
    """A full node of a group that may grow; its pods have an owner and are not to be evicted lightly."""
    shapes = shape(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    run = ScalerRun(
        group(desired=1), *joined("n1"), shapes, controller(replicas=4), settings={"delay_after_add": 0.0, **settings}
    )
    run.step(*[pod(f"web-{number}", node="n1") for number in range(4)])
    run.run(2.0)
    return run


def test_the_node_is_emptied_within_a_second_or_two_and_its_group_grows_for_its_pods() -> None:
    run = world()
    run.step(notice())
    run.run(2.0)
    [plan] = run.of(NodeRemovalPlanned)
    assert (plan.node, plan.instance, plan.reason) == ("n1", "n1", RemovalReason.INTERRUPTED)
    assert [one.name for one in plan.evict] == [f"web-{number}" for number in range(4)]
    assert plan.because["notice"] == "spot-interruption"
    run.run(2.0)
    assert run.grown == [("a", 1, 2)]


def test_it_is_planned_once_and_again_when_it_was_refused() -> None:
    run = world()
    run.step(notice())
    run.run(2.0)
    run.step(notice())
    run.run(5.0)
    assert run.removed == ["n1"]
    run.answer(run.of(NodeRemovalPlanned)[0], Result.REFUSED)
    run.run(3.0)
    assert run.removed == ["n1", "n1"]


def test_a_node_that_the_cloud_does_not_take_after_all_is_tried_more_and_more_seldom() -> None:
    run = world()
    run.step(notice())
    read = 0
    for _ in range(6 * 3600):
        run.step()
        plans, read = [plan for plan in run.decided[read:] if isinstance(plan, NodeRemovalPlanned)], len(run.decided)
        for plan in plans:
            run.answer(plan, Result.REFUSED, OutcomeDetail.MOVED)
    times = [(plan.at - when(START)).total_seconds() for plan in run.of(NodeRemovalPlanned)]
    soon = [time for time in times if time <= 120.0]
    assert len(soon) >= 10, "while the cloud is about to take it each try counts"
    assert len([time for time in times if time > 400.0]) <= 16


def advised(kind: InterruptionKind, *more: Any, **changed: Any) -> ScalerRun:
    """A node of a group at its minimum, with a pod that fills it, and advice to leave it."""
    settings = {"interval": 1.0, "delay_after_add": 0.0, "rebalances": True, **changed.pop("settings", {})}
    first = [*joined("n1"), shape(cpu=3000), controller(), pod("p", node="n1")]
    run = ScalerRun(group(**{"desired": 1, "least": 1, **changed}), *first, *more, settings=settings)
    run.run(2.0)
    run.step(notice(kind=kind))
    return run


ADVICE = [InterruptionKind.REBALANCE, InterruptionKind.MAINTENANCE]


@pytest.mark.parametrize("kind", ADVICE)
def test_advice_starts_a_replacement_first_and_the_node_goes_once_that_is_ready(kind: InterruptionKind) -> None:
    run = advised(kind)
    run.run(5.0)
    assert (run.grown, run.removed) == ([("a", 1, 2)], [])
    run.answer(run.of(ScaleUpPlanned)[0], Result.DONE)
    run.step(group(desired=2, least=1), *joined("n2"))
    run.run(2.0)
    [plan] = run.of(NodeRemovalPlanned)
    assert (plan.node, plan.reason, [one.name for one in plan.evict]) == ("n1", RemovalReason.ADVISED, ["p"])


@pytest.mark.parametrize("kind", ADVICE)
def test_advice_leaves_nobody_homeless_where_the_group_may_neither_grow_nor_shrink(kind: InterruptionKind) -> None:
    run = advised(kind, most=1)
    run.run(60.0)
    assert (run.grown, run.removed) == ([], [])
    assert "ReplacementCannotStart" in run.refused("n1")


def test_advice_keeps_to_drain_rules_and_the_budget() -> None:
    run = world(rebalances=True, interval=1.0)
    run.step(notice(kind=InterruptionKind.REBALANCE))
    run.run(5.0)
    assert (run.grown, run.removed) == ([], [])
    assert "BlockedByPod" in run.refused("n1")
    away = node("n9", conditions={"Ready": "False"})
    held = advised(InterruptionKind.REBALANCE, *joined("n8"), instance("n9"), away, least=0, desired=3)
    assert held.run(5.0) != []
    held.decided.clear()
    budget = ControlChanged(when(START), CLUSTER, Mode.APPLY, budget=0.3)  # type: ignore[arg-type]  # a unit
    held = advised(InterruptionKind.REBALANCE, *joined("n8"), instance("n9"), away, budget, least=0, desired=3)
    held.run(5.0)
    assert held.removed == []


@pytest.mark.parametrize("settings", [{"rebalances": False}, {"interruptions": False}])
def test_a_recommendation_counts_only_where_it_is_wanted(settings: dict[str, Any]) -> None:
    run = advised(InterruptionKind.REBALANCE, settings=settings)
    run.run(5.0)
    assert (run.grown, run.removed) == ([], [])


@pytest.mark.parametrize("settings", [{"interruptions": False}, {"profile": "upstream"}])
def test_it_can_be_switched_off_and_upstream_knows_no_notices(settings: dict[str, Any]) -> None:
    run = world(**settings)
    run.step(notice())
    run.run(30.0)
    assert run.removed == []


def test_a_pause_holds_it_and_an_instance_that_is_unknown_gone_or_ending_is_nobodys() -> None:
    run = world()
    run.step(ControlChanged(when(START), CLUSTER, Mode.APPLY, paused=True, budget=1.0))  # type: ignore[arg-type]  # a unit
    run.step(notice())
    run.run(3.0)
    assert run.removed == []
    other = world()
    other.step(notice("n9"))
    other.step(instance("n1", lifecycle="Terminating"), notice())
    other.run(3.0)
    assert other.removed == []
    assert list(other.stage.clusters.notices) == [f"{CLUSTER}/n1"]
    other.step(NodeInstanceGone(when(START), CLUSTER, "a", "n1"))
    assert list(other.stage.clusters.notices) == []


def test_maintenance_takes_no_interruption_back() -> None:
    run = world()
    run.step(notice())
    run.step(notice(kind=InterruptionKind.MAINTENANCE))
    run.run(2.0)
    assert [one.reason for one in run.of(NodeRemovalPlanned)] == [RemovalReason.INTERRUPTED]


@pytest.mark.parametrize("kind", [InterruptionKind.SPOT, InterruptionKind.MAINTENANCE])
def test_a_recommendation_never_replaces_what_was_announced(kind: InterruptionKind) -> None:
    run = world()
    run.step(notice(kind=InterruptionKind.REBALANCE))
    run.step(notice(kind=kind))
    run.step(notice(kind=InterruptionKind.REBALANCE))
    assert [one.fact.kind for _, one in run.stage.clusters.notices.items()] == [kind]
