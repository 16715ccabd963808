"""The status of a forecast's object."""

from typing import Any

import pytest

from agents.logic.replicas import ehpa_manifest
from agents.logic.replicas.ehpa_manifest import PredictedMetric

NOW = 1_709_633_640


def series(minutes: int) -> list[Any]:
    return [{"prediction": [{"samples": [{"timestamp": NOW, "value": "1"}, {"timestamp": NOW + minutes * 60, "value": "1"}]}]}]


@pytest.mark.parametrize(
    ("status", "expected"),
    [([], True), ([{"prediction": []}], True), (series(59), True), (series(60), False), ([*series(60), *series(59)], True)],
)
def test_a_status_is_outdated_when_a_series_ends_before_the_window(status: Any, expected: bool) -> None:
    assert ehpa_manifest.outdated(status, now=NOW, window=3600) is expected


def test_a_status_holds_two_windows_with_five_decimals() -> None:
    metric = PredictedMetric("resource.cpu", NOW - 600, 60, tuple(float(i) for i in range(500)))
    (entry,), condition = ehpa_manifest.status([metric], now=NOW, window=3600)
    samples: Any = entry["prediction"][0]["samples"]  # type: ignore[index]  # a list of series
    assert (len(samples), samples[0], samples[-1]["timestamp"]) == (121, {"timestamp": NOW, "value": "10.00000"}, NOW + 7200)
    assert (entry["ready"], condition["reason"], condition["message"]) == (True, "PredictSucceed", "")


def test_causes_of_more_metrics_than_a_condition_can_name_are_cut() -> None:
    metrics = [PredictedMetric(f"external.queue-{n}", why_not="nothing is known of this load yet") for n in range(1000)]
    _, condition = ehpa_manifest.status(metrics, now=NOW, window=3600)
    assert len(str(condition["message"])) == 32_768


def test_a_metric_without_forecast_is_named_with_its_reason() -> None:
    metrics = [
        PredictedMetric("resource.cpu", why_not="47.0 hours of even history are there"),
        PredictedMetric("pods.rps", NOW, 60, (1.0, 2.0)),
    ]
    entries, condition = ehpa_manifest.status(metrics, now=NOW, window=3600)
    assert [(entry["resourceIdentifier"], entry["ready"]) for entry in entries] == [("pods.rps", False)]
    assert (condition["status"], condition["reason"]) == ("False", "PredictPartial")
    assert condition["message"] == "resource.cpu: 47.0 hours of even history are there; pods.rps: its forecast ends 7140 s early"


def test_a_series_that_misses_the_end_by_less_than_a_step_is_ready() -> None:
    five = PredictedMetric("resource.cpu", NOW - 240, 300, (1.0,) * 25)
    assert NOW + 7200 - five.last == 240
    (entry,), _ = ehpa_manifest.status([five], now=NOW, window=3600)
    assert entry["ready"] is True


def test_a_series_that_misses_the_end_by_a_whole_step_is_not() -> None:
    five = PredictedMetric("resource.cpu", NOW - 300, 300, (1.0,) * 25)
    assert NOW + 7200 - five.last == 300
    (entry,), condition = ehpa_manifest.status([five], now=NOW, window=3600)
    assert (entry["ready"], condition["message"]) == (False, "resource.cpu: its forecast ends 300 s early")
