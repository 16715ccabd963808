"""The objects that follow from an EHPA, and what the adapter answers, against Crane's own."""

from typing import Any

import pytest

from agents.logic.replicas import ehpa_manifest, generated_objects, metrics_adapter
from agents.logic.replicas.generated_objects import CannotGenerate, HpaSurroundings, LabelPropagation, TargetPod
from agents.logic.replicas.replica_calculator import MetricError
from schemas import exact_quantity
from tests.support.ehpa_vectors import Json, vectors

NOW = 1_709_633_640.0


def pod(given: Json) -> TargetPod:
    ago = given.get("ready_changed_s_ago")
    ready = given.get("ready") == "True" and ago is not None and ago != -1
    return TargetPod(
        given["name"],
        given.get("phase") == "Running",
        bool(given.get("deleting")),
        NOW - ago if ready else None,
        tuple(
            (f"c{i}", {name: exact_quantity.parse(text).thousandths for name, text in (requests or {}).items()})
            for i, requests in enumerate(given.get("container_requests") or ())
        ),
    )


def status(given: Any) -> list[Json]:
    """A forecast's status as the object has it."""
    return [
        {
            "resourceIdentifier": entry["resourceIdentifier"],
            "ready": entry.get("ready", False),
            "prediction": [
                {"samples": [{"timestamp": NOW + after, "value": value} for after, value in series]}
                for series in entry.get("series") or ()
            ],
        }
        for entry in given or ()
    ]


def propagation(given: Json) -> LabelPropagation:
    lists = (given.get(k) or () for k in ("label_prefixes", "labels", "annotation_prefixes", "annotations"))
    return LabelPropagation(*map(tuple, lists))


@pytest.mark.parametrize("vector", vectors("hpa_generation"))
def test_an_hpa_is_what_crane_makes_of_an_ehpa(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    around = HpaSurroundings(
        [pod(given) for given in inputs["pods"] or () if not given.get("not_selected")],
        status(inputs["tsp_status"]),
        NOW,
        propagation(inputs["propagation"]),
        inputs["api_server_minor"],
        as_upstream=True,
    )
    mine = ehpa_manifest.read(inputs["ehpa"])
    if "error" in expected:
        with pytest.raises(CannotGenerate):
            generated_objects.hpa(mine, around)
        return
    found = generated_objects.hpa(mine, around).manifest
    if "hpa" in expected:
        assert {k: found[k] for k in ("metadata", "spec")} == {k: expected["hpa"][k] for k in ("metadata", "spec")}


@pytest.mark.parametrize("vector", vectors("tsp_generation"))
def test_a_forecast_is_asked_for_as_crane_asks(vector: Json) -> None:
    found = generated_objects.tsp(ehpa_manifest.read(vector["inputs"]["ehpa"]), as_upstream=True).manifest
    expected = vector["expected"]["tsp"]
    assert {k: found[k] for k in ("metadata", "spec")} == {k: expected[k] for k in ("metadata", "spec")}


def forecast(inputs: Json) -> list[Json]:
    """The object of Deployment web."""
    labels = {"app.kubernetes.io/managed-by": "effective-hpa-controller", "app.kubernetes.io/target-kind": "Deployment"}
    labels |= {"app.kubernetes.io/target-name": "web", "app.kubernetes.io/target-namespace": "shop"}
    if inputs["tsp_status"] is None:
        return []
    return [
        {
            "metadata": {"name": "ehpa-web", "namespace": "shop", "labels": labels},
            "spec": {"predictionWindowSeconds": inputs["window_s"]},
            "status": {"predictionMetrics": status(inputs["tsp_status"])},
        }
    ]


@pytest.mark.parametrize("vector", vectors("adapter"))
def test_the_adapter_answers_as_cranes_does(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    request = metrics_adapter.MetricRequest(inputs["metric"], "shop", inputs["selector"] or {}, NOW)
    found = metrics_adapter.answer(
        request, forecast(inputs), [ehpa_manifest.read(e) for e in inputs["ehpas"] or ()], as_upstream=True
    )
    if "error" in expected:
        assert isinstance(found, MetricError)
    elif "value" in expected:
        assert found == exact_quantity.parse(expected["value"]).thousandths
    else:
        assert expected["panic"]
