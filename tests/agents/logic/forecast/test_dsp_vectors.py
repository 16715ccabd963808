"""The DSP predictor against upstream's own: settings, even series, autocorrelation, estimators, whole forecasts."""

import math
from typing import Any

import numpy as np
import pytest

from agents.logic.forecast import dsp, load_series, period_detection
from agents.logic.forecast.dsp import FourierEstimator, MaximumEstimator
from agents.logic.forecast.forecast_values import NoForecast
from agents.logic.forecast.load_series import LoadSeries
from tests.support.ehpa_vectors import Json, checked, close, number, vectors


def name(estimator: Any) -> str:
    """An estimator as upstream prints it."""
    if isinstance(estimator, MaximumEstimator):
        return f"Max Value Estimator {{marginFraction: {estimator.margin:.6f}}}"
    return (
        f"FFT Estimator {{minNumOfSpectrumItems: {estimator.fewest}, maxNumOfSpectrumItems: {estimator.most}, "
        f"highFrequencyThreshold: {estimator.high:.6f}, lowAmplitudeThreshold: {estimator.low:.6f}, "
        f"marginFraction: {estimator.margin:.6f}}}"
    )


@pytest.mark.parametrize("vector", vectors("dsp_config"))
def test_settings_are_read_as_upstream_reads_them(vector: Json) -> None:
    expected = vector["expected"]
    if "error" in expected:
        with pytest.raises(ValueError, match="'"):
            dsp.read(vector["inputs"]["dsp"])
        return
    settings = dsp.read(vector["inputs"]["dsp"])
    assert (settings.step, settings.history) == (expected["sample_interval_s"], expected["history_s"])
    assert [name(estimator) for estimator in settings.estimators] == expected["estimators"]


