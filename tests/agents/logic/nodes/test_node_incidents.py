"""Kinds of incidents with node groups that users of other autoscalers reported, as scenarios for the stage."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from agents.logic.nodes.aws import group_options
from agents.logic.nodes.aws.group_options import GroupOptions
from agents.logic.nodes.scaler import scaling_dry_run
from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned, NodeScalingHalted, ScaleUpPlanned, SoftTaintPlanned
from schemas.facts.nodes import ExpanderPrioritiesSeen, NodeTaint, NodeTemplateSeen, ScalingActivityFailed
from schemas.facts.scheduled_pods import LabelQuery, PodPlacementRemoved, PodToleration, SpreadConstraint
from schemas.names import PodName
from schemas.outcomes import OutcomeDetail, Result
from schemas.well_known_labels import (
    DELETION_CANDIDATE,
    DO_NOT_DISRUPT,
    HOSTNAME,
    OPTION_TAG,
    SAFE_TO_EVICT,
    SCALE_DOWN_DISABLED,
)
from tests.support.cluster_events import GIB, START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, instance, joined, node, pod, shape

ZONE = "topology.kubernetes.io/zone"
QUICK = {"unneeded_time": 5.0, "delay_after_add": 0.0, "interval": 1.0}


def failed(group: str, code: str, message: str = "", at: int = START, **where: str) -> ScalingActivityFailed:
    return ScalingActivityFailed(when(at), CLUSTER, group, f"{group}-{code}", code, message, started=when(at), **where)


# A memory's key has all that its failure is about

OF_ONE_TYPE = {"instance_type": "m5.xlarge", "zone": "z1"}
NO_SPOT = "There is no Spot capacity available that matches your request."
NO_ON_DEMAND = "We currently do not have sufficient m5.xlarge capacity in the Availability Zone you requested (z1)."


@pytest.mark.parametrize(
    ("first", "code", "message", "second_serves"),
    [
        ("spot", "InsufficientInstanceCapacity", NO_SPOT, True),
        ("spot", "InsufficientInstanceCapacity", "", True),
        ("on-demand", "InsufficientInstanceCapacity", NO_ON_DEMAND, True),
        ("spot", "SpotMaxPriceTooLow", "", True),
        ("on-demand", "VcpuLimitExceeded", "", True),
        ("on-demand", "InvalidLaunchTemplate", "", True),
        ("on-demand", "Unsupported", "m5.xlarge is not supported in z1", False),
    ],
)
def test_a_failure_concerns_the_pool_that_it_is_about(first: str, code: str, message: str, second_serves: bool) -> None:
    groups = {"spot": group("spot", spot=True, zones=("z1",)), "on-demand": group("on-demand", zones=("z1",))}
    second = next(name for name in groups if name != first)
    order = ExpanderPrioritiesSeen(when(START), CLUSTER, "kube-system", "x", {"50": (first,), "10": (second,)})
    run = ScalerRun(*groups.values(), order, shape(), settings={"expanders": "priority"})
    run.step(pod("p"))
    run.run(3)
    for plan in run.decided[:1]:
        run.answer(plan, Result.DONE)
    run.step(replace(groups[first], desired=1))
    run.step(failed(first, code, message, run.now, **OF_ONE_TYPE))
    run.run(30)
    assert [name for name, _before, _after in run.grown] == [first, second][: 1 + second_serves]


def test_groups_of_one_pool_share_its_shortage() -> None:
    """The other way round: what one group has learned of a pool spares the others of that pool the same failure."""
    fact = failed("a", "InsufficientInstanceCapacity", NO_ON_DEMAND, **OF_ONE_TYPE)
    [pool] = group_options.empty_pools(fact, spot=False)
    assert pool in group_options.pools_of_group(group("b", zones=("z1", "z2")))
    assert pool not in group_options.pools_of_group(group("c", zones=("z1",), spot=True))


def test_a_group_of_both_markets_fails_in_the_one_that_the_cloud_names() -> None:
    short = {
        code: [*group_options.empty_pools(failed("mixed", "InsufficientInstanceCapacity", code, **OF_ONE_TYPE), spot=True)]
        for code in (NO_SPOT, NO_ON_DEMAND)
    }
    assert short == {NO_SPOT: ["m5.xlarge in z1, spot"], NO_ON_DEMAND: ["m5.xlarge in z1, on-demand"]}


# What asks to be left alone is left alone by everything that disrupts

ANNOTATED = {DO_NOT_DISRUPT: "true"}


@pytest.mark.parametrize("annotations", [ANNOTATED, {SAFE_TO_EVICT: "false"}, {**ANNOTATED, SAFE_TO_EVICT: "true"}])
@pytest.mark.parametrize("settings", [{}, {"expire_after": 60.0}, {"profile": "upstream"}])
def test_a_pod_that_asks_to_be_left_alone_keeps_its_node(annotations: dict[str, str], settings: dict[str, Any]) -> None:
    run = ScalerRun(
        group("a", desired=2),
        *joined("n1"),
        *joined("n2"),
        controller(),
        pod_of(annotations),
        pod("p", node="n1"),
        settings={**QUICK, **settings},
    )
    run.run(20)
    assert "n1" not in run.removed
    assert "BlockedByPod" in run.refused("n1")


def pod_of(annotations: dict[str, str]) -> Event:
    return shape(cpu=100, annotations=annotations)


@pytest.mark.parametrize("annotation", [SCALE_DOWN_DISABLED, DO_NOT_DISRUPT])
@pytest.mark.parametrize("settings", [{}, {"expire_after": 60.0}, {"drift": True}, {"repair_after": 5.0}])
def test_a_node_that_asks_to_be_left_alone_stays(annotation: str, settings: dict[str, Any]) -> None:
    ready = "False" if "repair_after" in settings else "True"
    odd = node("n1", annotations={annotation: "true"}, conditions={"Ready": ready})
    old = replace(joined("n1")[0], launch_version="lt-1:1")
    run = ScalerRun(group("a", desired=2, launch_version="lt-1:2"), old, odd, *joined("n2"), settings={**QUICK, **settings})
    run.run(20)
    assert "n1" not in run.removed
    assert "ScaleDownDisabledAnnotation" in run.refused("n1")


# Tags, and how nodes are filled


def test_an_option_counts_only_if_its_tag_begins_as_such_tags_do() -> None:
    name = f"{OPTION_TAG}scaledownunneededtime"
    options = {tag: group_options.of_group({tag: "1m"}, GroupOptions()).unneeded for tag in (name, f"team/{name}", f"x{name}")}
    assert list(options.values()) == [60.0, 600.0, 600.0]


def test_pods_of_mixed_sizes_are_packed_and_not_computed() -> None:
    """Five of 1,800m and five of 2,100m fill five nodes of 4,000m with kube-proxy; computing one kind says more."""
    sizes = [shape(f"s{cpu}", cpu=cpu, memory=1) for cpu in (1800, 2100)]
    pods = [pod(f"p{cpu}-{number}", f"s{cpu}") for cpu in (1800, 2100) for number in range(5)]
    exact = ScalerRun(group("a", most=20), *sizes, *pods)
    exact.run(3)
    quick = ScalerRun(group("a", most=20), *sizes, *pods, settings={"fastpath": True})
    quick.run(3)
    assert exact.grown == [("a", 0, 5)]
    assert quick.grown[0][2] >= exact.grown[0][2]


# Silence


def test_an_instance_that_never_registers_is_replaced_at_its_groups_minimum() -> None:
    run = ScalerRun(
        group("a", least=1, desired=1),
        instance("i-1"),
        group("b", desired=1),
        *joined("n1", "b"),
        settings={"max_provision": 60.0},
    )
    run.run(120)
    assert run.removed == ["i-1"]
    trouble = next(one for one in run.of(NodeScalingHalted) if one.group == "a")
    assert (trouble.code, "'i-1' has become no node" in trouble.reason) == ("BackedOff", False)


# A node that goes has a taint, and who honours taints does not count it


@pytest.mark.parametrize(
    ("key", "honors", "tolerates", "profile", "goes"),
    [
        (HOSTNAME, True, False, "ullage", True),
        (HOSTNAME, False, False, "ullage", False),
        (HOSTNAME, True, True, "ullage", False),
        (HOSTNAME, True, False, "upstream", False),
        (ZONE, True, False, "ullage", True),
        (ZONE, False, False, "ullage", False),
    ],
)
def test_a_drained_node_counts_for_a_spread_only_where_its_taint_does_not(
    key: str, honors: bool, tolerates: bool, profile: str, goes: bool
) -> None:
    """Each pod has a host, or a zone, of its own, and at most one more may be in another one."""
    rule = SpreadConstraint(key, 1, LabelQuery({"app": "web"}), honor_taints=honors)
    anything = (PodToleration(operator="Exists"),) if tolerates else ()
    places = [group(f"g{number}", desired=1) for number in range(4)]
    there = [event for number in range(4) for event in joined(f"n{number}", f"g{number}")]
    pods = [pod(f"p{number}", node=f"n{number}") for number in range(4)]
    run = ScalerRun(
        *places,
        *there,
        controller(),
        shape(cpu=100, spread=(rule,), tolerations=anything),
        *pods,
        settings={**QUICK, "profile": profile},
    )
    run.run(20)
    assert bool(run.removed) is goes
    assert len(run.removed) <= 1


def test_a_pod_that_no_node_can_ever_take_keeps_no_idle_node() -> None:
    busy = (shape("busy", cpu=3000), controller("busy"), pod("b", "busy", node="n2"))
    never = (shape("never", cpu=100, node_selector={"x": "nowhere"}), pod("q", "never", created=START))
    run = ScalerRun(group("a", desired=2), *joined("n1"), *joined("n2"), *busy, *never, settings=QUICK)
    run.run(20)
    assert (run.removed, run.grown) == (["n1"], [])


# A group that grows, or pods that are young, hold back nobody else


@pytest.mark.parametrize(("profile", "goes"), [("ullage", ["idle"]), ("upstream", [])])
def test_groups_that_grow_all_the_time_keep_no_node_of_another_group(profile: str, goes: list[str]) -> None:
    """A pod for group 'a' every half minute, for ten minutes; a node of 'a' goes only once that is over."""
    busy = [shape("busy", cpu=3900, node_selector={"group": "a"}), controller("busy")]
    settings = {"unneeded_time": 30.0, "delay_after_add": 60.0, "interval": 1.0, "profile": profile}
    a = group("a", desired=1, most=100)
    run = ScalerRun(a, *joined("spare"), *busy, group("b", desired=1), *joined("idle", "b"), settings=settings)
    for number in range(20):
        run.step(pod(f"p{number}", "busy", node="spare" if not number else None, created=run.now))
        run.run(30)
        for plan in run.decided:
            if isinstance(plan, ScaleUpPlanned) and plan.after > a.desired:
                a = replace(a, desired=plan.after)
                name = f"a{plan.after}"
                run.answer(plan, Result.DONE)
                run.step(a, *joined(name), pod(f"p{number}", "busy", node=name, created=run.now))
    assert a.desired > 10
    assert run.removed == goes


def test_a_node_of_a_group_that_grew_stays_for_a_while_and_says_so() -> None:
    settings = {"unneeded_time": 5.0, "delay_after_add": 60.0, "interval": 1.0}
    run = ScalerRun(group("a", desired=1), *joined("idle"), shape("large", cpu=3000), controller("large"), settings=settings)
    run.step(pod("one", "large", node="idle"), pod("two", "large"))
    run.run(3)
    [plan] = run.of(ScaleUpPlanned)
    run.answer(plan, Result.DONE)
    run.step(group("a", desired=2), *joined("new"), pod("two", "large", node="new"))
    run.step(PodPlacementRemoved(when(run.now), CLUSTER, PodName("shop", "one", "uid-one")))
    run.run(20)
    assert (run.removed, run.refused("idle")[-1:]) == ([], ["NodeGroupGrewLately"])
    run.run(60)
    assert run.removed == ["idle"]


@pytest.mark.parametrize(("profile", "grown"), [("ullage", [("a", 0, 1), ("g", 0, 1)]), ("upstream", [])])
def test_young_pods_that_ask_for_gpus_hold_back_no_growth(profile: str, grown: list[tuple[str, int, int]]) -> None:
    """Upstream waits half a minute for more of them, and lets all other pods wait as long."""
    sizes = {"cpu": 4000, "memory": 16 * GIB, "pods": 110, "nvidia.com/gpu": 1}
    devices = group("g", template=NodeTemplateSeen({"group": "g"}, (), sizes, sizes))
    train = shape("train", requests={"cpu": 1000, "memory": GIB, "nvidia.com/gpu": 1})
    web = shape(node_selector={"group": "a"})
    run = ScalerRun(group("a"), devices, web, train, settings={"profile": profile})
    run.step(pod("t", "train", created=run.now), pod("w", created=run.now))
    run.run(25)
    assert sorted(run.grown) == grown


@pytest.mark.parametrize(("asked", "waits", "plan"), [(1, True, ("g", 1, 2)), (2, False, ("h", 0, 1))])
def test_a_pod_that_asks_for_gpus_waits_half_a_minute_for_those_that_are_there_and_holds_back_no_other(
    asked: int, waits: bool, plan: tuple[str, int, int]
) -> None:
    """No room can come for a pod that asks for more than any node has."""
    one, two = ({"cpu": 4000, "memory": 16 * GIB, "pods": 110, "nvidia.com/gpu": number} for number in (1, 2))
    gpus = [group(name, template=NodeTemplateSeen({"group": name}, (), sizes, sizes)) for name, sizes in (("g", one), ("h", two))]
    shapes = [shape(f"s{number}", requests={"cpu": 1000, "nvidia.com/gpu": number}) for number in (1, 2)]
    there = (instance("n1", "g"), node("n1", "g", allocatable=one, capacity=one), pod("old", "s1", node="n1"))
    run = ScalerRun(group("a"), replace(gpus[0], desired=1), gpus[1], shape(node_selector={"group": "a"}), *shapes, *there)
    run.step(pod("t", f"s{asked}", created=run.now), pod("w", created=run.now))
    run.run(25)
    assert sorted(run.grown) == [("a", 0, 1), *([] if waits else [plan])]
    waiting = scaling_dry_run.pod_waits(run.stage, CLUSTER, "t", run.now)
    assert waiting is not None
    assert ("TooYoung" in [obstacle.code for obstacle in waiting[1]]) is waits
    run.run(15)
    assert plan in run.grown


@pytest.mark.parametrize(
    ("result", "detail", "undone"),
    [
        (Result.DONE, OutcomeDetail.APPLIED, True),
        (Result.FAILED, OutcomeDetail.FORBIDDEN, False),
        (Result.EXPIRED, OutcomeDetail.NOT_SEEN, False),
    ],
)
def test_a_soft_taint_that_somebody_takes_off_or_that_fails_is_set_more_and_more_seldom(
    result: Result, detail: OutcomeDetail, undone: bool
) -> None:
    """Two autoscalers on one cluster (autoscaler#5544, #6273): 2,079 taints of one node in six hours."""
    run = ScalerRun(shape("web", cpu=500), controller("web"), tick=10_000, settings={"unneeded_time": 86_400.0})
    run.step(group("a", desired=2), *joined("a-1"), *joined("a-2"), *[pod(f"web-{n}", node="a-1") for n in range(5)])
    times, read = [], 0
    for _ in range(6 * 360):
        run.step()
        plans, read = [plan for plan in run.decided[read:] if isinstance(plan, SoftTaintPlanned)], len(run.decided)
        for plan in plans:
            times.append(plan.at)
            run.answer(plan, result, detail)
            if undone:
                run.step(node(plan.node, taints=(NodeTaint(DELETION_CANDIDATE, "1", "PreferNoSchedule"),)))
                run.step()
                run.step(node(plan.node))
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert 10 <= len(times) <= 20
    assert pauses[0] <= 330.0
    assert max(pauses) >= 1800.0


@pytest.mark.parametrize(
    ("result", "detail"),
    [
        (Result.REFUSED, OutcomeDetail.MOVED),
        (Result.EXPIRED, OutcomeDetail.NO_ANSWER),
        (Result.EXPIRED, OutcomeDetail.BUDGET),
        (Result.EXPIRED, OutcomeDetail.NONE),
    ],
)
def test_a_node_whose_pod_comes_back_whenever_it_is_evicted_is_tried_more_and_more_seldom(
    result: Result, detail: OutcomeDetail
) -> None:
    """Somebody uncordons it (autoscaler#5235, #5790); its pod was evicted each eleven minutes, for ever."""
    run = ScalerRun(shape("web", cpu=500), controller("web"), tick=10_000)
    run.step(group("a", desired=2), *joined("a-1"), *joined("a-2"), *[pod(f"web-{n}", node="a-1") for n in range(5)])
    back, times, read = "back-0", [], 0
    run.step(pod(back, node="a-2"))
    for _ in range(12 * 360):
        run.step()
        plans, read = [plan for plan in run.decided[read:] if isinstance(plan, NodeRemovalPlanned)], len(run.decided)
        for plan in plans:
            times.append(plan.at)
            run.step(PodPlacementRemoved(when(run.now), CLUSTER, pod(back).pod))
            back = f"back-{len(times)}"
            run.step(pod(back, node=plan.node))
            run.answer(plan, result, detail)
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert 3 <= len(times) <= 24
    assert max(pauses) >= 1800.0
