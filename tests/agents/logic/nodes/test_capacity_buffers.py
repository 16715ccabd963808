"""CapacityBuffers: nodes have room for pods that nobody made, the status says for how many, and why for none."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from schemas.decisions.node_updates import BufferStatusPlanned, ScaleUpPlanned
from schemas.facts.nodes import BufferShown, CapacityBufferGone, CapacityBufferSeen
from schemas.facts.update_facts import QuotaScope, ResourceQuotaChanged, ResourceQuotaRemoved
from schemas.outcomes import Result
from tests.support.cluster_events import GIB, START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, instance, joined, pod, replicas_planned, shape

QUICK = {"unneeded_time": 5.0, "delay_after_add": 0.0, "interval": 1.0}


def buffer(name: str = "room", **changed: Any) -> CapacityBufferSeen:
    """Room for two pods of 1.5 cores: a node of 4 cores has it."""
    template = shape("tpl", cpu=1500)
    fields: dict[str, Any] = {"template_name": "tpl", "template": template, "template_generation": 1, "replicas": 2}
    return CapacityBufferSeen(when(START), CLUSTER, "shop", name, f"uid-{name}", **{**fields, **changed})


def statuses(run: ScalerRun) -> list[tuple[bool, int | None, str]]:
    return [(plan.ready, plan.replicas, plan.message) for plan in run.of(BufferStatusPlanned)]


def test_a_group_grows_for_a_buffer_although_no_pod_waits() -> None:
    run = ScalerRun(group("a"), buffer(replicas=5))
    run.run(5)
    assert run.grown == [("a", 0, 3)], "two to a node"
    [plan] = run.of(ScaleUpPlanned)
    assert plan.examples == tuple(f"shop/room (buffer {number})" for number in range(1, 6))


def test_a_node_that_only_a_buffer_needs_stays_and_goes_with_the_buffer() -> None:
    run = ScalerRun(group("a", desired=1), *joined("n1"), buffer(), settings=QUICK)
    run.run(30)
    assert (run.grown, run.removed) == ([], [])
    run.step(CapacityBufferGone(when(run.now), CLUSTER, "shop", "room"))
    run.run(30)
    assert run.removed == ["n1"]


def test_a_real_pod_that_takes_the_room_lets_the_group_grow_for_new_room() -> None:
    run = ScalerRun(group("a", desired=1), *joined("n1"), buffer(), shape(cpu=1500), controller(), settings=QUICK)
    run.run(10)
    assert run.grown == []
    run.step(pod("p", node="n1"))
    run.run(10)
    assert run.grown == [("a", 1, 2)]


def test_pods_that_wait_come_before_buffers() -> None:
    run = ScalerRun(
        group("a", most=1, desired=1), *joined("n1"), buffer(replicas=2), shape(cpu=3000), controller(), settings=QUICK
    )
    run.step(pod("p", created=run.now))
    run.run(10)
    assert run.grown == [], "the pod has room where the buffer's pods had it"
    assert run.refused("web") == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (True, 2, "ready")),
        ({"replicas": 0}, (True, 0, "ready")),
        ({"replicas": None, "limits": {"cpu": 5000}}, (True, 3, "ready")),
        ({"replicas": 2, "limits": {"cpu": 2000, "memory": 100 * GIB}}, (True, 1, "ready")),
        ({"template": None, "template_generation": None}, (False, None, "there is no PodTemplate 'tpl' in namespace 'shop'")),
        (
            {"template": None, "unseen": "podtemplates"},
            (False, None, "the source's account may not list podtemplates, so what it names cannot be seen"),
        ),
        ({"template_name": "", "template": None}, (False, None, "it names neither a PodTemplate nor a workload")),
        ({"limits": {"nvidia.com/gpu": 1}}, (False, None, "its limits name no resource that its pods request")),
        ({"replicas": None}, (False, None, "it says neither replicas nor a percentage of its workload nor limits")),
        (
            {"percentage": 50, "replicas": None},
            (False, None, "it says neither replicas nor a percentage of its workload nor limits"),
        ),
    ],
)
def test_the_status_says_for_how_many_pods_or_why_for_none(
    changed: dict[str, Any], expected: tuple[bool, int | None, str]
) -> None:
    run = ScalerRun(group("a"), buffer(**changed))
    run.run(3)
    assert statuses(run) == [expected]


def quota(name: str, hard: dict[str, str], used: dict[str, str], *scopes: str) -> ResourceQuotaChanged:
    marks = tuple(QuotaScope(scope) for scope in scopes)
    return ResourceQuotaChanged(when(START), CLUSTER, "shop", name, hard, {**dict.fromkeys(hard, "0"), **used}, marks)


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        ([], (4, "")),
        ([quota("roomy", {"requests.cpu": "6"}, {})], (4, "")),
        ([quota("cpu", {"requests.cpu": "10"}, {"requests.cpu": "6500m"})], (2, "room for 2 of 4, by ResourceQuota 'cpu'")),
        ([quota("old", {"cpu": "2"}, {}), quota("memory", {"memory": "3Gi"}, {})],
         (1, "room for 1 of 4, by ResourceQuota 'memory', 'old'")),
        ([quota("full", {"requests.memory": "1Gi"}, {"requests.memory": "2Gi"})],
         (0, "room for 0 of 4, by ResourceQuota 'full'")),
        ([quota("pods", {"pods": "10"}, {"pods": "7"})], (3, "room for 3 of 4, by ResourceQuota 'pods'")),
        ([quota("limits", {"limits.cpu": "1"}, {})], (4, "")),
        ([quota("best", {"pods": "1"}, {}, "BestEffort")], (4, "")),
        ([quota("ends", {"pods": "1"}, {}, "Terminating")], (4, "")),
        ([quota("class", {"pods": "1"}, {}, "PriorityClass")], (4, "")),
        ([quota("usual", {"pods": "1"}, {}, "NotBestEffort", "NotTerminating")],
         (1, "room for 1 of 4, by ResourceQuota 'usual'")),
    ],
)  # fmt: skip
def test_quotas_of_the_namespace_bound_a_buffer(quotas: list[ResourceQuotaChanged], expected: tuple[int, str]) -> None:
    """Four pods of 1.5 cores and a GiB each; what quotas have left is what real pods could still ask for."""
    run = ScalerRun(group("a"), *quotas, buffer(replicas=4))
    run.run(3)
    [plan] = run.of(BufferStatusPlanned)
    assert (plan.ready, plan.message) == (True, "ready")
    assert (plan.replicas, plan.limited) == expected
    assert [len(grown.examples) for grown in run.of(ScaleUpPlanned)] == ([expected[0]] if expected[0] else [])


def test_a_buffer_has_of_a_quota_what_planned_replicas_leave() -> None:
    tight, web = quota("pods", {"pods": "7"}, {"pods": "2"}), [pod("web-1", node="n1"), pod("web-2", node="n1")]
    known = (group("a", desired=1), *joined("n1"), shape(), controller(deployment="shop-web"), *web, tight)
    run = ScalerRun(*known, settings={"planned_replicas": True})
    run.step(replicas_planned(5), buffer(replicas=4))
    run.run(3)
    [plan] = run.of(BufferStatusPlanned)
    assert (plan.replicas, plan.limited) == (2, "room for 2 of 4, by ResourceQuota 'pods'")


def test_buffers_share_a_quota_in_the_order_of_their_age_and_get_its_room_back() -> None:
    tight = quota("cpu", {"requests.cpu": "6"}, {"requests.cpu": "1500m"})
    run = ScalerRun(group("a"), tight, buffer(replicas=2))
    run.run(3)
    run.step(buffer("later", replicas=2))
    run.run(3)
    assert [(plan.name, plan.replicas, bool(plan.limited)) for plan in run.of(BufferStatusPlanned)] == [
        ("room", 2, False),
        ("later", 1, True),
    ]
    run.step(ResourceQuotaRemoved(when(run.now), CLUSTER, "shop", "cpu"))
    run.run(160)
    assert run.of(BufferStatusPlanned)[-1].replicas == 2
    assert run.of(BufferStatusPlanned)[-1].limited == ""


@pytest.mark.parametrize(("percentage", "replicas", "expected"), [(50, None, 2), (20, None, 0), (100, 3, 3), (200, None, 8)])
def test_a_percentage_is_of_the_pods_that_the_workload_has_rounded_down(
    percentage: int, replicas: int | None, expected: int
) -> None:
    like = {"template": None, "template_name": "", "workload_kind": "Deployment", "workload_name": "shop-web"}
    pods = [pod(f"p{number}", node="n1") for number in range(4)]
    run = ScalerRun(
        group("a", desired=1),
        *joined("n1"),
        shape(cpu=100),
        controller(replicas=4, deployment="shop-web"),
        *pods,
        buffer(percentage=percentage, replicas=replicas, **like),
    )
    run.run(3)
    assert statuses(run) == [(True, expected, "ready")]


def test_a_buffer_for_a_workload_without_pods_says_what_it_waits_for() -> None:
    like = {"template": None, "template_name": "", "workload_kind": "Deployment", "workload_name": "none"}
    run = ScalerRun(group("a"), buffer(**like))
    run.run(3)
    said = "no pod of Deployment 'none' was seen that the buffer's pods could be like, and no template of it"
    assert statuses(run) == [(False, None, said)]


def test_a_workload_without_pods_shows_by_its_template_what_room_it_needs_until_a_pod_shows_more() -> None:
    like = {"template_name": "", "template_generation": None, "workload_kind": "Deployment", "workload_name": "shop-web"}
    run = ScalerRun(group("a"), buffer(replicas=4, **like), settings=QUICK)
    run.run(3)
    assert (run.grown, statuses(run)) == ([("a", 0, 2)], [(True, 4, "ready")])
    first = [group("a", desired=1), *joined("n1"), shape(cpu=100), controller(replicas=1, deployment="shop-web")]
    run = ScalerRun(*first, pod("p", node="n1"), buffer(replicas=4, **like), settings=QUICK)
    run.run(3)
    assert (run.grown, statuses(run)) == ([], [(True, 4, "ready")])


def test_a_status_is_planned_once_and_again_when_somebody_else_changed_it() -> None:
    run = ScalerRun(group("a"), buffer())
    run.run(30)
    [plan] = run.of(BufferStatusPlanned)
    run.answer(plan, Result.DONE)
    shown = BufferShown(ready=True, replicas=2, template="tpl", generation=1, message="ready")
    run.step(buffer(shown=shown))
    run.run(400)
    assert len(run.of(BufferStatusPlanned)) == 1
    run.step(buffer(shown=replace(shown, replicas=7)))
    run.run(12)
    assert len(run.of(BufferStatusPlanned)) == 2


@pytest.mark.parametrize("result", [Result.DONE, Result.FAILED, Result.EXPIRED])
def test_a_status_that_somebody_else_keeps_changing_or_that_fails_is_written_more_and_more_seldom(result: Result) -> None:
    """Two controllers of buffers on one cluster would write by turns at every look."""
    run = ScalerRun(group("a"), buffer(), tick=10_000)
    theirs, read = BufferShown(ready=True, replicas=7, template="tpl", generation=1, message="theirs"), 0
    for _ in range(6 * 360):
        run.step()
        plans, read = [plan for plan in run.decided[read:] if isinstance(plan, BufferStatusPlanned)], len(run.decided)
        for plan in plans:
            run.answer(plan, result)
            run.step(buffer(shown=theirs))
    times = [plan.at for plan in run.of(BufferStatusPlanned)]
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert 3 <= len(times) <= 20
    assert max(pauses) >= 1800.0


def test_a_buffer_of_another_strategy_is_left_alone() -> None:
    run = ScalerRun(group("a"), buffer(strategy="example.com/cold"))
    run.run(5)
    assert (run.grown, statuses(run)) == ([], [])


def test_buffers_count_for_nothing_where_the_setting_says_so() -> None:
    run = ScalerRun(group("a"), buffer(), settings={"capacity_buffers": False})
    run.run(5)
    assert (run.grown, statuses(run)) == ([], [])


def test_more_pods_than_are_counted_are_said() -> None:
    run = ScalerRun(group("a", most=100), buffer("one", replicas=3), buffer("two", replicas=3), settings={"most_planned": 4})
    run.run(3)
    cut = "only 1 of 3: more pods are not counted beside those that wait (nodes.most_planned)"
    assert statuses(run) == [(True, 3, "ready"), (True, 1, cut)]


def test_a_drained_node_leaves_no_buffer_without_room() -> None:
    """Two half-empty nodes: the pods fit on one, and the buffer's do not, so neither node goes."""
    pods = [pod("p1", node="n1"), pod("p2", node="n2")]
    first = [group("a", desired=2), *joined("n1"), *joined("n2"), shape(cpu=1500), controller(replicas=2), *pods]
    run = ScalerRun(*first, settings=QUICK)
    run.run(30)
    assert len(run.removed) == 1
    run = ScalerRun(*first, buffer(replicas=2), settings=QUICK)
    run.run(30)
    assert run.removed == []


def test_over_provisioning_pods_go_on_working() -> None:
    """A pod of low priority that waits is one that groups grow for, and with a cutoff above it it keeps no node."""
    run = ScalerRun(group("a"), shape("spare", cpu=1500, priority=-10), controller("spare"))
    run.step(pod("s", "spare", created=run.now))
    run.run(5)
    assert run.grown == [("a", 0, 1)]
    cut = {**QUICK, "pod_priority_cutoff": 0}
    run = ScalerRun(group("a", desired=1), instance("n1"), *joined("n1"), shape("spare", cpu=1500, priority=-10), settings=cut)
    run.step(pod("s", "spare", node="n1"))
    run.run(30)
    assert run.grown == []
