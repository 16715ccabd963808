"""Pods' kinds, DaemonSets, utilisation and drain rules against upstream's answers."""

from typing import Any

import pytest

from agents.logic.nodes.cluster import group_patterns
from agents.logic.nodes.removal import drain_rules, node_utilization
from agents.logic.nodes.removal.drain_rules import (
    DisruptionBudget,
    DisruptionBudgets,
    DrainContext,
    DrainSettings,
    KnownControllers,
)
from agents.logic.nodes.scheduling import placement_rules, pod_shapes
from tests.support.ca_vectors import node, pod, shape, vectors

Vector = dict[str, Any]

NOW = 1_000_000.0


@pytest.mark.parametrize("vector", vectors("pod_kind"))
def test_a_pod_is_of_the_kind_that_upstream_sees(vector: Vector) -> None:
    inputs = vector["inputs"]
    annotations = inputs["annotations"] or {}
    owners = tuple(
        pod_shapes.PodOwner(one["kind"], one["name"], controller=bool(one.get("controller")))
        for one in inputs["owner_references"] or ()
    )
    mine = pod_shapes.controller(owners)
    assert {
        "is_mirror": pod_shapes.is_mirror(annotations),
        "is_static": pod_shapes.is_static(annotations),
        "controller_kind": "" if mine is None else mine.kind,
    } == vector["expected"]


@pytest.mark.parametrize("vector", vectors("daemonset_on_node"))
def test_a_daemonset_runs_where_upstream_runs_it(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    found = group_patterns.runs_daemonset(shape(inputs["daemonset_pod_template"]), node(inputs["node"]))
    assert found == (expected["should_run"], expected["should_continue_running"])


@pytest.mark.parametrize("vector", vectors("utilization"))
def test_a_node_is_used_as_much_as_upstream_says(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    ignored = node_utilization.IgnoredPods(inputs["ignore_daemonsets"], inputs["ignore_mirror_pods"])
    running = [pod(one, NOW) for one in inputs["node"].get("running_pods", ())]
    gpu = inputs.get("gpu_resource", "")
    if "error" in expected:
        with pytest.raises(node_utilization.UtilizationError):
            node_utilization.of_node(node(inputs["node"]), running, ignored, NOW, gpu=gpu)
        return
    mine = node_utilization.of_node(node(inputs["node"]), running, ignored, NOW, gpu=gpu)
    assert (mine.resource, mine.highest) == (expected["resource"], pytest.approx(expected["utilization"], rel=1e-12))
    if "gpu" in expected:
        assert mine.gpu == pytest.approx(expected["gpu"], rel=1e-12)
    else:
        assert (mine.cpu, mine.memory) == pytest.approx((expected.get("cpu", 0.0), expected.get("memory", 0.0)), rel=1e-12)


def drain_scene(inputs: Vector, now: float) -> DrainContext:
    """What a vector's flags, controllers and budgets say."""
    flags = inputs["flags"]
    settings = DrainSettings(
        flags["skip_nodes_with_system_pods"],
        flags["skip_nodes_with_local_storage"],
        flags["skip_nodes_with_custom_controller_pods"],
        flags["min_replica_count"],
        flags["blocking_system_pod_disruption_timeout_s"],
    )
    known = {(one["kind"], one.get("namespace", "default"), one["name"]): one.get("replicas") for one in inputs["controllers"]}
    budgets = [
        DisruptionBudget(
            one["name"], one.get("namespace", "default"), placement_rules.selector(one["selector"]), one["disruptions_allowed"]
        )
        for one in inputs["pdbs"]
    ]
    return DrainContext(now, settings, KnownControllers(known), DisruptionBudgets(budgets))


@pytest.mark.parametrize("vector", vectors("drain"))
def test_a_pod_blocks_its_node_when_and_why_upstream_says(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    scene = drain_scene(inputs, NOW)
    given = [pod(one, NOW) for one in inputs["pods"]]
    for one in given:
        verdict = drain_rules.of_pod(one, scene)
        theirs = expected["per_pod"][one.name]
        assert (verdict.outcome, verdict.reason) == (theirs["outcome"], theirs.get("reason"))
    found = drain_rules.of_node(given, scene)
    assert (found.blocker is not None) == expected["blocked"]
    if found.blocker is not None:
        assert (found.blocker.name, found.reason) == (expected["first_blocking_pod"], expected["first_blocking_reason"])
        return
    assert [one.name for one in found.move] == expected.get("move", [])
    assert [one.name for one in found.daemons] == expected.get("daemonset_pods", [])
    assert [one.name for one in found.wait] == expected.get("wait_for_completion", [])
    if "pdbs_allow_all_at_once" in expected:
        assert scene.budgets.allow_at_once(found.move) == expected["pdbs_allow_all_at_once"]
