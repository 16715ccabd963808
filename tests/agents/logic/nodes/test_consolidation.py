"""Consolidation by replacement: cheaper nodes are started, ready first, kept for a bounded time, and never twice for one node."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.logic.nodes.scaler import scaling_dry_run
from agents.logic.nodes.scaler.scaler_stage import Scaler
from agents.logic.nodes.scaler_settings import ScalerSettings
from schemas import times
from schemas.decisions.node_updates import NodeRemovalPlanned, RemovalReason, ScaleRefused, ScaleUpPlanned
from schemas.facts.nodes import NodeDetailsRemoved, NodeGroupSeen, NodeInstanceGone, NodeTemplateSeen, ScalingActivityFailed
from schemas.facts.scheduled_pods import LabelQuery, PodPlacementRemoved
from schemas.facts.update_facts import PodDisruptionBudgetChanged
from schemas.names import PodName
from schemas.outcomes import Result
from schemas.policies.control import Mode
from tests.support.cluster_events import GIB, START, when
from tests.support.node_scene import CLUSTER, TICK, ScalerRun, controller, group, instance, node, pod, shape

SMALL = {"cpu": 2000, "memory": 8 * GIB, "pods": 110}
SETTINGS: dict[str, Any] = {
    "consolidate": True,
    "interval": 1.0,
    "delay_after_add": 0.0,
    "unneeded_time": 10.0,
    "recheck": 5.0,
    "utilization_threshold": 0.01,
}


def big(price: float | None = 0.2, **changed: Any) -> NodeGroupSeen:
    """A group of nodes of 4 cores."""
    return group("a", **{"desired": 2, "price": price, **changed})


def small(price: float | None = 0.1, **changed: Any) -> NodeGroupSeen:
    """A group of nodes of 2 cores."""
    template = NodeTemplateSeen({"topology.kubernetes.io/zone": "zone-b", "group": "b"}, (), SMALL, SMALL)
    return group("b", **{"price": price, "template": template, **changed})


def small_node(name: str, **changed: Any) -> list[Any]:
    return [instance(name, "b"), node(name, "b", **{"allocatable": SMALL, "capacity": SMALL, **changed})]


def on(name: str, of: str = "a") -> list[Any]:
    return [instance(name, of), node(name, of)]


def world(*more: Any, mode: Mode = Mode.APPLY, groups: tuple[Any, ...] = (), tick: int = TICK, **changed: Any) -> ScalerRun:
    """n1 is full, and on n2 a pod asks for 1.5 of 4 cores: it would fit on a small node."""
    shapes = [shape(), shape("half", cpu=1500), controller(replicas=8), controller("half")]
    pods = [*(pod(f"full-{number}", node="n1") for number in range(4)), pod("half-0", "half", node="n2")]
    facts = [*(groups or (big(), small())), *shapes, *on("n1"), *on("n2"), *pods, *more]
    return ScalerRun(*facts, settings={**SETTINGS, **changed}, mode=mode, tick=tick)


def come(run: ScalerRun, name: str = "s1") -> None:
    """The consumer lets the group grow, and its new node joins."""
    run.answer(run.of(ScaleUpPlanned)[-1], Result.DONE)
    run.step(small(desired=1), *small_node(name))


def leave(run: ScalerRun, name: str, of: str = "a") -> None:
    """The consumer drained a node, and its instance is gone."""
    run.answer(next(one for one in run.of(NodeRemovalPlanned) if one.node == name), Result.DONE)
    gone = NodeDetailsRemoved(when(START), CLUSTER, name), NodeInstanceGone(when(START), CLUSTER, of, name)
    moved = PodPlacementRemoved(when(START), CLUSTER, PodName("shop", "half-0", "uid-half-0"))
    run.step(*gone, pod("half-1", "half", node="s1"), moved)


def restarted(run: ScalerRun) -> None:
    """Write the state, and go on with one that read it."""
    fresh = Scaler(ScalerSettings(**SETTINGS), 0, lambda _cluster: True)
    for chunk in sorted(run.stage.chunks()):
        fresh.load(chunk, run.stage.dump(chunk))
    run.stage = fresh


def released(run: ScalerRun) -> list[str]:
    return [one.reason for one in run.of(ScaleRefused) if one.code == "ReplacementReleased"]


def outlook(run: ScalerRun, name: str) -> list[scaling_dry_run.ScalingObstacle]:
    found = scaling_dry_run.node_stays(run.stage, CLUSTER, name, run.now)
    assert found is not None
    return found


def codes(run: ScalerRun, name: str) -> list[str]:
    return [one.code for one in outlook(run, name)]


def soon(run: ScalerRun, name: str) -> str:
    """Why a cheaper node that could replace this one is not started yet."""
    return next(one.reason for one in outlook(run, name) if one.code == "CheaperNodeSoon")


def test_an_old_node_that_cannot_be_drained_is_tried_more_and_more_seldom() -> None:
    """For twelve hours each eviction on the big nodes is denied, as in karpenter-provider-aws#3921."""
    run, tries, starts = world(tick=10_000), dict[str, list[float]](), dict[str, list[float]]()
    grown = planned = 0
    for half_minute in range(12 * 120):
        run.run(30.0)
        if half_minute == 290:
            assert "CheaperNodeSoon" not in codes(run, "n2"), "its drain failed, and none is started before that is forgotten"
        for growth in run.of(ScaleUpPlanned)[grown:]:
            grown += 1
            [old] = growth.because["replaces"]
            starts.setdefault(old, []).append(times.to_seconds(growth.at))
            come(run, f"s{grown}")
        for plan in run.of(NodeRemovalPlanned)[planned:]:
            planned += 1
            if plan.node.startswith("s"):
                run.answer(plan, Result.DONE)
                gone = NodeDetailsRemoved(when(START), CLUSTER, plan.node), NodeInstanceGone(when(START), CLUSTER, "b", plan.node)
                run.step(small(desired=0), *gone)
            else:
                tries.setdefault(plan.node, []).append(times.to_seconds(plan.at))
                run.answer(plan, Result.FAILED)
    forgotten, first = ScalerSettings().backoff_forgotten, ScalerSettings().backoff_first
    assert all(len(mine) <= 16 for mine in tries.values()), tries
    assert min(after - before for mine in tries.values() for before, after in itertools.pairwise(mine)) >= first
    assert min(after - before for mine in starts.values() for before, after in itertools.pairwise(mine)) >= forgotten
    assert codes(run, "n2")


