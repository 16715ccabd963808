"""What follows from an EHPA is said in its status, with the causes of what is left out."""

import pytest

from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.replicas.generated_objects import LabelPropagation
from agents.processes.ehpa_object_generator import EhpaObjectGenerator
from schemas.decisions.forecasts import LoadForecast
from schemas.times import to_seconds
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
