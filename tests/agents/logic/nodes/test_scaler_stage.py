"""The scaler: growth when pods wait, removal when nodes are unneeded, refusals once, and a state that resumes."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.logic.nodes.scaler import scaling_dry_run
from agents.logic.nodes.scaler.scaler_stage import Scaler
from agents.logic.nodes.scaler_settings import ScalerSettings
from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleRefused, ScaleUpPlanned
from schemas.facts.nodes import NodeDetailsRemoved, NodeInstanceGone, ScalingActivityFailed
from schemas.facts.scheduled_pods import ControllingOwner, LabelQuery, PodPlacementRemoved, PodToleration
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import PodDisruptionBudgetChanged
from schemas.names import PodName
from schemas.outcomes import OutcomeDetail, Result
from schemas.policies.control import ControlChanged, Mode
from tests.support.cluster_events import GIB, START, turn, when
from tests.support.node_scene import (
    CLUSTER,
    ScalerRun,
    controller,
    group,
    instance,
    joined,
    node,
    pod,
    replicas_planned,
    shape,
    topic,
)

QUICK = {"unneeded_time": 5.0, "delay_after_add": 0.0, "interval": 1.0}


def waiting(count: int, of: str = "web") -> list[Event]:
    return [pod(f"{of}-{number}", of) for number in range(count)]


def test_a_group_grows_for_pods_that_wait_by_as_many_nodes_as_they_need() -> None:
    run = ScalerRun(group(most=10), shape(cpu=975))
    run.step(*waiting(10))
    run.run(2.0)
    assert run.grown == [("a", 0, 3)]  # four pods and a kube-proxy fit on each node of four cores
    [plan] = run.of(ScaleUpPlanned)
    assert (plan.pods, plan.examples[0], plan.because["waiting"]) == (10, "shop/web-0", 10)
    assert plan.because["option"] == {"nodes": 3, "pods": 10, "cpu": 9750, "memory": 10 * GIB}


def test_nothing_is_decided_before_pods_stopped_coming_for_a_second() -> None:
    run = ScalerRun(group(), shape())
    run.run(3.0)
    for number in range(6):
        assert not [one for one in run.step(pod(f"p{number}")) if isinstance(one, ScaleUpPlanned)]
    run.run(1.0)
    assert run.grown == [("a", 0, 2)]


def test_pods_that_keep_coming_are_not_waited_for_for_ever() -> None:
    run = ScalerRun(group(most=20), shape(cpu=3900), settings={"interval": 1000.0})
    run.run(1.0)
    for number in range(20):
        run.step(pod(f"p{number}"))
    assert run.grown == []
    run.step(pod("last"))
    assert run.grown == [("a", 0, 20)]


def test_a_group_that_was_planned_for_is_not_planned_again_until_it_was_decided_what_became_of_it() -> None:
    run = ScalerRun(group(), shape())
    run.step(*waiting(4))
    run.run(60.0)
    assert run.grown == [("a", 0, 1)]
    [plan] = run.of(ScaleUpPlanned)
    run.answer(plan, Result.DONE)
    run.step(group(desired=1))
    run.run(60.0)
    assert run.grown == [("a", 0, 1)]


def test_a_group_that_has_its_size_before_its_consumer_says_so_may_grow_again() -> None:
    run = ScalerRun(group(), shape())
    run.step(*waiting(4))
    run.run(2.0)
    run.step(group(desired=1))
    run.answer(run.of(ScaleUpPlanned)[0], Result.DONE)
    run.step(*joined("n1"), *[pod(f"web-{number}", node="n1") for number in range(4)])
    run.step(*[pod(f"more-{number}") for number in range(4)])
    run.run(12.0)
    assert run.grown == [("a", 0, 1), ("a", 1, 2)]


def test_pods_that_come_after_growth_was_carried_out_do_not_wait_for_the_source_to_see_it() -> None:
    run = ScalerRun(group(), shape())
    run.step(*waiting(4))
    run.run(2.0)
    run.step(*waiting(8))
    run.run(2.0)
    assert run.grown == [("a", 0, 1)]
    run.answer(run.of(ScaleUpPlanned)[0], Result.DONE)
    run.step(*[pod(f"more-{number}") for number in range(4)])
    run.run(2.0)
    assert run.grown == [("a", 0, 1), ("a", 1, 3)]
    run.answer(run.of(ScaleUpPlanned)[1], Result.DONE)
    run.run(20.0)
    run.step(group(desired=3))
    run.run(20.0)
    assert run.grown == [("a", 0, 1), ("a", 1, 3)]


@pytest.mark.parametrize(("changed", "ticks"), [({}, 2), ({"most": 9}, 3)], ids=["as planned", "by somebody else"])
def test_the_size_that_a_plan_asked_for_is_no_news_that_pods_wait_for(changed: dict[str, int], ticks: int) -> None:
    run = ScalerRun(group(), shape(), settings={"interval": 1000.0})
    run.step(*waiting(4))
    run.run(2.0)
    run.answer(run.of(ScaleUpPlanned)[0], Result.DONE)
    run.run(3.0)
    run.step(*[pod(f"more-{number}") for number in range(4)])
    run.step(group(desired=1, **changed))
    assert run.grown == [("a", 0, 1)]
    for _ in range(ticks - 2):
        run.step()
        assert run.grown == [("a", 0, 1)]
    run.step()
    assert run.grown == [("a", 0, 1), ("a", 1, 2)]


def test_in_shadow_a_plan_is_said_once_however_often_it_would_be_made() -> None:
    run = ScalerRun(group(), shape(), mode=Mode.SHADOW)
    run.step(*waiting(4))
    for _ in range(5):
        run.run(10.0)
        for plan in run.of(ScaleUpPlanned)[-1:]:
            run.answer(plan, Result.REFUSED)
    assert run.grown == [("a", 0, 1)]
    run.step(*waiting(8))
    run.run(12.0)
    assert run.grown == [("a", 0, 1), ("a", 0, 2)]


def test_a_pause_holds_plans_back_and_says_so_once() -> None:
    run = ScalerRun(group(), shape())
    run.step(ControlChanged(when(START), CLUSTER, Mode.APPLY, paused=True, reason="INC-1"), *waiting(4))
    run.run(30.0)
    assert run.grown == []
    assert run.refused(CLUSTER) == ["paused"]


def test_nothing_is_decided_while_nobody_vouches_for_the_facts() -> None:
    run = ScalerRun(group(), shape())
    run.step(SourceReported(when(run.now), CLUSTER, "asg", ("node-group-changes",), 1.0), *waiting(4))  # type: ignore[arg-type]  # a unit
    run.run(2.0)
    assert run.grown == [("a", 0, 1)]
    run.run(5.0)
    run.step(*waiting(8, "web"))
    run.run(30.0)
    assert run.grown == [("a", 0, 1)]


def test_a_failed_activity_sends_the_pods_to_another_group_within_two_seconds() -> None:
    run = ScalerRun(group("a"), group("b", instance_types=("c5.xlarge",)), shape(), settings={"balance": False})
    run.step(*waiting(4))
    run.run(2.0)
    [(first, before, after)] = run.grown
    run.answer(run.of(ScaleUpPlanned)[0], Result.DONE)
    other = {"a": "b", "b": "a"}[first]
    kind, zone = {"a": "m5.xlarge", "b": "c5.xlarge"}[first], f"zone-{first}"
    run.step(ScalingActivityFailed(when(run.now), CLUSTER, first, "x", "InsufficientInstanceCapacity", "none", kind, zone))
    run.run(2.0)
    assert (before, after) == (0, 1)
    assert run.grown[1:] == [(other, 0, 1)]


def test_a_group_of_the_same_type_and_zone_is_backed_off_with_the_one_that_failed() -> None:
    twin = group("b", zones=("zone-a",))
    run = ScalerRun(group("a"), twin, shape(), settings={"balance": False})
    run.step(ScalingActivityFailed(when(run.now), CLUSTER, "a", "x", "InsufficientInstanceCapacity", "", "m5.xlarge", "zone-a"))
    run.step(*waiting(4))
    run.run(2.0)
    assert run.grown == []
    assert run.refused("b") == ["BackedOff"]


def test_a_plan_that_failed_backs_its_group_off() -> None:
    run = ScalerRun(group("a"), shape(), settings={"backoff_first": 100.0})
    run.step(*waiting(4))
    run.run(2.0)
    run.answer(run.of(ScaleUpPlanned)[0], Result.FAILED, OutcomeDetail.NO_CAPACITY)
    run.run(90.0)
    assert run.grown == [("a", 0, 1)]
    run.run(30.0)
    assert run.grown == [("a", 0, 1)] * 2


def test_pods_that_fit_nowhere_are_refused_with_the_filter_that_keeps_them_away() -> None:
    run = ScalerRun(group(), shape("huge", cpu=64_000))
    run.step(*waiting(2, "huge"))
    found = [one for one in run.run(40.0) if getattr(one, "code", "") == "NoGroupFits"]
    [refusal] = found
    assert (refusal.count, refusal.subject.object_kind, refusal.subject.name) == (2, "ReplicaSet", "huge")
    assert refusal.because["groups"] == {"a": ["NodeResourcesFit", "Insufficient cpu"]}


def test_pods_whose_only_group_may_not_grow_are_not_told_that_they_fit_nowhere() -> None:
    tied = shape("tied", node_selector={"group": "c"})
    run = ScalerRun(group("a"), group("c"), tied, settings={"backoff_first": 600.0})
    run.step(*waiting(2, "tied"))
    run.run(2.0)
    run.answer(run.of(ScaleUpPlanned)[0], Result.FAILED, OutcomeDetail.NO_CAPACITY)
    run.run(60.0)
    [refusal] = [refused for refused in run.of(ScaleRefused) if refused.subject.name == "tied"]
    assert refusal.code == "NoGroupMayGrow"
    assert refusal.reason == "no node group that would take these pods may grow now: 'c'"
    assert refusal.because["groups"] == {"a": ["NodeAffinity", "node(s) didn't match Pod's node affinity/selector"]}


def test_several_groups_grow_in_one_decision_when_one_cannot_take_all_pods() -> None:
    spot = group("b", template=None)
    tainted = shape("spot", node_selector={"group": "c"})
    run = ScalerRun(group("a"), spot, group("c"), shape(), tainted, settings={"balance": False})
    run.step(*waiting(4), *waiting(4, "spot"))
    run.run(2.0)
    assert max(name for name, _, _ in run.grown) == "c"
    assert sum(after - before for _, before, after in run.grown) == 2


def test_a_node_that_nobody_needs_for_long_enough_is_drained_by_its_instance() -> None:
    run = ScalerRun(group(desired=2), *joined("n1"), *joined("n2"), shape(), controller(), settings=QUICK)
    run.step(pod("p1", node="n1"), pod("p2", node="n2"))
    run.run(4.0)
    assert run.removed == []
    run.run(4.0)
    [plan] = run.of(NodeRemovalPlanned)
    other = {"n1": "p1", "n2": "p2"}
    assert (plan.instance, plan.group, plan.reason) == (plan.node, "a", RemovalReason.UNNEEDED)
    assert plan.evict == (PodName("shop", other[plan.node], f"uid-{other[plan.node]}"),)
    assert (plan.because["utilization"], plan.because["threshold"]) == (0.2437, 0.5)


def test_an_empty_node_goes_before_one_that_must_be_drained_and_one_at_a_time_of_these() -> None:
    nodes = [event for name in ("n1", "n2", "n3", "n4") for event in joined(name)]
    run = ScalerRun(group(desired=4), *nodes, shape(), controller(), settings=QUICK)
    run.step(pod("p1", node="n1"), pod("p2", node="n2"), pod("p3", node="n3"))
    run.run(10.0)
    assert run.removed[0] == "n4"
    assert run.of(NodeRemovalPlanned)[0].reason is RemovalReason.EMPTY
    assert len(run.removed) == 2  # one node is drained at one time, and its removal is not finished


def test_a_group_never_falls_below_its_minimum() -> None:
    run = ScalerRun(group(desired=2, least=2), *joined("n1"), *joined("n2"), settings=QUICK)
    run.run(20.0)
    assert run.removed == []
    assert run.refused("n1") == ["NodeGroupMinSizeReached"]


def test_a_disruption_budget_that_allows_nothing_keeps_the_node_and_is_named() -> None:
    covered = shape(annotations={})
    run = ScalerRun(group(desired=2), *joined("n1"), *joined("n2"), covered, controller(), settings=QUICK)
    run.step(PodDisruptionBudgetChanged(when(START), CLUSTER, "shop", "web", LabelQuery({"app": "web"}), 0))
    run.step(pod("p1", node="n1"), pod("p2", node="n2"))
    run.run(20.0)
    assert run.removed == []
    [refusal] = [one for one in run.decided if getattr(one, "code", "") == "BlockedByPod" and one.subject.name == "n1"]
    assert refusal.reason == "pod 'shop/p1' must not be moved: NotEnoughPdb"


def test_no_more_nodes_go_than_the_control_records_budget_allows() -> None:
    nodes = [event for number in range(10) for event in joined(f"n{number}")]
    run = ScalerRun(group(desired=10), *nodes, settings=QUICK)
    run.step(ControlChanged(when(START), CLUSTER, Mode.APPLY, budget=0.2))  # type: ignore[arg-type]  # a unit
    run.run(20.0)
    assert len(run.removed) == 2
    assert "budget" in [code for number in range(10) for code in run.refused(f"n{number}")]


@pytest.mark.parametrize(
    ("schedules", "gone"),
    [
        ("0% @ 0 0 * * * for 1h", 0),
        ("10% @ 0 0 * * * for 1h", 1),
        ("10% @ 0 1 * * * for 1h", 2),  # not yet
        ("50% @ 0 0 * * * for 1h", 2),  # the control record says less
        ("20% @ 0 0 * * * for 1h; 0% @ CRON_TZ=Europe/Berlin 0 1 * * thu for 1h", 0),
    ],
)
def test_of_the_budgets_that_hold_at_a_time_the_smallest_counts_for_nodes(schedules: str, gone: int) -> None:
    nodes = [event for number in range(10) for event in joined(f"n{number}")]
    run = ScalerRun(group(desired=10), *nodes, settings={**QUICK, "budget_schedules": schedules})
    run.step(ControlChanged(when(START), CLUSTER, Mode.APPLY, budget=0.2))  # type: ignore[arg-type]  # a unit
    run.run(20.0)
    assert len(run.removed) == gone
    stays = scaling_dry_run.node_stays(run.stage, CLUSTER, "n9", run.now)
    assert stays is not None
    assert "budget" in [one.code for one in stays]
    assert "budget" in [code for number in range(10) for code in run.refused(f"n{number}")]


def test_a_removal_that_failed_is_not_tried_again_at_once() -> None:
    run = ScalerRun(
        group(desired=1), *joined("n1"), settings={**QUICK, "recheck": 60.0, "backoff_first": 60.0, "delay_after_failure": 1.0}
    )
    run.run(10.0)
    run.answer(run.of(NodeRemovalPlanned)[0], Result.FAILED)
    run.run(50.0)
    assert run.removed == ["n1"]
    run.run(30.0)
    assert run.removed == ["n1", "n1"]


def test_a_node_that_is_gone_leaves_no_plan_and_no_refusal_behind() -> None:
    run = ScalerRun(group(desired=1), *joined("n1"), settings=QUICK)
    run.run(10.0)
    run.step(NodeDetailsRemoved(when(run.now), CLUSTER, "n1"), NodeInstanceGone(when(run.now), CLUSTER, "a", "n1"))
    run.run(5.0)
    assert list(run.stage.clusters.plans) == []
    assert not [key for key in run.stage.clusters.said if "n1" in key]


def test_an_instance_that_never_becomes_a_node_is_removed_by_its_id() -> None:
    run = ScalerRun(group(desired=1), instance("i1"), settings={**QUICK, "max_provision": 30.0})
    run.run(25.0)
    assert run.removed == []
    run.run(20.0)
    [plan] = run.of(NodeRemovalPlanned)
    assert (plan.node, plan.instance, plan.reason) == ("", "i1", RemovalReason.UNREGISTERED)


def test_a_daemonsets_pods_are_reckoned_with_on_new_nodes() -> None:
    daemon = shape("agent", cpu=1000, owner=ControllingOwner("DaemonSet", "agent", "apps/v1"))
    run = ScalerRun(group("a"), group("b", most=0, desired=0), *joined("n1", "b"), daemon, shape(cpu=1000), settings=QUICK)
    run.step(pod("agent-1", "agent", "n1", pinned="n1"), *[pod(f"full-{n}", node="n1") for n in range(3)], *waiting(6))
    run.run(2.0)
    assert run.grown == [("a", 0, 2)]  # three pods of a core beside the agent's


def test_tolerations_and_taints_decide_as_kubernetes_has_them() -> None:
    gpu = group("g", template=group("g").template, options={})
    tolerant = shape("ml", tolerations=(PodToleration("gpu", "Exists"),), node_selector={"group": "g"})
    run = ScalerRun(gpu, tolerant)
    run.step(*waiting(1, "ml"))
    run.run(2.0)
    assert run.grown == [("g", 0, 1)]


EVENTS: Sequence[Event] = (
    group("a", most=5, desired=2),
    group("a", most=5, desired=3),
    group("b", most=5, desired=1),
    *joined("n1"),
    *joined("n2"),
    *joined("n3", "b"),
    node("n2", conditions={"Ready": "False"}),
    shape("web"),
    shape("big", cpu=3000),
    pod("p1", "web", "n1"),
    pod("p1", "web"),
    pod("p2", "big"),
    pod("p2", "big", "n2"),
    pod("p3", "web", deleted=when(START)),
    PodPlacementRemoved(when(START), CLUSTER, PodName("shop", "p1", "uid-p1")),
    PodPlacementRemoved(when(START), CLUSTER, PodName("shop", "p2", "uid-p2")),
    NodeDetailsRemoved(when(START), CLUSTER, "n2"),
    NodeInstanceGone(when(START), CLUSTER, "a", "n2"),
    ScalingActivityFailed(when(START), CLUSTER, "a", "x", "InsufficientInstanceCapacity", "", "m5.xlarge", "zone-a"),
    ControlChanged(when(START), CLUSTER, Mode.APPLY, budget=0.5),  # type: ignore[arg-type]  # a unit
    controller("web", deployment="shop-web"),
    replicas_planned(6),
    replicas_planned(2, expires=when(START + 3000)),
    replicas_planned(9, kind="ReplicaSet", name="big"),
    SourceReported(when(START), CLUSTER, "kube", ("scheduling-changes",), 1e9),  # type: ignore[arg-type]  # a unit
    SourceReported(when(START), CLUSTER, "asg", ("node-group-changes",), 1e9),  # type: ignore[arg-type]  # a unit
)


def _open() -> Scaler:
    quick = ScalerSettings(interval=1.0, unneeded_time=2.0, delay_after_add=1.0, planned_replicas=True)  # type: ignore[arg-type]  # units
    return Scaler(quick, 0, lambda _cluster: True)


def _resumed(stage: Scaler) -> Scaler:
    copy = _open()
    for chunk in sorted(stage.chunks()):
        copy.load(chunk, stage.dump(chunk))
    return copy


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.sampled_from(range(len(EVENTS))), max_size=5), max_size=12), st.integers(0, 11))
def test_a_resumed_state_decides_as_one_that_never_stopped(turns: list[list[int]], cut: int) -> None:
    straight, resumed = _open(), _open()
    first = [*EVENTS[-2:], EVENTS[0], *joined("n1"), *joined("n2"), shape("web"), shape("big", cpu=3000)]
    for number, chosen in enumerate([None, *turns]):
        events = first if chosen is None else [EVENTS[one] for one in chosen]
        inputs: dict[str, list[Any]] = {}
        for event in events:
            inputs.setdefault(topic(event), []).append(event)
        this = turn(START + 1000 * (number + 1), **inputs)
        if number == cut:
            resumed = _resumed(resumed)
        assert [one.event for one in straight.step(this)] == [one.event for one in resumed.step(this)]
    assert {chunk: straight.dump(chunk) for chunk in straight.chunks()} == {
        chunk: resumed.dump(chunk) for chunk in resumed.chunks()
    }
    assert _said(_resumed(straight)) == _said(straight), "before it takes a turn, too, as reading commands ask it"


def _said(stage: Scaler) -> list[object]:
    """What reading commands say of the groups and nodes."""
    now = START + 1000 * 20
    stays = [scaling_dry_run.node_stays(stage, CLUSTER, name, now) for name in ("n1", "n2")]
    return [scaling_dry_run.pending(stage, CLUSTER, now), *stays]


@pytest.mark.parametrize(
    ("name", "value"),
    [("profile", "fast"), ("expanders", "random,price"), ("expanders", "cheap"), ("budget_schedules", "10% at nine")],
)
def test_settings_that_cannot_be_are_named(name: str, value: str) -> None:
    assert [found for found, _why in ScalerSettings(**{name: value}).faults()] == [name]  # type: ignore[arg-type]  # a test may say anything