def test_a_cheaper_node_is_started_after_a_while_and_the_old_one_goes_when_it_is_ready() -> None:
    run = world()
    run.run(9.0)
    assert run.grown == []
    assert soon(run, "n2").endswith("not for as long as its group's nodes must be unneeded")
    run.run(3.0)
    [plan] = run.of(ScaleUpPlanned)
    assert (plan.group, plan.before, plan.after, plan.expander) == ("b", 0, 1, "consolidation")
    assert (plan.because["replaces"], plan.because["price now"], plan.because["price then"]) == (["n2"], 0.2, 0.1)
    run.run(5.0)
    assert "ReplacementFirst" in codes(run, "n2")
    run.answer(plan, Result.DONE)
    run.step(small(desired=1), *small_node("s1", conditions={"Ready": "False"}))
    run.run(10.0)
    assert run.removed == []
    run.step(*small_node("s1"))
    run.run(2.0)
    [gone] = run.of(NodeRemovalPlanned)
    assert (gone.node, gone.reason, [one.name for one in gone.evict]) == ("n2", RemovalReason.CONSOLIDATED, ["half-0"])
    assert (gone.because["replaced by"], gone.because["price before"], gone.because["price after"]) == ("s1", 0.2, 0.1)
    leave(run, "n2")
    run.run(60.0)
    assert (run.grown, run.removed, released(run)) == ([("b", 0, 1)], ["n2"], [])


