"""Backoff, balancing, similarity and the cluster's state against upstream's answers."""

from typing import Any

import pytest

from agents.logic.nodes.autoscaler.cluster_state_registry import (
    ClusterStateRegistry,
    FailedScaleUp,
    NodeReadiness,
    RegistrySnapshot,
    SeenInstance,
    StateSettings,
)
from agents.logic.nodes.autoscaler.group_backoff import Backoff, BackoffSettings, ScaleUpFailure
from agents.logic.nodes.growth import similar_node_groups
from agents.logic.nodes.growth.node_estimator import GroupRow
from agents.logic.nodes.scheduling.node_columns import NodeRow
from agents.logic.nodes.scheduling.pod_shapes import SchedulingNode
from tests.support.ca_vectors import node, total, vectors

Vector = dict[str, Any]


@pytest.mark.parametrize("vector", vectors("backoff"))
def test_a_group_is_backed_off_as_long_as_upstream_does_it(vector: Vector) -> None:
    inputs = vector["inputs"]
    backoff = Backoff(BackoffSettings(inputs["initial_s"], inputs["max_s"], inputs["reset_s"]))
    for step, expected in zip(inputs["steps"], vector["expected"], strict=True):
        assert _backoff_step(backoff, step) == expected, step


def _backoff_step(backoff: Backoff, step: Vector) -> Vector:
    now = step["at_s"]
    if step["op"] == "fail":
        return {"until_s": backoff.fail("g", ScaleUpFailure("Other", f"e{now}"), now)}
    if step["op"] == "status":
        failure = backoff.of("g", now)
        return {"backed_off": False} if failure is None else {"backed_off": True, "error_code": failure.code}
    if step["op"] == "cleanup":
        backoff.clean(now)
    else:
        backoff.remove("g")
    return {}


@pytest.mark.parametrize("vector", vectors("balance"))
def test_new_nodes_are_shared_out_to_the_smallest_groups(vector: Vector) -> None:
    groups = [GroupRow(one["name"], 0, one["max"], one["target"]) for one in vector["inputs"]["groups"]]
    targets = similar_node_groups.share_nodes(groups, vector["inputs"]["new_nodes"])
    expected = vector["expected"]
    assert sum(targets[one.name] - one.target for one in groups if one.name in targets) == expected["added"]
    before = {one.name: one.target for one in groups}
    # Another choice among equal groups is as good: the sizes must agree, not the names.
    assert sorted({**before, **targets}.values()) == sorted({**before, **expected["new_target"]}.values())


@pytest.mark.parametrize("vector", vectors("similar"))
def test_groups_are_similar_when_upstream_says_so(vector: Vector) -> None:
    inputs = vector["inputs"]
    memory, allocatable, free = inputs["memory_allocatable_free_ratios"]
    base = similar_node_groups.AWS_IGNORED if inputs["comparator"] == "aws" else similar_node_groups.GENERIC_IGNORED
    ignored = base | frozenset(inputs.get("balancing_ignore_labels", ()))
    rules = similar_node_groups.SimilarityRules(memory, allocatable, free, ignored, tuple(inputs.get("balancing_labels", ())))
    assert similar_node_groups.alike(_empty(inputs["a"]), _empty(inputs["b"]), rules) == vector["expected"]["similar"]


def _empty(given: Vector) -> similar_node_groups.TemplateUsage:
    used: dict[str, int] = {}
    for pod in given.get("running_pods", ()):
        for name, amount in total(pod).items():
            used[name] = used.get(name, 0) + amount
    return similar_node_groups.TemplateUsage(node(given), used)


@pytest.mark.parametrize("vector", vectors("clusterstate"))
def test_the_state_of_groups_follows_the_world_as_upstreams_does(vector: Vector) -> None:
    inputs = vector["inputs"]
    settings = StateSettings(
        inputs["max_node_provision_s"],
        inputs["max_node_startup_s"],
        inputs["ok_total_unready_count"],
        inputs["max_total_unready_percentage"],
    )
    state = ClusterStateRegistry(settings, Backoff(BackoffSettings()))
    targets = {name: group["target"] for name, group in inputs["groups"].items()}
    for step, expected in zip(inputs["steps"], vector["expected"], strict=True):
        now = step["at_s"]
        targets |= step.get("targets", {})
        for group, delta in step.get("scale_up_requested", {}).items():
            state.scale_up(group, delta, now)
        for group, number in step.get("scale_downs_started", {}).items():
            for _one in range(number):
                state.scale_down(group, now)
        failed = state.update(_look(step, targets), now)
        mine = _written(state, failed, targets, now)
        assert mine == expected
        for one in failed:
            if one.failure.code == "timeout":
                targets[one.group] -= one.delta


def _look(step: Vector, targets: dict[str, int]) -> RegistrySnapshot:
    nodes = [
        NodeRow(
            row,
            SchedulingNode(one["name"]),
            one.get("group", ""),
            (),
            one["created_at_s"],
            ready=one["ready"],
            suspended=one.get("suspended", False),
            gone=one.get("instance_gone", False),
        )
        for row, one in enumerate(step.get("nodes", ()))
    ]
    instances = []
    for one in step.get("instances_without_node", ()):
        error = one.get("creating_error")
        failure = None if error is None else ScaleUpFailure(error["class"], error["code"])
        instances.append(SeenInstance(one["id"], one["group"], one.get("deleting", False), failure))
    return RegistrySnapshot(dict(targets), nodes, instances)


def _written(state: ClusterStateRegistry, failed: list[FailedScaleUp], targets: dict[str, int], now: float) -> Vector:
    found: Vector = {"at_s": now, "cluster_healthy": state.healthy(), "groups": {g: _group(state, g, now) for g in targets}}
    kinds = {"OutOfResources": "OutOfResource"}
    if failed:
        found["failures_registered"] = [
            {
                "class": kinds.get(one.failure.kind, one.failure.kind),
                "code": one.failure.code,
                "delta": one.delta,
                "group": one.group,
            }
            for one in failed
        ]
        calls = [{"delta": -one.delta, "group": one.group} for one in failed if one.failure.code == "timeout"]
        if calls:
            found["decrease_target_calls"] = calls
    return found


def _group(state: ClusterStateRegistry, name: str, now: float) -> Vector:
    mine, bounds, failure = state.groups.get(name, NodeReadiness()), state.ranges[name], state.backoff.of(name, now)
    kinds = ("registered", "ready", "unready", "not_started", "suspended", "deleted", "unregistered", "long_unregistered")
    found: Vector = {
        "healthy": state.group_healthy(name),
        "backed_off": failure is not None,
        "safe_to_scale_up": state.group_healthy(name) and failure is None,
        "acceptable": {"max": bounds.most, "min": bounds.least, "target": bounds.target},
        "counts": {kind: len(getattr(mine, kind)) for kind in kinds if getattr(mine, kind)},
        "upcoming": state.upcoming(name, now),
        "scaling_up": state.scaling_up(name),
    }
    if failure is not None:
        found["backoff_error_code"] = failure.code
    if name in state.requests:
        found["scale_up_request"] = state.requests[name].increase
    if name in state.wrong:
        wrong = state.wrong[name]
        found["incorrect_size"] = {"expected": wrong.expected, "registered": wrong.registered, "since_s": wrong.since}
    if state.creation_errors.get(name):
        found["instances_with_creation_errors"] = len(state.creation_errors[name])
    return found
