"""Replicas that are planned: groups grow for them before their pods exist, and no longer than they are to be expected."""

from dataclasses import replace
from typing import Any

import pytest

from agents.engine.turn import Decided
from agents.logic.nodes.scaler.scaler_stage import Scaler
from agents.logic.nodes.scaler_settings import ScalerSettings
from schemas.catalogue import Event
from schemas.decisions.node_updates import ScaleRefused, ScaleUpPlanned
from schemas.decisions.replica_plans import ReplicasRefused, ScalingMode, UpcomingReplicas
from schemas.facts.scheduled_pods import AttachedVolume, ControllingOwner, LabelDemand, NodeQuery, PodPlacementRemoved
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.names import PodName, Workload
from schemas.policies.control import ControlChanged, Mode
from tests.support.cluster_events import START, turn, when
from tests.support.node_scene import (
    CLUSTER,
    ScalerRun,
    controller,
    group,
    joined,
    pod,
    replicas_planned,
    shape,
    topic,
)

ON = {"planned_replicas": True}
WEB = Workload(CLUSTER, "shop", "Deployment", "shop-web")


def shop(**settings: Any) -> ScalerRun:
    """A node of four cores with two pods of a core each, of the Deployment shop-web."""
    pods = [pod("web-1", node="n1"), pod("web-2", node="n1")]
    first = (group(most=10, desired=1), *joined("n1"), shape(), controller(deployment="shop-web"), *pods)
    return ScalerRun(*first, settings={**ON, **settings})


def test_a_group_grows_for_planned_replicas_before_their_pods_are_there() -> None:
    run = shop()
    run.step(replicas_planned(10))
    run.run(1.0)
    assert run.grown == [("a", 1, 3)]  # eight are missing: two fit on n1, and four on each of two new nodes but for two
    [plan] = run.of(ScaleUpPlanned)
    assert (plan.pods, plan.because["planned replicas"], plan.because["waiting"]) == (6, {"shop/shop-web": 6}, 0)
    assert all(name.startswith("shop/shop-web (planned ") for name in plan.examples)


@pytest.mark.parametrize(
    ("hard", "used", "pods"),
    [
        ({"pods": "5"}, {"pods": "2"}, 1),  # three may come, of which two have room on n1
        ({"requests.cpu": "8"}, {"requests.cpu": "2"}, 4),
        ({"pods": "2"}, {"pods": "2"}, 0),
        ({"limits.cpu": "1"}, {}, 6),  # nobody knows the limits of a pod that is not there
    ],
)
def test_no_group_grows_for_planned_replicas_that_a_quota_refuses(hard: dict[str, str], used: dict[str, str], pods: int) -> None:
    """kubernetes-sigs/cluster-autoscaler#71: nodes were started again and again for pods that never came."""
    run = shop()
    run.step(ResourceQuotaChanged(when(START), CLUSTER, "shop", "team", hard, used), replicas_planned(10))
    run.run(1.0)
    assert [plan.pods for plan in run.of(ScaleUpPlanned)] == ([pods] if pods else [])


def test_nothing_grows_for_them_unless_asked_for() -> None:
    run = shop(planned_replicas=False)
    run.step(replicas_planned(10))
    run.run(30.0)
    assert run.grown == []


def test_growth_cites_the_plan_that_it_follows_from() -> None:
    stage = Scaler(ScalerSettings(planned_replicas=True), 0, lambda _cluster: True)
    events: list[Event] = [
        ControlChanged(when(START), CLUSTER, Mode.APPLY),
        SourceReported(when(START), CLUSTER, "kube", ("scheduling-changes",), 1e9),  # type: ignore[arg-type]  # a unit
        SourceReported(when(START), CLUSTER, "asg", ("node-group-changes",), 1e9),  # type: ignore[arg-type]  # a unit
        group(desired=1),
        *joined("n1"),
        shape(),
        controller(deployment="shop-web"),
        pod("web-1", node="n1"),
        replicas_planned(8),
    ]
    inputs: dict[str, list[Event]] = {}
    for event in events:
        inputs.setdefault(topic(event), []).append(event)
    decided: list[Decided] = list(stage.step(turn(START + 500, **inputs)))
    for late in range(1, 4):
        decided += stage.step(turn(START + 1000 * late))
    [plan] = [one for one in decided if isinstance(one.event, ScaleUpPlanned)]
    assert "replica-plans-by-cluster" in " ".join(place.topic for place in plan.cause)


