"""Estimates and expanders against upstream's answers."""

from typing import Any

import pytest
import yaml

from agents.logic.nodes.growth import expanders, node_estimator
from agents.logic.nodes.growth.node_estimator import GroupTemplate, PodGroup
from schemas.decisions.node_updates import RefusalCode
from tests.support.ca_vectors import amounts, cluster, node, shape, total, vectors

Vector = dict[str, Any]


@pytest.mark.parametrize("vector", vectors("estimate"))
def test_an_estimate_adds_as_many_nodes_as_upstream(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    picture = cluster(inputs.get("existing_nodes", []))
    pods = tuple(shape(pod) for pod in inputs["template"].get("running_pods", ()))
    groups = [PodGroup(shape(one["pod"]), one["count"]) for one in inputs["pod_groups"]]
    rules = node_estimator.EstimatorLimits((inputs["max_nodes"], *inputs.get("limits", ())), inputs.get("fastpath", False))
    found = node_estimator.estimate(picture, GroupTemplate(node(inputs["template"]), pods), groups, rules)
    mine = {"nodes": found.nodes, "placed_per_group": list(found.placed), "pods_placed": sum(found.placed)}
    assert mine in expected.get("any_of", [expected])
    assert picture.size == len(inputs.get("existing_nodes", []))


def _option(given: Vector) -> expanders.ExpanderOption:
    made = node(given["template"])
    asked = [(total(one["pod"]), one["count"]) for one in given["pods"]]
    cpu = sum(one.get("cpu", 0) * count for one, count in asked)
    memory = sum(one.get("memory", 0) * count for one, count in asked)
    return expanders.ExpanderOption(given["group"], given["node_count"], made, sum(count for _one, count in asked), cpu, memory)


def _priorities(inputs: Vector, events: list[tuple[str, str]]) -> expanders.Priorities | None:
    """The priorities as the edge reads them: no ConfigMap is no event, one that means nothing is."""
    if inputs.get("configmap_missing"):
        return None
    text = inputs.get("priorities_yaml") or ""
    if not text and "priority" in inputs["chain"]:
        events.append((RefusalCode.NO_PRIORITIES.value, ""))
        return None
    try:
        return expanders.read_priorities(yaml.safe_load(text))
    except (expanders.PrioritiesError, yaml.YAMLError):
        events.append((RefusalCode.NO_PRIORITIES.value, ""))
        return None


@pytest.mark.parametrize("vector", vectors("expander"))
def test_the_same_option_wins_as_upstream(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    if "start_error" in expected:
        with pytest.raises(expanders.ExpanderError) as refused:
            expanders.chain(inputs["chain"])
        assert str(refused.value) == expected["start_error"]
        return
    events: list[tuple[str, str]] = []
    around = expanders.ExpanderContext(_priorities(inputs, events))
    options = [_option(one) for one in inputs["options"]]
    names = expanders.chain(inputs["chain"])
    for name, kept in expected.get("each_filter_alone_keeps", {}).items():
        assert [one.group for one in expanders.keep(expanders.Expander(name), options, around, [])] == kept
    choice = expanders.choose(names, options, around)
    if expected.get("none"):
        assert choice.best is None
    else:
        assert sorted(one.group for one in choice.equals) == expected["best_any_of"]
        assert choice.best in choice.equals
    assert sorted({reason for reason, _group in events + choice.events}) == expected.get("event_reasons", [])


def test_amounts_of_vectors_leave_out_what_is_said_to_be_absent() -> None:
    assert amounts({"cpu_m": 5, "memory_b": 7, "absent": ["memory"]}) == {"cpu": 5}
