"""What makes no sense, fact by fact, and what the scaler says of it; other groups and nodes go on."""

from typing import Any

import pytest

from agents.logic.event_validation import refuse
from agents.logic.nodes.scaler import scaling_dry_run
from agents.processes.source_asg import node_template
from schemas.decisions.node_updates import ScaleRefused
from schemas.facts.nodes import NodeTemplateSeen
from schemas.facts.scheduled_pods import LabelQuery
from schemas.facts.update_facts import PodDisruptionBudgetChanged
from streams.clients.aws.ec2_instances import InstanceSize
from streams.clients.aws.group_responses import AutoScalingGroup, TemplateVersion
from streams.sources.asg.launch_lookups import LaunchDetails
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, SIZE, ScalerRun, controller, group, joined, node, pod, shape

QUICK = {"interval": 1.0, "unneeded_time": 3.0, "unready_time": 3.0, "delay_after_add": 0.0}
TAG = "k8s.io/cluster-autoscaler/node-template/"


def faults(run: ScalerRun, name: str) -> list[str]:
    return [one.reason for one in run.of(ScaleRefused) if one.code == "GroupMisconfigured" and one.subject.name == name]


def test_a_minimum_above_the_maximum_is_said_once_and_the_maximum_counts() -> None:
    odd = group("odd", least=5, most=3, desired=2)
    only = shape(node_selector={"group": "a"})
    run = ScalerRun(odd, group("a"), only, controller(), pod("p"), settings={**QUICK, "enforce_minimum": True})
    run.run(60.0)
    assert faults(run, "odd") == ["its minimum 5 is above its maximum 3, which counts for both"]
    assert ("a", 0, 1) in run.grown
    assert all(after <= 3 for name, _before, after in run.grown if name == "odd")


def test_the_fact_of_such_a_group_is_no_dead_letter() -> None:
    assert refuse(group("odd", least=5, most=3, desired=2)) is None
    assert refuse(group("odd", least=-1)) is not None


def test_options_that_mean_nothing_are_named_until_somebody_mends_them() -> None:
    odd = {"scaledownunneededtime": "soon", "scaledownutilizationthreshold": "0.9", "colour": "blue"}
    run = ScalerRun(group(options=odd, desired=1), group("b"), *joined("n1"), settings=QUICK)
    run.run(30.0)
    [said] = faults(run, "a")
    assert f"'{TAG}autoscaling-options/scaledownunneededtime' says 'soon'" in said
    assert "colour" in said
    assert "threshold" not in said
    assert (faults(run, "b"), run.removed) == ([], ["n1"])
    run.step(group(options={}, desired=1))
    run.run(5.0)
    run.step(group(options=odd, desired=1))
    run.run(5.0)
    assert len(faults(run, "a")) == 2


def test_tags_of_the_template_that_cannot_be_read_are_named() -> None:
    tags = {
        f"{TAG}resources/cpu": "many",
        f"{TAG}resources/memory": "8Gi",
        f"{TAG}taint/team": "shop",
        f"{TAG}taint/gpu": "yes:NoSchedule",
    }
    asked = AutoScalingGroup("a", 0, 3, 0, ("eu-central-1a",), tags=tags)
    launch = LaunchDetails(template=TemplateVersion("lt", "1", "m5.large"))
    made = node_template(asked, launch, {"m5.large": InstanceSize("m5.large", 2, 8192, 0, "amd64")})
    assert [sentence.split("'")[1::2] for sentence in made.unread] == [
        [f"{TAG}resources/cpu", "many"],
        [f"{TAG}taint/team", "shop"],
    ]
    run = ScalerRun(group(template=NodeTemplateSeen({}, (), SIZE, SIZE, made.unread)), settings=QUICK)
    run.run(3.0)
    assert faults(run, "a") == ["; ".join(made.unread)]


@pytest.mark.parametrize("late", ["n1", "ghost"])
def test_a_node_left_from_before_takes_nobodys_instance_away(late: str) -> None:
    """Two Node objects with one instance: the one that is not ready must not end the other's machine."""
    nodes: dict[str, Any] = {
        "n1": node("n1"),
        "ghost": node("ghost", provider_id="aws:///zone-a/n1", conditions={"Ready": "Unknown"}),
    }
    others = [nodes[name] for name in sorted(nodes, key=lambda name: name == late)]
    busy = [shape(cpu=3000), controller(), pod("p", node="n1")]
    run = ScalerRun(group(desired=1), joined("n1")[0], *others, *busy, settings=QUICK)
    run.run(30.0)
    assert run.removed == []
    assert run.refused("ghost") == ["InstanceShared"]
    found = scaling_dry_run.node_stays(run.stage, CLUSTER, "ghost", run.now)
    assert found is not None
    assert [one.code for one in found] == ["InstanceShared"]
    run.step(node("ghost", provider_id="aws:///zone-a/n1"))
    run.run(3.0)
    assert run.refused("n1")[-1] == "InstanceShared"


def test_a_pod_that_several_disruption_budgets_protect_keeps_its_node_because_nobody_can_evict_it() -> None:
    budgets = [
        PodDisruptionBudgetChanged(when(START), CLUSTER, "shop", name, LabelQuery({"app": "web"}), 1, 1, 1, 1)
        for name in ("x", "y")
    ]
    busy = [shape("busy", cpu=2500), controller("busy"), pod("q", "busy", node="n2")]
    world = [group(desired=2), *joined("n1"), *joined("n2"), *busy, shape(), controller(), pod("p", node="n1"), *budgets]
    run = ScalerRun(*world, settings=QUICK)
    run.run(20.0)
    assert (run.removed, run.refused("n1")) == ([], ["BlockedByPod"])
    [said] = [one.reason for one in run.of(ScaleRefused) if one.subject.name == "n1"]
    assert said == "pod 'shop/p' must not be moved: SeveralPdbs"
    upstream = ScalerRun(*world, settings={**QUICK, "profile": "upstream"})
    upstream.run(20.0)
    assert upstream.removed == ["n1"]