def test_pods_that_came_are_not_counted_twice() -> None:
    run = shop()
    run.step(replicas_planned(4))
    run.run(5.0)
    assert run.grown == []  # two more fit on n1
    run.step(pod("web-3", node="n1"), pod("web-4", node="n1"))
    run.run(5.0)
    assert run.grown == []


def test_a_pod_that_is_being_deleted_is_none_that_is_there() -> None:
    run = shop()
    run.step(pod("web-2", node="n1", deleted=when(START)), replicas_planned(5))
    run.run(2.0)
    [plan] = run.of(ScaleUpPlanned)
    assert plan.pods == 2  # four are missing, and the one that goes keeps its room until it is gone


@pytest.mark.parametrize("mode", [ScalingMode.HPA, ScalingMode.DIRECT])
def test_a_step_that_only_the_pace_of_an_hpa_makes_smaller_counts_as_what_it_leads_to(mode: ScalingMode) -> None:
    run = shop()
    run.step(replicas_planned(4, stabilized=50, most=12, carried_out_by=mode))
    run.run(2.0)
    assert run.grown == ([("a", 1, 3)] if mode is ScalingMode.HPA else [])


def test_what_is_asked_for_soon_counts_until_then_and_as_long_as_a_plan_holds() -> None:
    run = shop(delay_after_add=0.0, unneeded_time=30.0, recheck=10.0)
    run.step(*joined("n2"), group(most=10, desired=2))
    run.step(replicas_planned(2, upcoming=UpcomingReplicas(6, when(START + 300_000))))
    run.run(400.0)
    assert run.removed == []
    run.run(60.0)  # the plan ran out 120 s after the time by which the pods were expected
    assert run.removed == ["n2"]
    run = shop()
    run.step(replicas_planned(2, most=5, upcoming=UpcomingReplicas(50, when(START + 300_000))))
    run.run(2.0)
    assert run.grown == [("a", 1, 2)]  # never beyond the maximum: one more pod than fits on n1


def test_a_preview_and_a_refusal_count_for_nothing() -> None:
    run = shop()
    run.step(replicas_planned(10, carried_out_by=ScalingMode.PREVIEW))
    run.run(2.0)
    refused = ReplicasRefused("forecaster/0/1/refuse/x", when(START), WEB, "ehpa", "paused", "the cluster is paused", {})
    run.step(replicas_planned(10), refused)
    run.run(2.0)
    assert run.grown == []


def test_a_plan_whose_pods_never_come_is_forgotten_when_it_runs_out() -> None:
    run = shop(delay_after_add=0.0, unneeded_time=30.0, recheck=10.0)
    run.step(*joined("n2"), group(most=10, desired=2))
    run.step(replicas_planned(6))
    run.run(110.0)
    assert run.removed == []  # the planned pods would need n2
    run.run(90.0)
    assert run.removed == ["n2"]


def test_a_plan_of_the_far_future_counts_for_an_hour() -> None:
    run = shop()
    run.step(replicas_planned(4, expires=when(START + 10**9)))
    run.run(3590.0)
    assert len(run.stage.clusters.planned) == 1
    run.run(20.0)
    assert len(run.stage.clusters.planned) == 0


def test_new_pods_are_like_those_of_the_newest_rollout() -> None:
    run = shop()
    newer = replace(shape("a-newer", cpu=3000), at=when(START + 1000))  # a name that comes before the older one's
    run.step(newer, controller("a-newer", deployment="shop-web"), pod("new", "a-newer", "n1"))
    run.step(replicas_planned(5))
    run.run(2.0)
    [plan] = run.of(ScaleUpPlanned)
    assert (plan.pods, plan.after) == (2, 3)  # one pod of three cores a node


def test_new_pods_are_not_like_those_of_a_rollout_that_is_taken_back() -> None:
    run = shop()
    newer = replace(shape("newer", cpu=3000), at=when(START + 1000))
    run.step(newer, controller("newer", deployment="shop-web"), pod("new", "newer", "n1", deleted=when(START)))
    run.step(replicas_planned(5))
    run.run(2.0)
    [plan] = run.of(ScaleUpPlanned)
    assert (plan.pods, plan.after) == (3, 2)  # one core each: all on one node


