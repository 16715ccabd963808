"""The types of deploy/crds on a real API server: they take all that Crane's objects say, keep it, and refuse nonsense."""

import itertools
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane import crane_types
from tests.controlplane.api_requests import Refused
from tests.controlplane.plane import Plane
from tests.controlplane.world import World

EHPAS, SUBSTITUTES, TSPS = "effectivehorizontalpodautoscalers", "substitutes", "timeseriespredictions"
SELECTOR = {"matchLabels": {"queue": "orders"}, "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
DSP = {
    "sampleInterval": "60s",
    "historyLength": "7d",
    "estimators": {
        "maxValue": [{"marginFraction": "0.1"}],
        "fft": [
            {
                "marginFraction": "0.2",
                "lowAmplitudeThreshold": "1.0",
                "highFrequencyThreshold": "0.01",
                "minNumOfSpectrumItems": 10,
                "maxNumOfSpectrumItems": 20,
            }
        ],
    },
}
PERCENTILE = {
    "aggregated": True,
    "sampleInterval": "1m",
    "historyLength": "7d",
    "histogram": {
        "maxValue": "100",
        "epsilon": "1e-10",
        "halfLife": "24h",
        "bucketSize": "0.1",
        "firstBucketSize": "0.01",
        "bucketSizeGrowthRatio": "0.05",
    },
    "minSampleWeight": "1e-5",
    "marginFraction": "0.15",
    "targetUtilization": "0.5",
    "percentile": "0.99",
}
WHOLE: dict[str, Any] = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    "minReplicas": 2,
    "maxReplicas": 10,
    "scaleStrategy": "Preview",
    "specificReplicas": 5,
    "metrics": [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "memory",
                "container": "app",
                "target": {"type": "AverageValue", "averageValue": "1Gi"},
            },
        },
        {
            "type": "Pods",
            "pods": {
                "metric": {"name": "requests", "selector": SELECTOR},
                "target": {"type": "AverageValue", "averageValue": "100"},
            },
        },
        {
            "type": "External",
            "external": {"metric": {"name": "depth", "selector": SELECTOR}, "target": {"type": "Value", "value": "30"}},
        },
        {
            "type": "Object",
            "object": {
                "describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"},
                "metric": {"name": "hits"},
                "target": {"type": "Value", "value": 2000},
            },
        },
    ],
    "crons": [
        {
            "name": "morning",
            "description": "before they come",
            "timezone": "Europe/Berlin",
            "start": "0 8 * * *",
            "end": "0 18 * * *",
            "targetReplicas": 6,
        }
    ],
    "behavior": {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "tolerance": "0.05",
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
        },
        "scaleDown": {"stabilizationWindowSeconds": 300, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]},
    },
    "prediction": {"predictionWindowSeconds": 3600, "predictionAlgorithm": {"algorithmType": "dsp", "dsp": DSP}},
}
FORECASTS: dict[str, Any] = {
    "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"},
    "predictionWindowSeconds": 3600,
    "predictionMetrics": [
        {
            "resourceIdentifier": "resource.cpu",
            "type": "ResourceQuery",
            "resourceQuery": "cpu",
            "algorithm": {"algorithmType": "percentile", "percentile": PERCENTILE},
        },
        {
            "resourceIdentifier": "pods.requests",
            "type": "ExpressionQuery",
            "expressionQuery": {"expression": "sum(requests)"},
            "algorithm": {"algorithmType": "dsp", "dsp": DSP},
        },
        {
            "resourceIdentifier": "external.depth",
            "type": "MetricQuery",
            "metricQuery": {"metricName": "depth", "labels": [{"key": "queue", "operator": "=~", "value": ["orders"]}]},
        },
    ],
}
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "PredictSucceed",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


_names = (f"web-{number}" for number in itertools.count(1))


@pytest.fixture(scope="module")
def typed(plane: Plane) -> Iterator[World]:
    """A namespace for all tests of this file."""
    world = World(plane.ask)
    yield world
    world.close()


def made(world: World, plural: str, spec: dict[str, Any], name: str = "") -> Any:
    body = {**headed(plural), "metadata": {"name": name or next(_names)}, "spec": spec}
    return crane_types.make(world.ask, world.namespace, plural, body)


def headed(plural: str) -> dict[str, str]:
    kinds = {EHPAS: "EffectiveHorizontalPodAutoscaler", SUBSTITUTES: "Substitute", TSPS: "TimeSeriesPrediction"}
    group = "prediction" if plural == TSPS else "autoscaling"
    return {"apiVersion": f"{group}.crane.io/v1alpha1", "kind": kinds[plural]}


def kubectl(world: World, plane: Plane, what: str) -> list[list[str]]:
    command = ["kubectl", "--kubeconfig", str(plane.kubeconfig), "-n", world.namespace, "get", what]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return [row.split() for row in said.splitlines()]


