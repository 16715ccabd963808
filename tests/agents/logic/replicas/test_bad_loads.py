"""What comes of loads and schedules that are not as they should be: a condition with its cause, or a forecast that holds."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.decisions.replica_plans import MetricForecast
from schemas.policies.scaling import CronTrigger
from tests.support.replica_scene import (
    EHPA,
    MONDAY,
    ForecasterScene,
    ehpa,
    forecasts,
    history,
    load_at,
    plans,
    pods,
    scale,
    scrape,
)

NOW = MONDAY + timedelta(hours=2)
BIN = timedelta(minutes=5)


def forecast_after(load: Callable[[int, float], float]) -> MetricForecast:
    """What is said after a week of a load; it is given the number of the value and what the load should be."""
    told = history(NOW)
    values = tuple(load(n, value) for n, value in enumerate(told.values))
    decided = ForecasterScene().run(NOW, 30, EHPA, *pods(NOW, 5), scale(NOW, 5), replace(told, values=values))
    [found] = forecasts(decided)
    [metric] = found.metrics
    return metric


@pytest.mark.parametrize(
    ("load", "reason", "words"),
    [
        (lambda _n, _value: 4.0, "Constant", "values are 4"),
        (lambda _n, _value: 0.0, "Constant", "values are 0"),
        (lambda _n, _value: math.nan, "NoSamples", "nothing is known of this load yet"),
        (lambda n, value: value if n > 6.5 * 288 else math.nan, "ShortHistory", "0.5 days of history"),
        (lambda n, value: value if n < 6 * 288 else math.nan, "Stale", "the last value is"),
    ],
    ids=["constant", "all zero", "never a number", "seen for half a day", "a gap to the end"],
)
def test_a_load_that_supports_no_forecast_is_a_reason(load: Callable[[int, float], float], reason: str, words: str) -> None:
    metric = forecast_after(load)
    assert (metric.reason, metric.values) == (reason, ())
    assert words in metric.message


def test_with_the_first_samples_it_is_no_longer_said_that_nothing_is_known() -> None:
    """A new EHPA needs no refit, ten minutes later, to say what is missing."""
    scene = ForecasterScene()
    [first] = forecasts(scene.run(NOW, 30, EHPA, *pods(NOW, 5), scale(NOW, 5)))
    assert [metric.reason for metric in first.metrics] == ["NoSamples"]
    minute_later = NOW + timedelta(minutes=1)
    [found] = forecasts(scene.run(minute_later, 30, scrape(minute_later, 5, 0.4)))
    assert [metric.reason for metric in found.metrics] == ["ShortHistory"]
    assert (
        forecasts(scene.run(minute_later + timedelta(minutes=1), 30, scrape(minute_later + timedelta(minutes=1), 5, 0.4))) == []
    )


@pytest.mark.parametrize(
    ("hole", "off"),
    [(lambda n: n % 7 == 0, 0.05), (lambda n: 500 <= n < 600, 0.05), (lambda n: n % 288 < 24, 0.2)],
    ids=["single values", "eight hours", "the same two hours each day"],
)
def test_gaps_cost_no_forecast(hole: Callable[[int], bool], off: float) -> None:
    """Of hours that are never seen a forecast knows only what lies beside them."""
    metric = forecast_after(lambda n, value: math.nan if hole(n) else value)
    known = [load_at(metric.start + BIN * n) for n in range(len(metric.expected))]
    assert metric.reason == ""
    assert metric.expected == pytest.approx(known, rel=off)


def test_a_counter_that_is_no_rate_is_never_forecast_below_zero_or_above_what_it_was() -> None:
    """A query without `rate()` gives a counter: it grows for hours and falls to 0 when its process starts anew."""
    counted = [float(n % 500) for n in range(7 * 288)]
    metric = forecast_after(lambda n, _value: counted[n])
    assert metric.reason == "" or metric.message
    assert all(0.0 <= value <= 2 * max(counted) for value in metric.values)


def test_one_value_that_is_absurd_does_not_raise_the_forecast_of_the_other_hours() -> None:
    metric = forecast_after(lambda n, value: 4e6 if n == 1500 else value)
    assert metric.reason in ("", "NotBetter")
    assert max(metric.values, default=0.0) < 40


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        (CronTrigger("night", "0 25 * * *", "0 5 * * *", 8), "25"),
        (CronTrigger("night", "0 1 * * *", "0 5 * * *", 8, "Mars/Base"), "'Mars/Base' is no time zone"),
        (CronTrigger("night", "every night", "0 5 * * *", 8), "'every night' has 2 fields, not 5"),
    ],
)
def test_a_schedule_that_cannot_be_read_is_the_error_of_its_proposal_and_holds_the_count(cron: CronTrigger, words: str) -> None:
    policy = ehpa(crons=(cron,), prediction=None)
    decided = ForecasterScene().run(NOW, 30, policy, *pods(NOW, 5), scrape(NOW, 5, 0.4), scale(NOW, 5))
    [plan] = plans(decided)
    [error] = [each.error for each in plan.proposals if each.identifier == "cron"]
    assert words in error
    assert plan.replicas == 5