@pytest.mark.parametrize("vector", vectors("dsp_preprocess"))
def test_series_are_made_even_as_upstream_makes_them(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    times, values = checked(inputs["series"], inputs["check"])
    even = load_series.prepare(times, values, step=inputs["sample_interval_s"], unit=inputs["unit_s"])
    if "error" in expected:
        assert isinstance(even, NoForecast)
        return
    assert isinstance(even, LoadSeries)
    clean = load_series.without_outliers(even.values) if inputs["remove_outliers"] else even.values
    check = expected["check"]
    assert len(clean) == check["n"]
    if check["n"]:
        assert (even.start, even.start + (len(clean) - 1) * even.step) == (check["first_ts"], check["last_ts"])
        assert close(float(clean.sum()), check.get("sum", 0))
    probes = expected.get("probes") or list(enumerate(expected.get("values") or ()))
    assert [i for i, value in probes if not close(float(clean[i]), value)] == []


@pytest.mark.parametrize("vector", vectors("dsp_error"))
def test_errors_are_upstreams(vector: Json) -> None:
    actual, estimated = (np.array(vector["inputs"][k] or [], np.float64) for k in ("actual", "predicted"))
    expected = vector["expected"]
    if "error" in expected:
        with pytest.raises(ValueError, match="values"):
            dsp.error(actual, estimated)
        return
    assert close(dsp.error(actual, estimated), expected["prediction_error"])
    if not len(actual):
        return
    assert close(dsp.absolute_error(actual, estimated), expected["mae"])
    if "mape" in expected:
        assert close(dsp.relative_error(actual, estimated), expected["mape"])


@pytest.mark.parametrize("vector", vectors("dsp_autocorrelation"))
def test_autocorrelation_and_its_peaks_are_upstreams(vector: Json) -> None:
    _, values = checked(vector["inputs"]["series"], vector["inputs"]["check"])
    expected = vector["expected"]
    if period_detection.constant(values):  # which has no period, and NaN at upstream
        assert period_detection.find(values, step=60) is None
        assert all(text == "NaN" for text in expected["r"])
        return
    _, power = period_detection._power(values)
    found = period_detection._correlation(power, period_detection._variance(power, len(values)), len(values))
    for lag, theirs in zip(expected["lags"], expected["r"], strict=True):
        assert close(float(found[lag]), theirs, 1e-9, 1.0), lag
    for place, radius, peak in expected["peaks"] or ():
        assert period_detection.is_peak(found, place, radius) == peak, (place, radius)


def estimator_of(given: Json) -> Any:
    if "max_value" in given:
        return MaximumEstimator(given["max_value"]["margin"])
    told, default = given["fft"], FourierEstimator()
    return FourierEstimator(
        margin=told["margin"],
        fewest=told["min"] or default.fewest,
        most=told["max"] or default.most,
        low=told["low"] or default.low,
        high=told["high"] or default.high,
    )


@pytest.mark.parametrize("vector", vectors("dsp_estimator"))
def test_estimators_say_what_upstreams_say(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    _, values = checked(inputs["series"], inputs["check"])
    estimator, step = estimator_of(inputs["estimator"]), inputs["sample_interval_s"]
    samples = int(inputs["period_s"] / step)
    values = values[len(values) % samples :]
    found = dsp.estimate(estimator, values, samples, step=step)
    assert len(found) == expected["n"]
    exact = 1e-9 if isinstance(estimator, MaximumEstimator) else 1e-6
    slack = exact * np.abs(found).max() + 2 * (1 + estimator.margin) * expected.get("threshold_item", 0)
    assert np.abs(found[:: expected.get("every", 1)] - expected["values"]).max() <= slack
    if "max" in expected:
        assert abs(found.max() - expected["max"]) <= slack
        assert abs(found.mean() - expected["mean"]) <= slack
        assert abs(found.min() - expected["min"]) <= slack


FREE = {"square5-4", "noise5-sine-7"}
"""Named by the vectors' README: many components of equal amplitude, and a forecast that touches 0."""


def even(inputs: Json, settings: dsp.DspSettings) -> Any:
    times, values = checked(inputs["series"], inputs["check"])
    prepared = load_series.prepare(times, values, step=int(settings.step))
    if isinstance(prepared, NoForecast):
        return prepared, prepared
    return prepared, LoadSeries(prepared.start, prepared.step, load_series.without_outliers(prepared.values))


@pytest.mark.parametrize("vector", vectors("dsp_forecast"))
def test_forecasts_are_upstreams(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    settings = dsp.read(inputs["dsp"])
    prepared, clean = even(inputs, settings)
    told = expected["preprocess"]
    if "error" in told:
        assert isinstance(prepared, NoForecast)
        return
    assert isinstance(clean, LoadSeries)
    assert (len(clean.values), clean.start) == (told["n"], told["first_ts"])
    assert close(float(clean.values.sum()), told["sum"], 1e-9)
    assert int((clean.values != prepared.values).sum()) == told["outliers_replaced"]
    if expected.get("found_period_s") != "varies":
        assert dsp.found_period(clean) == expected.get("found_period_s")
    times, values = checked(inputs["series"], inputs["check"])
    fitted = dsp.fit(times, values, settings)
    if not expected["period_s"]:
        assert isinstance(fitted, NoForecast)
        return
    assert isinstance(fitted, dsp.FittedForecast), fitted
    assert (fitted.period, fitted.periods) == (expected["period_s"], expected["periods"])
    compare(vector["id"], fitted, expected, clean.values)


def sensitivity(values: Any, period: int) -> float:
    """How far an error moves at most if each estimate moves by 1: what is near 0 counts much, a shortfall 4.5 times."""
    last = np.abs(values[-period:])
    return max(4 / abs(float(values.mean())), 2 * 4.5 * float((1 / np.maximum(last, 1e-3)).mean()) * (last.min() < 0.05))


def compare(which: str, fitted: dsp.FittedForecast, expected: Json, values: Any) -> None:
    reach = sensitivity(values, len(fitted.forecast.profile))
    theirs = expected["estimators"]
    assert [name(trial.estimator) for trial in fitted.trials] == [e["name"] for e in theirs]
    items = [e.get("threshold_item") or [0, 0] for e in theirs]
    for trial, error, item in zip(fitted.trials, theirs, items, strict=True):
        wanted = number(error["error"])
        if math.isfinite(wanted) and which not in FREE:
            assert abs(trial.error - wanted) <= 1e-6 * max(abs(wanted), 1) + reach * item[0], trial
    forecast = expected["forecast"]
    assert forecast is not None
    mine = np.array(fitted.forecast.profile)
    assert (len(mine), fitted.forecast.repeats * len(mine)) == (forecast["n_per_period"], forecast["n"])
    assert (fitted.forecast.start, fitted.forecast.last) == (forecast["first_ts"], forecast["last_ts"])
    if fitted.chosen != expected["chosen"] or which in FREE:
        close_race(fitted, expected["chosen"], items, reach)
        return
    margin = fitted.trials[fitted.chosen].estimator.margin
    slack = 1e-6 * np.abs(mine).max() + 2 * (1 + margin) * items[fitted.chosen][1]
    assert np.abs(mine[:: forecast["every"]] - forecast["values"]).max() <= slack
    assert max(abs(mine.max() - forecast["max"]), abs(mine.mean() - forecast["mean"]), abs(mine.min() - forecast["min"])) <= slack


def close_race(fitted: dsp.FittedForecast, theirs: int, items: list[list[float]], reach: float) -> None:
    """Another winner is right only if the two errors lie within what upstream's rounding may move each by."""
    mine = fitted.chosen
    allowed = reach * (items[mine][0] + items[theirs][0]) + 1e-6
    assert abs(fitted.trials[mine].error - fitted.trials[theirs].error) <= allowed
