"""The objects that follow from an EHPA, and what the adapter answers, against Crane's own."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from agents.logic.replicas import ehpa_manifest, generated_objects
from agents.logic.replicas.generated_objects import CannotGenerate, HpaSurroundings, LabelPropagation, TargetPod
from agents.logic.replicas.served_metrics import ServedMetrics
from schemas import exact_quantity
from schemas.decisions.replica_plans import LoadForecast, MetricForecast
from schemas.units import Seconds
from streams.clients.kube.autoscaler_specs import AutoscalerObject
from streams.sources.kube.publish import ehpa_policies
from tests.support import metrics_api_scene
from tests.support.ehpa_vectors import Json, vectors
from tests.support.kube_objects import decoded
from tests.support.metrics_api_scene import CLUSTER, NAMESPACE

NOW = 1_709_633_640.0
AT, STEP = datetime.fromtimestamp(NOW, UTC), Seconds(10.0)


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


def forecast(inputs: Json) -> list[LoadForecast]:
    """What the log says of the forecasts of Deployment web: values at even steps, where upstream has moments."""
    if inputs["tsp_status"] is None:
        return []
    metrics = []
    for entry in inputs["tsp_status"]:
        told, step = MetricForecast(entry["resourceIdentifier"], "series", AT, STEP, reason="NotReady"), int(STEP)
        if entry.get("ready") and len(entry.get("series") or ()) == 1:
            [samples] = entry["series"]
            first, last = samples[0][0], samples[-1][0]
            values = [0.0] * ((last - first) // step + 1)
            for after, value in samples:
                values[(after - first) // step] = float(value)
            told = replace(told, start=AT + timedelta(seconds=first), values=tuple(values), reason="")
        metrics.append(told)
    held = AT + timedelta(seconds=inputs["window_s"])
    return [metrics_api_scene.forecast(at=AT, expires=held, window=Seconds(inputs["window_s"]), metrics=tuple(metrics))]


OURS = {"below-one": 1000, "zero": 0, "negative": 0, "cron-two-ehpas": 5000, "cron-min-nil": 5000}
"""docs/quirks.md: fractions are rounded up; 0 is a forecast; the oldest EHPA governs; one without a minimum has 1."""
NOT_WRITTEN = ("bad-value", "bad-value-outside")
"""Values in the log are numbers."""


@pytest.mark.parametrize("vector", vectors("adapter"))
def test_an_autoscaler_is_answered_what_cranes_adapter_answers_but_in_milli_units(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    if vector["id"] in NOT_WRITTEN:
        return
    forecasts = {told.key: told for told in forecast(inputs)}
    served = ServedMetrics(CLUSTER, forecasts.get, upstream_crons=True)
    for manifest in inputs["ehpas"] or ():
        served.apply(ehpa_policies.changed(decoded(AutoscalerObject, manifest), CLUSTER, AT))
    if forecasts:
        served.apply(metrics_api_scene.ehpa())
    answer = served.answer(inputs["metric"], NAMESPACE, inputs["selector"] or {}, NOW)
    if vector["id"] in OURS:
        assert answer == OURS[vector["id"]]
    elif "value" in expected:
        assert isinstance(answer, int)
        assert int(np.float32(answer / 1000)) == int(expected["value"])  # upstream cuts a 32-bit number to whole units
    else:
        assert isinstance(answer, str)
