"""What an autoscaler is told that asks for a forecast or for crons."""

from dataclasses import replace
from datetime import timedelta

import pytest

from agents.logic.replicas.ehpa_manifest import label_value
from agents.logic.replicas.served_metrics import ServedMetrics
from schemas.catalogue import Event
from schemas.decisions.replica_plans import LoadForecast
from schemas.policies.ehpa import EhpaRemoved
from schemas.policies.scaling import CronTrigger
from schemas.policies.vpa import TargetRef
from schemas.units import Seconds
from tests.support.metrics_api_scene import AT, CLUSTER, NAMESPACE, ehpa, forecast, selector

NOW = AT.timestamp()
PREDICTION, CRON = "crane_autoscaling_prediction", "crane_autoscaling_cron"


def served(*events: Event) -> ServedMetrics:
    """With these policies, and the last forecast of each object."""
    forecasts = {event.key: event for event in events if isinstance(event, LoadForecast)}
    made = ServedMetrics(CLUSTER, forecasts.get)
    for event in events:
        made.apply(event)
    return made


def asked(
    made: ServedMetrics, labels: dict[str, str] | None = None, *, after: float = 0.0, metric: str = PREDICTION
) -> int | str:
    return made.answer(metric, NAMESPACE, selector() if labels is None else labels, NOW + after)


def test_a_forecast_is_answered_with_the_largest_value_of_the_window_in_milli_units() -> None:
    assert asked(served(ehpa(), forecast("web", 3.0, 5.9, 0.0, 0.0, 0.0, 0.0, 9.0))) == 9000  # the last begins at 3600 s
    assert asked(served(ehpa(), forecast("web", 3.0, 5.9, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0))) == 5900


def test_the_step_that_has_begun_counts_and_those_before_it_do_not() -> None:
    made = served(ehpa(), forecast("web", 7.0, 3.0, 2.0))
    assert [asked(made, after=after) for after in (0, 599, 600, 1199, 1200)] == [7000, 7000, 3000, 3000, 2000]


def test_less_than_one_core_is_not_nothing_and_fractions_are_rounded_up() -> None:
    assert asked(served(ehpa(), forecast("web", 0.7))) == 700
    assert asked(served(ehpa(), forecast("web", 0.0001))) == 1
    assert asked(served(ehpa(), forecast("web", 0.29))) == 290  # 0.29 * 1000 is 290.00000000000006 as a float
    assert asked(served(ehpa(), forecast("web", 0.0))) == 0


def test_a_forecast_that_has_expired_is_no_answer_even_where_it_still_says_something() -> None:
    made = served(ehpa(), forecast("web", *([1.0] * 20)))
    assert asked(made, after=3600) == 1000
    assert asked(made, after=3601) == "the forecast of 'resource.cpu' is outdated: it held until 2026-01-01T01:00:00+00:00"


def test_a_forecast_whose_last_step_is_over_is_no_answer() -> None:
    made = served(ehpa(), forecast("web", 1.0, 2.0))
    assert asked(made, after=1199) == 2000
    assert asked(made, after=1200) == "the forecast of 'resource.cpu' is outdated: it says nothing for the next 3600 s"


def test_a_forecast_that_begins_after_the_window_is_no_answer() -> None:
    late = forecast("web", 1.0)
    late = replace(late, metrics=(replace(late.metrics[0], start=AT + timedelta(seconds=3700)),))
    assert "is outdated" in str(asked(served(ehpa(), late)))


@pytest.mark.parametrize(
    ("event", "labels", "why"),
    [
        (forecast(), selector("api"), "no forecast belongs to what the selector says"),
        (forecast(), selector(identifier="resource.memory"), "'resource.memory' is not forecast"),
        (forecast(uid="of-an-older-one"), selector(), "no forecast belongs to what the selector says"),
        (forecast(withdrawn=True), selector(), "no forecast belongs to what the selector says"),
        (forecast(), {"targetKind": "Deployment"}, "the selector does not say 'resourceIdentifier'"),
        (forecast(), {**selector(), "targetNamespace": "other"}, "no forecast belongs to what the selector says"),
    ],
)
def test_what_is_not_known_is_said(event: LoadForecast, labels: dict[str, str], why: str) -> None:
    assert asked(served(ehpa(), event), labels) == why


