"""A notice that the cloud takes an instance: its node is emptied at once, whatever it carries, and groups grow for its pods."""

from typing import Any

import pytest

from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason
from schemas.facts.node_groups import InstanceInterruptionNoticed, InterruptionKind, NodeInstanceGone
from schemas.outcomes import Result
from schemas.policies.control import ControlChanged, Mode
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, instance, joined, pod, shape


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


@pytest.mark.parametrize(("rebalances", "removed"), [(False, []), (True, ["n1"])])
def test_a_recommendation_counts_only_where_it_is_wanted(rebalances: bool, removed: list[str]) -> None:
    run = world(rebalances=rebalances)
    run.step(notice(kind=InterruptionKind.REBALANCE))
    run.run(3.0)
    assert run.removed == removed


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


@pytest.mark.parametrize("kind", [InterruptionKind.SPOT, InterruptionKind.MAINTENANCE])
def test_a_recommendation_never_replaces_what_was_announced(kind: InterruptionKind) -> None:
    run = world()
    run.step(notice(kind=InterruptionKind.REBALANCE))
    run.step(notice(kind=kind))
    run.step(notice(kind=InterruptionKind.REBALANCE))
    assert [one.fact.kind for _, one in run.stage.clusters.notices.items()] == [kind]
