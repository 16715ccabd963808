"""Whole passes of an autoscaler against Kubernetes' own, step by step, and what its API server adds to a spec."""

from typing import Any

import pytest

from agents.logic.replicas import hpa_metrics, hpa_reconcile
from agents.logic.replicas.hpa_metrics import MetricReadings
from agents.logic.replicas.hpa_reconcile import HpaBounds, HpaMemory
from agents.logic.replicas.replica_calculator import MetricError, ReplicaContext, requests
from tests.support.ehpa_vectors import Json, summed, vectors
from tests.support.hpa_scenes import NOW, asked, behavior, pods, samples


@pytest.mark.parametrize("vector", vectors("hpa_defaults"))
def test_a_spec_gets_the_api_servers_defaults(vector: Json) -> None:
    assert hpa_reconcile.defaulted(vector["inputs"]["spec"]) == vector["expected"]["spec"]


def fleet(count: int, request: int) -> Any:
    pod = {
        "phase": "Running", "ready": "True", "ready_changed_s_ago": 90_000, "started_s_ago": 100_000, "metric_age_s": 5,
        "metric_window_s": 30, "containers": [{"name": "c", "requests_milli": {"cpu": request}}],
    }  # fmt: skip
    return [{"name": f"p{i}", **pod} for i in range(count)]


def answers(inputs: Json, step: Json, spec: Json, scene: ReplicaContext) -> list[Any]:
    selector = inputs.get("selector", "app=x")
    if selector != "app=x":
        return [("InvalidSelector", MetricError(f"'{selector}' selects nothing"))]
    given = fleet(scene.current, inputs.get("pod_cpu_request_milli", 0))
    found = []
    for entry in spec["metrics"]:
        metric = hpa_metrics.read(entry)
        readings = MetricReadings(pods(given))
        if metric.name not in (step.get("fail") or ()):
            readings = read(metric, given, step, readings)
        found.append(hpa_metrics.ask(metric, readings, scene))
    return found


def read(metric: hpa_metrics.HpaMetric, given: list[Json], step: Json, empty: MetricReadings) -> MetricReadings:
    if metric.kind in ("Resource", "Pods"):
        used = (
            step.get("cpu_milli_per_pod")
            if metric.kind == "Resource"
            else (step.get("pods_milli_per_pod") or {}).get(metric.name)
        )
        seen = samples([{**pod, "metric": used or 0} for pod in given], cpu=metric.name == "cpu")
        return MetricReadings(empty.pods, {metric: seen}, {metric: requests(asked(given, metric.name), resource=metric.name)})
    if metric.kind == "External":
        series = (step.get("external_milli") or {}).get(metric.name)
        return empty if series is None else MetricReadings(empty.pods, values={metric: summed(series)})
    value = (step.get("object_milli") or {}).get(metric.name)
    return empty if value is None else MetricReadings(empty.pods, values={metric: value})


@pytest.mark.parametrize("vector", vectors("hpa_timeline"))
def test_passes_decide_what_kubernetes_decides(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    spec: Json = hpa_reconcile.defaulted(inputs["spec"])
    assert spec.get("behavior") == expected.get("defaulted_behavior")
    rules = behavior(spec["behavior"]) if "behavior" in spec else None
    down, up = (inputs["tolerance"],) * 2
    if rules is not None:
        down = down if rules.down.tolerance is None else rules.down.tolerance
        up = up if rules.up.tolerance is None else rules.up.tolerance
    least, most, current, memory = spec["minReplicas"], spec["maxReplicas"], inputs["initial_replicas"], HpaMemory()
    for step, theirs in zip(inputs["steps"], expected["steps"], strict=True):
        current = step.get("set_replicas", current)
        least, most = step.get("set_min", least), step.get("set_max", most)
        bounds = HpaBounds(least, most, rules, inputs["downscale_stabilisation_s"], bool(inputs.get("gate_scale_to_zero")))
        scene = ReplicaContext(current, current, NOW, down, up)
        found = answers(inputs, step, spec, scene)
        decision, memory = hpa_reconcile.decide(bounds, current, found, memory, now=NOW + step["t"])
        current = decision.replicas
        state = memory.conditions
        mine = [
            current, decision.written, memory.desired, state.able, state.active, state.limited, decision.error is not None,
        ]  # fmt: skip
        assert mine == theirs, step
