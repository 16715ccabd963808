"""The percentile predictor against upstream's own: estimates from histories, and the times of the constant forecast."""

from typing import Any

import numpy as np
import pytest

from agents.logic.forecast import percentile_predictor
from agents.logic.forecast.forecast_values import Forecast
from agents.logic.forecast.percentile_predictor import Percentiles
from tests.support.ehpa_vectors import Json, checked, close, expand, vectors


def label(given: Json) -> str:
    return ",".join(f"{k}={v}" for k, v in sorted((given.get("labels") or {}).items()))


def by_label(inputs: Json, *, aggregated: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"": []} if aggregated else {}
    for given in inputs["series"]:
        times, values = expand(given)
        if len(values):
            found.setdefault("" if aggregated else label(given), []).append((times, values))
    return found


@pytest.mark.parametrize("vector", vectors("percentile"))
def test_estimates_are_upstreams(vector: Json) -> None:
    inputs = vector["inputs"]
    for given, check in zip(inputs["series"], inputs.get("checks") or (), strict=False):
        checked(given, check)
    for block, expected in zip(inputs["configs"], vector["expected"]["results"], strict=True):
        if "error" in expected:
            with pytest.raises(ValueError, match=r"'|buckets"):
                percentile_predictor.read(block)
            continue
        settings = percentile_predictor.read(block)
        assert (int(settings.history), settings.step) == (expected["query"]["span_s"], expected["query"]["step_s"])
        found = by_label(inputs, aggregated=settings.aggregated)
        mine = {key: percentile_predictor.estimate(samples, settings) for key, samples in found.items()}
        assert mine.keys() == expected["values"].keys()
        assert [key for key in mine if not close(mine[key], expected["values"][key])] == [], (mine, expected["values"])


@pytest.mark.parametrize("vector", [v for v in vectors("percentile") if v.id in ("negative", "random-00", "random-02", "absent")])
def test_histograms_that_go_on_learning_come_to_upstreams_estimates(vector: Json) -> None:
    inputs = vector["inputs"]
    for block, expected in zip(inputs["configs"], vector["expected"]["results"], strict=True):
        settings = percentile_predictor.read(block)
        if not settings.aggregated:
            continue
        learnt = Percentiles("p", settings)
        row = learnt.rows.add(("",))
        for samples in by_label(inputs, aggregated=True).values():
            for times, values in samples:
                learnt.learn(row, times, values)
        assert close(float(learnt.estimates(np.array([row]))[0]), expected["values"][""])


@pytest.mark.parametrize("vector", vectors("percentile_window"))
def test_the_constant_forecast_has_upstreams_times(vector: Json) -> None:
    inputs = vector["inputs"]
    found = percentile_predictor.constant(1.0, first=inputs["start"], last=inputs["end"], step=inputs["sample_interval_s"])
    assert isinstance(found, Forecast)
    first, values = found.window(0, inputs["end"] + 10**6)
    assert [first + i * found.step for i in range(len(values))] == vector["expected"]["timestamps"]