def test_several_nodes_are_replaced_by_one_that_costs_less_than_they_do_together() -> None:
    """Three small nodes with one pod of 1.5 cores each cost 0.3; a big one takes two of them and costs 0.15."""
    shapes = [shape("half", cpu=1500), controller("half")]
    nodes = [event for number in range(3) for event in small_node(f"s{number}")]
    pods = [pod(f"half-{number}", "half", node=f"s{number}") for number in range(3)]
    run = ScalerRun(big(0.15, desired=0), small(desired=3), *shapes, *nodes, *pods, settings={**SETTINGS, "most_drains": 2})
    run.run(15.0)
    [plan] = run.of(ScaleUpPlanned)
    assert (plan.group, plan.because["replaces"], plan.because["price now"]) == ("a", ["s0", "s1"], 0.2)
    run.answer(plan, Result.DONE)
    run.step(big(0.15, desired=1), *on("n1"))
    run.run(3.0)
    assert run.removed == ["s0", "s1"]
    alone = ScalerRun(
        big(0.15, desired=0), small(desired=3), *shapes, *nodes, *pods, settings={**SETTINGS, "consolidation_together": 1}
    )
    alone.run(30.0)
    assert alone.grown == []


def test_a_choice_that_is_tried_and_dropped_uses_no_disruption_budget_up() -> None:
    """A node that costs a little less for one pod is tried first; one for both pods saves more, and the budget lets both go."""
    shapes = [shape("half", cpu=1500), controller("half")]
    nodes = [*small_node("s0"), *small_node("s1")]
    pods = [pod(f"half-{number}", "half", node=f"s{number}") for number in range(2)]
    template = NodeTemplateSeen({"topology.kubernetes.io/zone": "zone-d", "group": "d"}, (), SMALL, SMALL)
    other = group("d", price=0.09, template=template)
    run = ScalerRun(big(0.15, desired=0), small(desired=2), other, *shapes, *nodes, *pods, budgeted(2), settings=SETTINGS)
    run.run(15.0)
    assert [(one.group, one.because["replaces"]) for one in run.of(ScaleUpPlanned)] == [("a", ["s0", "s1"])]


def test_after_a_restart_in_the_middle_no_second_replacement_is_started() -> None:
    run = world()
    run.run(12.0)
    restarted(run)
    run.run(20.0)
    assert run.grown == [("b", 0, 1)]
    come(run)
    restarted(run)
    run.run(2.0)
    assert (run.grown, run.removed) == ([("b", 0, 1)], ["n2"])
    restarted(run)
    leave(run, "n2")
    run.run(60.0)
    assert (run.grown, run.removed) == ([("b", 0, 1)], ["n2"])


def test_a_replacement_that_never_comes_is_given_up_and_not_tried_again_at_once() -> None:
    run = world(max_provision=60.0, consolidation_pause=300.0, backoff_first=10.0)
    run.run(12.0)
    run.answer(run.of(ScaleUpPlanned)[0], Result.DONE)
    run.step(small(desired=1))
    run.run(250.0)
    assert (run.grown, run.removed) == ([("b", 0, 1)], [])
    assert released(run) == ["it grew by a node so that 'n2' could go, and that is given up: no node of group 'b' came in time"]
    assert "ReplacedRecently" in codes(run, "n2")


def test_a_start_that_fails_gives_the_replacement_up_with_its_code() -> None:
    run = world()
    run.run(12.0)
    run.answer(run.of(ScaleUpPlanned)[0], Result.DONE)
    run.step(small(desired=1), ScalingActivityFailed(when(run.now), CLUSTER, "b", "x1", "InsufficientInstanceCapacity"))
    run.run(60.0)
    assert run.grown == [("b", 0, 1)]
    assert [reason.rpartition(": ")[2] for reason in released(run)] == ["InsufficientInstanceCapacity"]


