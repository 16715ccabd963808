"""Replicas from one metric against Kubernetes' own."""

from typing import Any

import pytest

from agents.logic.replicas import replica_calculator
from agents.logic.replicas.replica_calculator import MetricError, ReadinessDelays, ReplicaContext, requests
from tests.support.ehpa_vectors import Json, summed, vectors
from tests.support.hpa_scenes import NOW, asked, pods, samples


def proposed(inputs: Json) -> Any:
    given = inputs.get("pods") or []
    target, function, resource = inputs["target"], inputs["function"], inputs["resource"]
    patience = ReadinessDelays(inputs["cpu_initialization_period_s"], inputs["initial_readiness_delay_s"])
    scene = ReplicaContext(
        inputs["current_replicas"],
        inputs.get("status_replicas", 0),
        NOW,
        inputs["tolerance_down"],
        inputs["tolerance_up"],
        patience,
    )
    values, cpu = inputs.get("values") or [], resource == "cpu"
    value = summed(values) if function.startswith("external") else sum(values[:1])
    if function == "resource_utilization":
        wanted = requests(asked(given, resource), resource=resource, container=inputs.get("container", ""))
        return replica_calculator.by_utilization(pods(given), samples(given, cpu=cpu), wanted, target=target, scene=scene)
    if function in ("resource_value", "pods_value"):
        cpu = cpu and function == "resource_value"
        return replica_calculator.by_average(pods(given), samples(given, cpu=cpu), target=target, scene=scene)
    if function in ("external_value", "object_value"):
        return replica_calculator.by_value(value, pods(given), target=target, scene=scene)
    assert function in ("external_average", "object_average")
    return replica_calculator.by_value_per_pod(value, target=target, scene=scene)


@pytest.mark.parametrize("vector", vectors("hpa_replicas"))
def test_a_metric_proposes_what_it_proposes_in_kubernetes(vector: Json) -> None:
    found, expected = proposed(vector["inputs"]), vector["expected"]
    if "error" in expected:
        assert isinstance(found, MetricError)
        return
    assert not isinstance(found, MetricError), found
    assert found.replicas == expected["replicas"]
    if "utilization" in expected:
        assert (found.utilization, found.usage) == (expected["utilization"], expected["average_milli"])
    elif "usage_milli" in expected:
        assert found.usage == expected["usage_milli"]