def test_an_ehpa_with_every_field_is_taken_strictly_and_kept_as_it_is(typed: World) -> None:
    assert made(typed, EHPAS, WHOLE)["spec"] == WHOLE


def test_a_prediction_with_every_field_is_taken_strictly_and_kept_as_it_is(typed: World) -> None:
    assert made(typed, TSPS, FORECASTS)["spec"] == FORECASTS


def test_an_ehpa_of_which_little_is_said_gets_cranes_defaults(typed: World) -> None:
    spec = made(typed, EHPAS, {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3, "prediction": {}})[
        "spec"
    ]
    assert (spec["minReplicas"], spec["scaleStrategy"]) == (1, "Auto")
    assert spec["prediction"] == {"predictionWindowSeconds": 3600}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"maxReplica": 3}, 'unknown field "spec.maxReplica"'),
        ({"minReplicas": 11}, "minReplicas must not be above maxReplicas"),
        ({"scaleStrategy": "Manual"}, 'supported values: "Auto", "Preview"'),
        ({"maxReplicas": "ten"}, "must be of type integer"),
        ({"crons": [*WHOLE["crons"], {**WHOLE["crons"][0], "start": "1 1 * * *"}]}, "Duplicate value"),
        ({"metrics": WHOLE["metrics"] * 21}, "must have at most 100 items"),
        ({"prediction": {"predictionAlgorithm": {"algorithmType": "magic"}}}, 'supported values: "dsp", "percentile"'),
    ],
)
def test_an_ehpa_that_makes_no_sense_is_refused_with_the_place(typed: World, wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused) as refused:
        made(typed, EHPAS, {**WHOLE, **wrong})
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"predictionWindowSeconds": 599}, "should be greater than or equal to 600"),
        ({"predictionMetrics": []}, "should have at least 1 items"),
        ({"predictionMetrics": [FORECASTS["predictionMetrics"][0]] * 2}, "Duplicate value"),
        ({"predictionMetrics": [{"resourceIdentifier": "x", "type": "ExpressionQuery"}]}, "the query that type names is missing"),
    ],
)
def test_a_prediction_that_cranes_admission_refuses_is_refused(typed: World, wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused) as refused:
        made(typed, TSPS, {**FORECASTS, **wrong})
    assert why in str(refused.value)


def test_the_status_is_a_subresource_and_kubectl_shows_it(typed: World, plane: Plane) -> None:
    for plural, spec in ((EHPAS, WHOLE), (TSPS, FORECASTS)):
        made(typed, plural, spec, "shown")
    series = {"samples": [{"timestamp": 1767225600, "value": "5.90000"}]}
    forecasts = [{"resourceIdentifier": "resource.cpu", "ready": True, "prediction": [series]}]
    ready = {**READY, "reason": "EffectiveHorizontalPodAutoscalerReady"}
    statuses: dict[str, Any] = {
        EHPAS: {"expectReplicas": 7, "currentReplicas": 3, "lastScaleTime": "2026-01-01T00:00:00Z", "conditions": [ready]},
        TSPS: {"predictionMetrics": forecasts, "conditions": [READY]},
    }
    for plural, status in statuses.items():
        one = crane_types.path(typed.namespace, plural, "shown")
        typed.ask.patch(one, {"status": status}, kind="merge")
        assert "status" not in typed.ask.get(one)
        typed.ask.patch(f"{one}/status", {"status": status}, kind="merge")
        assert typed.ask.get(one)["status"] == status
    head, row = kubectl(typed, plane, "ehpa/shown")
    assert head == ["NAME", "STRATEGY", "MINPODS", "MAXPODS", "SPECIFICPODS", "REPLICAS", "AGE"]
    assert row[:6] == ["shown", "Preview", "2", "10", "5", "7"]
    head, row = kubectl(typed, plane, "tsp/shown")
    assert head == ["NAME", "TARGET", "WINDOW", "READY", "AGE"]
    assert row[:4] == ["shown", "web", "3600", "True"]


def test_a_substitute_is_scaled_as_a_workload_is(typed: World) -> None:
    made(typed, SUBSTITUTES, {"substituteTargetRef": WHOLE["scaleTargetRef"], "replicas": 2}, "ehpa-web")
    one = crane_types.path(typed.namespace, SUBSTITUTES, "ehpa-web")
    typed.ask.patch(f"{one}/status", {"status": {"replicas": 2, "labelSelector": "app=web"}}, kind="merge")
    typed.ask.patch(f"{one}/scale", {"spec": {"replicas": 6}}, kind="merge")
    scale = typed.ask.get(f"{one}/scale")
    assert (scale["spec"]["replicas"], scale["status"]) == (6, {"replicas": 2, "selector": "app=web"})


def test_an_ehpa_itself_cannot_be_scaled(typed: World) -> None:
    made(typed, EHPAS, WHOLE, "unscaled")
    assert typed.ask.find(f"{crane_types.path(typed.namespace, EHPAS, 'unscaled')}/scale") is None