def test_a_metric_that_is_not_forecast_says_why() -> None:
    short = replace(forecast().metrics[0], values=(), reason="ShortHistory", message="1.5 days of history are too few")
    made = served(ehpa(), forecast(metrics=(short,)))
    assert asked(made) == "there is no forecast of 'resource.cpu': 1.5 days of history are too few"


def test_a_selector_that_says_less_fits_more_and_the_largest_forecast_counts() -> None:
    made = served(ehpa(), ehpa("api"), forecast("web", 2.0), forecast("api", 3.0))
    assert asked(made, {"resourceIdentifier": "resource.cpu"}) == 3000
    assert asked(made, {"resourceIdentifier": "resource.cpu", "targetName": "web"}) == 2000


def test_an_ehpa_that_goes_or_turns_to_another_target_is_not_answered_for_any_more() -> None:
    made = served(ehpa(), forecast())
    made.apply(ehpa(target_ref=TargetRef("Deployment", "other", "apps/v1")))
    assert asked(made) == "no forecast belongs to what the selector says"
    assert asked(made, selector("other")) == 5900
    made.apply(EhpaRemoved(AT, CLUSTER, NAMESPACE, "web"))
    assert asked(made, selector("other")) == "no forecast belongs to what the selector says"


def test_another_clusters_ehpa_is_not_answered_for() -> None:
    assert "no forecast" in str(asked(served(ehpa(cluster="other"), forecast())))


def test_crons_are_answered_in_whole_replicas_with_the_minimum_as_floor() -> None:
    assert asked(served(ehpa()), metric=CRON) == 4000
    assert asked(served(ehpa(min_replicas=6)), metric=CRON) == 6000
    made = served(ehpa(crons=(CronTrigger("night", "0 3 * * *", "0 4 * * *", 5),)))
    assert asked(made, metric=CRON, after=2.5 * 3600) == 1000
    assert asked(made, metric=CRON, after=3 * 3600) == 5000


def test_crons_that_cannot_be_read_or_found_are_said() -> None:
    assert "hour" in str(asked(served(ehpa(crons=(CronTrigger("x", "0 25 * * *", "0 1 * * *", 2),))), metric=CRON))
    assert asked(served(ehpa(crons=())), metric=CRON) == "no EHPA with crons scales Deployment 'shop/web'"
    assert asked(served(ehpa()), {"targetKind": "Deployment"}, metric=CRON) == "the selector does not say 'targetName'"


def test_any_other_metric_is_not_there() -> None:
    assert asked(served(ehpa()), metric="depth") == "there is no external metric 'depth'"


def test_a_window_counts_in_seconds_whatever_the_step_is() -> None:
    fine = forecast("web")
    fine = replace(fine, metrics=(replace(fine.metrics[0], step=Seconds(60.0), values=(1.0,) * 60 + (8.0, 9.0)),))
    assert asked(served(ehpa(), fine)) == 8000  # the value at 3600 s is the last one in the window


def test_a_forecast_that_begins_as_the_window_ends_is_an_answer() -> None:
    late = forecast("web", 1.0, 9.0)
    late = replace(late, metrics=(replace(late.metrics[0], start=AT + timedelta(seconds=3600)),))
    assert asked(served(ehpa(), late)) == 1000


@pytest.mark.parametrize("name", ["w" * 63, "w" * 64, "w" * 253])
def test_a_target_with_a_long_name_is_answered_for_by_its_label_and_by_its_own_name(name: str) -> None:
    """External metrics come with a selector, custom ones with a path."""
    made = served(ehpa(name), forecast(name, 2.0))
    for asked_by in (name, label_value(name)):
        assert asked(made, selector(asked_by)) == 2000
        assert asked(made, selector(asked_by, "cron"), metric=CRON) == 4000
    assert isinstance(asked(made, selector(f"{name[:-1]}x")), str)


def test_a_metric_whose_name_is_no_label_is_answered_by_its_label() -> None:
    identifier = "pods.job:http_requests:rate5m"
    metric = replace(forecast("web", 2.0).metrics[0], identifier=identifier)
    made = served(ehpa(), forecast("web", metrics=(metric,)))
    assert [asked(made, selector(identifier=each)) for each in (identifier, label_value(identifier))] == [2000, 2000]