def budgeted(allowed: int) -> PodDisruptionBudgetChanged:
    return PodDisruptionBudgetChanged(when(START), CLUSTER, "shop", "half", LabelQuery({"app": "half"}), allowed, 1, 1, 1)


def test_a_budget_that_comes_after_the_growth_keeps_the_new_node_for_a_while_and_then_releases_it() -> None:
    run = world(replacement_hold=60.0)
    run.run(12.0)
    run.step(budgeted(0))
    come(run)
    run.run(50.0)
    assert (run.removed, released(run)) == ([], [])
    assert "ReplacesAnotherNode" in codes(run, "s1")
    run.run(30.0)
    assert released(run) == ["it came so that 'n2' could go, and is kept for that no longer: no drain could begin within 60 s"]
    run.run(20.0)
    assert run.removed == ["s1"]
    assert run.grown == [("b", 0, 1)]


def test_a_budget_that_lets_go_in_time_lets_the_drain_begin() -> None:
    run = world(replacement_hold=60.0)
    run.run(12.0)
    run.step(budgeted(0))
    come(run)
    run.run(30.0)
    run.step(budgeted(1))
    run.run(2.0)
    assert (run.removed, released(run)) == (["n2"], [])


def test_a_price_that_changes_before_the_drain_ends_it() -> None:
    run = world()
    run.run(12.0)
    run.answer(run.of(ScaleUpPlanned)[0], Result.DONE)
    run.step(small(0.2, desired=1))
    run.step(*small_node("s1"))
    run.run(5.0)
    assert run.removed == []
    assert [reason.rpartition(": ")[2] for reason in released(run)] == ["it would no longer save what it must"]
    run.run(20.0)
    assert run.removed == ["s1"]


@pytest.mark.parametrize(
    ("groups", "changed"),
    [
        ((big(), small()), {"consolidate": False}),
        ((big(), small()), {"profile": "upstream"}),
        ((big(), small()), {"scale_down": False}),
        ((big(), small(0.2)), {"consolidation_savings": 0.0}),
        ((big(), small(0.19)), {}),
        ((big(), small(None)), {}),
        ((big(None), small()), {}),
        ((big(), small(spot=True)), {}),
        ((big(), small(most=0)), {}),
        ((big(least=2), small()), {}),
        ((big(), small(template=None)), {}),
    ],
)
def test_nothing_is_replaced_where_it_may_not_or_saves_too_little(groups: Any, changed: dict[str, Any]) -> None:
    run = world(groups=groups, **changed)
    run.run(40.0)
    assert (run.grown, run.removed) == ([], [])


def test_a_spot_node_replaces_one_on_demand_only_if_that_is_set() -> None:
    run = world(groups=(big(), small(spot=True)), consolidate_to_spot=True)
    run.run(15.0)
    assert run.grown == [("b", 0, 1)]


KEPT = shape("half", cpu=1500, annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
DISABLED = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}


@pytest.mark.parametrize(
    ("what", "code"),
    [(KEPT, "BlockedByPod"), (node("n2", annotations=DISABLED), "ScaleDownDisabledAnnotation"), (budgeted(0), "BlockedByPod")],
)
def test_pods_that_must_not_be_moved_and_nodes_that_must_not_be_disrupted_keep_their_node(what: Any, code: str) -> None:
    first = [big(desired=1), small(), what if what is KEPT else shape("half", cpu=1500), controller("half"), *on("n2")]
    run = ScalerRun(*first, pod("half-0", "half", node="n2"), what, settings=SETTINGS)
    run.run(40.0)
    assert run.grown == []
    assert codes(run, "n2")[-1] == code


def test_pods_that_fit_elsewhere_are_no_reason_for_a_new_node() -> None:
    run = world(pod("half-1", "half", node="n3"), *on("n3"), groups=(big(desired=3), small()))
    run.run(40.0)
    assert run.grown == []
    assert "FitsElsewhere" in codes(run, "n2")


