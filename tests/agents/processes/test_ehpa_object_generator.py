"""What follows from an EHPA is said in its status, with the causes of what is left out."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.consumer_autoscalers import EhpaObjectGenerator
from schemas.decisions.replica_plans import LoadForecast, MetricForecast
from schemas.times import to_seconds
from schemas.units import Seconds
from tests.support import ehpa_manifests
from tests.support.replica_scene import MONDAY, ForecasterScene, ehpa, forecasts

NIGHT = {"name": "night", "start": "0 1 * * *", "end": "0 5 * * *", "targetReplicas": 3}


def _left_out(*crons: dict[str, object]) -> tuple[str, ...]:
    ehpa = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 9,
            "crons": list(crons),
        },
    }
    found = EhpaObjectGenerator(LabelPropagation()).hpa(ehpa, pods=(), forecast=None, now=1e9)
    assert found.manifest is not None
    return tuple(found.left_out)


@pytest.mark.parametrize(
    ("crons", "words"),
    [
        ([{**NIGHT, "timezone": "Mars/Olympus"}], "Mars/Olympus"),
        ([{**NIGHT, "start": "61 * * * *"}], "cron 'night'"),
        ([{**NIGHT, "start": "0 0 30 2 *"}], "never comes"),
        ([{**NIGHT, "end": "0 1 * * *"}], "cron 'night' ends when it starts"),
        ([NIGHT, {**NIGHT, "end": "0 6 * * *"}], "two crons are called 'night'"),
    ],
)
def test_crons_that_make_no_sense_are_named_with_the_cause(crons: list[dict[str, object]], words: str) -> None:
    assert any(words in sentence for sentence in _left_out(*crons))


def test_crons_that_make_sense_leave_nothing_to_say() -> None:
    assert _left_out(NIGHT, {**NIGHT, "name": "noon", "start": "0 11 * * *", "end": "0 13 * * *", "timezone": "UTC"}) == ()


def _condition(forecast: LoadForecast) -> tuple[str, str]:
    tsp = {"spec": {"predictionWindowSeconds": 3600, "predictionMetrics": [{"resourceIdentifier": "external.queue"}]}}
    entries, condition = EhpaObjectGenerator(LabelPropagation()).tsp_status(tsp, forecast, to_seconds(MONDAY))
    assert entries == []
    return condition["reason"], condition["message"]


def test_an_object_that_the_forecaster_does_not_look_at_is_told_why() -> None:
    (*_, refused) = _forecast(most_metrics=0)
    assert _condition(refused) == ("PredictPartial", "the object has 1 metrics; more than 0 are not looked at")


def test_a_metric_of_which_a_forecast_says_nothing_yet_has_not_lost_it() -> None:
    (*_, of_another) = _forecast(most_metrics=1)
    assert _condition(of_another) == ("PredictPartial", "external.queue: there is no forecast yet")


def _forecast(most_metrics: int) -> list[LoadForecast]:
    scene = ForecasterScene(ForecasterSettings(most_metrics=most_metrics))
    return forecasts(scene.run(MONDAY, 30.0, ehpa()))


def _pod(**spec: object) -> dict[str, object]:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    app = {"name": "app", "resources": {"requests": {"cpu": "1"}}}
    status = {"phase": "Running", "conditions": [ready]}
    return {"metadata": {"name": "web-1"}, "spec": {"containers": [app], **spec}, "status": status}


_MESH: dict[str, object] = {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "400m"}}}
_MIGRATE = {"name": "migrate", "resources": {"requests": {"cpu": "3"}}}
_OF_MESH = {"name": "cpu", "container": "mesh", "target": {"type": "Utilization", "averageUtilization": 50}}
_OF_PODS = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}


@pytest.mark.parametrize(
    ("metric", "pod", "target"),
    [
        ({"type": "Resource", "resource": _OF_PODS}, _pod(initContainers=[_MESH, _MIGRATE]), "700m"),
        ({"type": "Resource", "resource": _OF_PODS}, _pod(initContainers=[_MESH], resources={"requests": {"cpu": "3"}}), "1500m"),
        ({"type": "ContainerResource", "containerResource": _OF_MESH}, _pod(initContainers=[_MESH]), "200m"),
        (
            {"type": "ContainerResource", "containerResource": _OF_MESH},
            _pod(initContainers=[_MESH], resources={"requests": {"cpu": "3"}}),
            "200m",
        ),
        ({"type": "ContainerResource", "containerResource": _OF_MESH}, _pod(), "pod 'web-1' has no container 'mesh'"),
        (
            {"type": "ContainerResource", "containerResource": _OF_MESH},
            _pod(initContainers=[{**_MESH, "resources": {"requests": {"cpu": "1m"}}}]),
            "what a pod requests is too little to be shared",
        ),
    ],
    ids=["a sidecar", "requests of the pod itself", "of a sidecar", "of a sidecar in such a pod", "not there", "too little"],
)
def test_a_pods_share_of_a_forecast_is_of_what_the_hpa_divides_its_use_by(metric: Any, pod: Any, target: str) -> None:
    """The forecast is of what containers and sidecars use together. An HPA with a target of 0 would be refused as a whole."""
    policy = ehpa(metrics=(), uid="u1")
    manifest = {**ehpa_manifests.manifest_of(policy)}
    manifest["spec"] = {**manifest["spec"], "metrics": [metric]}
    identifier = "container-resource.cpu" if "containerResource" in metric else "resource.cpu"
    (*_, made) = _forecast(most_metrics=1)
    series = MetricForecast(identifier, "s", MONDAY, Seconds(600.0), (1.0,))
    forecast = replace(made, metrics=(series,), refused="", expires=MONDAY + timedelta(hours=1))
    found = EhpaObjectGenerator(LabelPropagation()).hpa(manifest, pods=[pod], forecast=forecast, now=to_seconds(MONDAY))
    assert found.manifest is not None
    ahead = [each["external"]["target"]["averageValue"] for each in found.manifest["spec"]["metrics"] if "external" in each]
    assert ahead == [target] if target.endswith("m") else (ahead, target in str(found.left_out)) == ([], True)