def test_workloads_that_miss_the_fewest_come_first_and_all_share_the_bound() -> None:
    run = shop(most_planned=5)
    db = shape("db", cpu=4000, owner=ControllingOwner("StatefulSet", "db", "apps/v1"))
    run.step(db, pod("db-0", "db", "n1"), replicas_planned(100), replicas_planned(3, name="db", kind="StatefulSet"))
    run.run(2.0)
    [plan] = run.of(ScaleUpPlanned)
    assert plan.because["planned replicas"] == {"shop/db": 2, "shop/shop-web": 3}
    assert [name for name in plan.examples if "db" in name] == ["shop/db (planned 1)", "shop/db (planned 2)"]


def test_pods_of_another_workload_or_of_none_are_not_taken_for_it() -> None:
    run = shop()
    run.step(replicas_planned(10, name="unseen"), replicas_planned(10, kind="StatefulSet"))
    run.run(5.0)
    assert run.grown == []


def test_a_set_that_makes_its_pods_itself_is_known_by_them() -> None:
    run = shop()
    run.step(shape("db", cpu=2000, owner=ControllingOwner("StatefulSet", "db", "apps/v1")), pod("db-0", "db", "n1"))
    run.step(replicas_planned(3, name="db", kind="StatefulSet"))
    run.run(2.0)
    assert run.grown == [("a", 1, 2)]


def test_a_volume_that_each_pod_has_of_its_own_binds_no_new_pod() -> None:
    elsewhere = NodeQuery((LabelDemand("topology.kubernetes.io/zone", "In", ("zone-z",)),))
    own = AttachedVolume("ebs.csi.aws.com", "data", (elsewhere,), own=True)
    run = shop()
    run.step(shape("db", cpu=2000, owner=ControllingOwner("StatefulSet", "db", "apps/v1"), volumes=(own,)))
    run.step(pod("db-0", "db", "n1"), replicas_planned(3, name="db", kind="StatefulSet"))
    run.run(2.0)
    assert run.grown == [("a", 1, 2)]
    shared = AttachedVolume("ebs.csi.aws.com", "data", (elsewhere,))
    run = shop()
    run.step(shape("db", cpu=2000, owner=ControllingOwner("StatefulSet", "db", "apps/v1"), volumes=(shared,)))
    run.step(pod("db-0", "db", "n1"), replicas_planned(3, name="db", kind="StatefulSet"))
    run.run(2.0)
    assert run.grown == []


def test_planned_pods_are_as_many_as_the_setting_says_together_with_those_that_wait() -> None:
    run = shop(most_planned=9)
    run.step(*[pod(f"w{number}", "other") for number in range(5)], shape("other"))
    run.step(shape("other"), *[pod(f"w{number}", "other") for number in range(5)], replicas_planned(100))
    run.run(2.0)
    [plan] = run.of(ScaleUpPlanned)
    assert plan.because["waiting"] == 5
    assert plan.because["planned replicas"] == {"shop/shop-web": plan.pods - sum("planned" not in name for name in plan.examples)}
    assert plan.pods == 9 - 2  # two fit on n1


def test_pods_that_wait_go_before_planned_ones() -> None:
    run = shop(most_nodes=2)
    run.step(*[pod("web-3", node="n1"), pod("web-4", node="n1")])
    run.step(*[pod(f"p{number}") for number in range(4)], replicas_planned(40, current=8))
    run.run(2.0)
    [plan] = run.of(ScaleUpPlanned)
    assert plan.after == 2
    assert plan.examples == ("shop/p0", "shop/p1", "shop/p2", "shop/p3")


def test_nobody_is_told_of_planned_pods_that_no_group_takes() -> None:
    run = shop()
    run.step(shape("big", cpu=64_000, owner=ControllingOwner("StatefulSet", "big", "apps/v1")), pod("big-0", "big", "n1"))
    run.step(replicas_planned(5, name="big", kind="StatefulSet"))
    run.run(12.0)
    assert run.grown == []
    assert not [one for one in run.of(ScaleRefused) if "big" in str(one.subject)]


def test_pods_that_went_are_expected_again_while_the_plan_holds() -> None:
    run = shop()
    run.step(replicas_planned(4, current=4), pod("web-3", node="n1"), pod("web-4", node="n1"))
    run.run(2.0)
    gone = [PodPlacementRemoved(when(START), CLUSTER, PodName("shop", name, f"uid-{name}")) for name in ("web-3", "web-4")]
    run.step(shape("filler", cpu=2000), pod("filler", "filler", "n1"), *gone)
    run.run(12.0)
    assert run.grown == [("a", 1, 2)]