def test_a_node_that_was_just_placed_is_not_replaced_before_the_pause_is_over() -> None:
    """An even cheaper group comes up after the first replacement."""
    run = world(consolidation_pause=120.0)
    run.run(12.0)
    come(run)
    run.run(2.0)
    leave(run, "n2")
    template = NodeTemplateSeen({"topology.kubernetes.io/zone": "zone-c", "group": "c"}, (), SMALL, SMALL)
    run.step(group("c", price=0.02, template=template))
    run.run(100.0)
    assert run.grown == [("b", 0, 1)]
    assert "ReplacedRecently" in codes(run, "s1")
    run.run(40.0)
    assert run.grown == [("b", 0, 1), ("c", 0, 1)]


def test_shadow_says_it_once_and_remembers_no_replacement() -> None:
    run = world(mode=Mode.SHADOW, max_provision=30.0, backoff_first=5.0, backoff_longest=5.0)
    run.run(200.0)
    assert run.grown == [("b", 0, 1)]
    assert (len(run.stage.clusters.replacements), released(run)) == (0, [])


def test_nothing_is_started_while_pods_wait_for_growth_or_scale_down_rests() -> None:
    run = world(shape("large", cpu=3500), controller("large"), pod("wait-0", "large"), delay_after_add=60.0)
    run.run(50.0)
    assert [one.expander for one in run.of(ScaleUpPlanned)] == ["least-waste"]
    assert "so soon after a group grew" in soon(run, "n2")


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_never_two_replacements_for_one_node_and_no_drain_before_one_is_ready(
    data: st.DataObject,
) -> None:
    """Whatever consumers answer, nodes, prices and budgets do, and wherever the process starts anew."""
    run = world(max_provision=20.0, replacement_hold=30.0, consolidation_pause=40.0, backoff_first=5.0)
    run.run(12.0)
    there: set[str] = set()
    ready: set[str] = set()
    answered: set[str] = set()
    for number in range(data.draw(st.integers(5, 15))):
        what = data.draw(st.sampled_from(("run", "done", "failed", "join", "unready", "price", "budget", "restart")))
        open_growth = [one for one in run.of(ScaleUpPlanned) if one.id not in answered]
        if what in ("done", "failed") and open_growth:
            answered.add(open_growth[-1].id)
            run.answer(open_growth[-1], Result.DONE if what == "done" else Result.FAILED)
        elif what == "join" and len(there) < len(run.grown):
            there.add(f"s{number}")
            comes_ready = data.draw(st.booleans())
            ready |= {f"s{number}"} if comes_ready else set()
            condition = {"Ready": str(comes_ready)}
            run.step(small(desired=len(there)), *small_node(f"s{number}", conditions=condition))
        elif what == "unready" and there:
            ready.discard(min(there))
            run.step(*small_node(min(there), conditions={"Ready": "False"}))
        elif what == "price":
            run.step(small(data.draw(st.sampled_from((0.1, 0.2))), desired=len(there)))
        elif what == "budget":
            run.step(budgeted(data.draw(st.integers(0, 1))))
        elif what == "restart":
            chunks = {chunk: run.stage.dump(chunk) for chunk in sorted(run.stage.chunks())}
            run.stage = Scaler(run.stage.settings, 0, lambda _cluster: True)
            for chunk, dumped in chunks.items():
                run.stage.load(chunk, dumped)
        before = len(run.removed)
        run.run(data.draw(st.sampled_from((2.0, 12.0, 35.0))))
        drained = [one for one in run.of(NodeRemovalPlanned)[before:] if one.reason is RemovalReason.CONSOLIDATED]
        assert {one.because["replaced by"] for one in drained} <= ready
        records = list(run.stage.clusters.replacements.values())
        names = [name for one in records for name in one.names]
        assert len(names) == len(set(names))
        assert len(records) <= 1
