"""The forecaster: load in, forecasts and plans out."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.turn import Decided
from agents.logic.replicas import metric_series
from agents.logic.replicas.forecaster_settings import ForecasterSettings
from agents.logic.replicas.forecaster_state import next_round
from schemas.decisions.replica_plans import ProposalOrigin, ScalingMode
from schemas.facts.replica_scaling import LoadQueryFailed, LoadScraped, ScaleSeen, series_id
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved, PredictionMetric, TimeSeriesPredictionChanged
from schemas.policies.scaling import (
    AlgorithmOptions,
    CronTrigger,
    HistogramOptions,
    MetricTarget,
    PercentileOptions,
    PredictionOptions,
    ScaleStrategy,
)
from schemas.policies.vpa import TargetRef
from schemas.units import Seconds
from tests.support.replica_scene import (
    CART,
    CPU_SERIES,
    EHPA,
    MONDAY,
    RATE,
    ForecasterScene,
    ehpa,
    forecasts,
    history,
    load_at,
    plans,
    pods,
    refusals,
    resumed,
    scale,
    scrape,
)

NOW = MONDAY + timedelta(hours=2)
"""The load is 4 cores now, and 4.41 an hour later."""
MINUTE = timedelta(minutes=1)
KINDS = ["scrape", "scale", "load", "policy", "remove", "wait", "history"]


def busy(scene: ForecasterScene, seconds: float = 30.0, policy: EhpaChanged = EHPA) -> list[Decided]:
    """Five pods of one core each that use 0.4, an EHPA that wants 50 %, and a week of history."""
    return scene.run(NOW, seconds, policy, *pods(NOW, 5), scrape(NOW, 5, 0.4), scale(NOW, 5), history(NOW))


def test_a_daily_load_is_forecast_for_two_windows_with_its_margin_and_its_error() -> None:
    [found] = forecasts(busy(ForecasterScene()))
    assert (found.key, found.workload, found.window, found.uid) == (EHPA.key, CART, 3600.0, "u1")
    [metric] = found.metrics
    assert (metric.identifier, metric.series, metric.step, metric.reason) == ("resource.cpu", CPU_SERIES, 300.0, "")
    assert metric.start <= NOW + timedelta(minutes=5)
    assert metric.start + timedelta(seconds=300 * (len(metric.values) - 1)) >= NOW + timedelta(hours=2)
    known = [load_at(metric.start + timedelta(minutes=5 * n)) for n in range(len(metric.values))]
    assert metric.expected == pytest.approx(known, rel=0.05)
    assert all(above >= plain for above, plain in zip(metric.values, metric.expected, strict=True))
    assert metric.error is not None
    assert metric.error < 0.05


def test_replicas_follow_the_forecast_where_it_asks_for_more_than_the_live_metric() -> None:
    # 5 pods at 0.4 of 1.0 cores: 40 % against 50 % is 4 pods. 4.5 cores or so within the hour, 0.5 a pod: 9 pods.
    [plan] = plans(busy(ForecasterScene()))
    live, ahead = plan.proposals
    assert (live.origin, live.replicas, live.utilization) == (ProposalOrigin.LIVE, 4, 40)
    assert (ahead.origin, ahead.target) == (ProposalOrigin.FORECAST, 500)
    assert plan.replicas == ahead.replicas
    assert plan.replicas in (9, 10)
    assert (plan.current, plan.least, plan.most, plan.carried_out_by) == (5, 1, 20, ScalingMode.HPA)
    assert plan.because["proposed"] == plan.replicas
    assert plan.because["forecasts"] == {"resource.cpu": pytest.approx(4.45, rel=0.05)}


def test_a_plan_is_not_said_again_while_nothing_changed() -> None:
    scene = ForecasterScene()
    assert len(plans(busy(scene, seconds=120))) == 1
    assert [plan.current for plan in plans(scene.run(NOW + 5 * MINUTE, 30, scale(NOW + 5 * MINUTE, 9)))] == [9]


def test_a_plan_says_what_will_be_asked_for_later_where_that_is_more() -> None:
    # The day's peak is at six: between the next hour and that and half an hour more the load rises by some 0.2 cores.
    scene = ForecasterScene(ForecasterSettings(ahead=Seconds(1800.0)))
    [plan] = plans(busy(scene))
    assert plan.upcoming is not None
    highest = max(load_at(NOW + timedelta(minutes=n)) for n in range(91))
    assert plan.replicas < plan.upcoming.replicas <= math.ceil(highest * 1.05 / 0.5)
    assert plan.upcoming.by == plan.at + timedelta(minutes=30)
    assert plans(scene.run(NOW + MINUTE, 60)) == []  # and is said once
    [without] = plans(busy(ForecasterScene()))
    assert (without.upcoming, without.replicas) == (None, plan.replicas)


def test_a_cron_that_begins_soon_is_upcoming_and_bounded_by_the_maximum() -> None:
    soon = CronTrigger("noon", "10 2 * * *", "0 8 * * *", 500)
    scene = ForecasterScene(ForecasterSettings(ahead=Seconds(900.0)))
    [plan] = plans(busy(scene, policy=ehpa(crons=(soon,))))
    assert plan.upcoming is not None
    assert (plan.upcoming.replicas, plan.most) == (20, 20)
    assert plan.replicas < 20
    scene = ForecasterScene(ForecasterSettings(ahead=Seconds(300.0)))
    [plan] = plans(busy(scene, policy=ehpa(crons=(soon,))))
    assert plan.upcoming is None or plan.upcoming.replicas < 20


def test_a_forecast_that_does_not_reach_so_far_says_nothing_of_later() -> None:
    [plan] = plans(busy(ForecasterScene(ForecasterSettings(ahead=Seconds(6 * 3600.0)))))
    assert plan.upcoming is None
    assert plan.replicas in (9, 10)


def test_a_preview_says_nothing_of_later() -> None:
    [plan] = plans(busy(ForecasterScene(ForecasterSettings(ahead=Seconds(1800.0))), policy=ehpa(strategy=ScaleStrategy.PREVIEW)))
    assert plan.upcoming is None


def test_each_plan_and_each_refusal_is_copied_for_the_stage_that_scales_nodes() -> None:
    scene = ForecasterScene()
    busy(scene)
    paused = ControlChanged(NOW, "prod", Mode.APPLY, paused=True)
    later = NOW + 5 * MINUTE
    decided = [*scene.run(later, 30, scale(later, 9)), *scene.run(later + MINUTE, 30, paused)]
    told = [each.event for each in decided if each.topic == "replica-plans"]
    copies = [each for each in decided if each.topic == "replica-plans-by-cluster"]
    assert {type(event).__name__ for event in told} == {"ReplicasPlanned", "ReplicasRefused"}
    assert [each.event for each in copies] == told
    assert {each.key for each in copies} == {"prod"}


def test_without_new_values_the_forecast_ends_with_its_cause_and_live_metrics_rule() -> None:
    scene = ForecasterScene()
    busy(scene)
    later = NOW + timedelta(minutes=40)
    [renewed] = forecasts(scene.run(later, 30, scrape(later, 5, 0.4)))
    assert renewed.metrics[0].reason == ""
    much_later = later + timedelta(minutes=30)
    found = scene.run(much_later, 30, scale(much_later, 9))
    [last] = forecasts(found)
    assert [metric.reason for metric in last.metrics] == ["Stale"]
    assert last.metrics[0].values == ()
    assert all(each.origin is ProposalOrigin.LIVE for plan in plans(found) for each in plan.proposals)


def test_a_query_that_cannot_be_used_is_at_once_the_reason_of_no_forecast() -> None:
    scene = ForecasterScene()
    series = series_id("pods.http_requests", "sum(rate)")
    query = {"metric-query.autoscaling.crane.io/pods.http_requests": "sum(rate)"}
    failed = LoadQueryFailed(NOW, CART, series, "the query gives 3 series; it must give one")
    [found] = forecasts(scene.run(NOW, 30, ehpa(metrics=(RATE,), annotations=query)))
    assert [(each.reason, each.message) for each in found.metrics] == [("NoSamples", "nothing is known of this load yet")]
    [again] = forecasts(scene.run(NOW + MINUTE, 10, failed))
    assert [(each.reason, each.message) for each in again.metrics] == [("QueryFailed", failed.reason)]


def test_a_metric_of_a_query_is_planned_by_its_newest_value() -> None:
    scene = ForecasterScene()
    query = "sum(rate)"
    series = series_id("pods.http_requests", query)
    policy = ehpa(metrics=(RATE,), prediction=None, annotations={"metric-query.autoscaling.crane.io/pods.http_requests": query})
    loads = LoadScraped(NOW, "prod", (CART.key, CART.key), (series, "others#0"), (62.0, 1.0))
    decided = scene.run(NOW, 30, policy, *pods(NOW, 3), scale(NOW, 3), loads)
    assert forecasts(decided) == []
    assert [plan.replicas for plan in plans(decided)] == [6]  # max(2 * 3, 4), for 62 of 10 each would be 7


def test_a_load_of_so_many_milli_units_is_planned_as_an_hpa_that_reads_it_would() -> None:
    scene = ForecasterScene()
    query = "sum(rate)"
    target = MetricTarget("AverageValue", average_value="223m")  # 2.007 is 9 times that; 2008 milli-units would take 10
    annotations = {"metric-query.autoscaling.crane.io/pods.http_requests": query}
    policy = ehpa(metrics=(replace(RATE, target=target),), prediction=None, annotations=annotations)
    loads = LoadScraped(NOW, "prod", (CART.key,), (series_id("pods.http_requests", query),), (2.007,))
    decided = scene.run(NOW, 30, policy, *pods(NOW, 5), scale(NOW, 5), loads)
    assert [plan.replicas for plan in plans(decided)] == [9]


def test_crons_raise_the_count_and_an_unreadable_one_is_an_error_of_its_metric() -> None:
    cron = CronTrigger("night", "0 1 * * *", "0 5 * * *", 8)
    [plan] = plans(busy(ForecasterScene(), policy=ehpa(crons=(cron,), prediction=None)))
    assert [(each.identifier, each.replicas) for each in plan.proposals] == [("resource.cpu", 4), ("cron", 8)]
    assert plan.replicas == 8
    odd = CronTrigger("night", "0 25 * * *", "0 5 * * *", 8)
    [other] = plans(busy(ForecasterScene(), policy=ehpa(crons=(odd,), prediction=None)))
    assert "25" in other.proposals[1].error
    assert other.replicas == 5  # an error of one metric forbids to scale down


def test_who_carries_a_plan_out_follows_from_strategy_and_annotation() -> None:
    def by(**changes: object) -> ScalingMode:
        [plan] = plans(busy(ForecasterScene(), policy=ehpa(**changes)))
        return plan.carried_out_by

    assert by() is ScalingMode.HPA
    assert by(annotations={"ullage/scaling": "direct"}) is ScalingMode.DIRECT
    assert by(strategy=ScaleStrategy.PREVIEW) is ScalingMode.PREVIEW


def test_replicas_that_a_preview_names_are_planned_to_be_set() -> None:
    [plan] = plans(busy(ForecasterScene(), policy=ehpa(strategy=ScaleStrategy.PREVIEW, specific_replicas=3)))
    assert (plan.replicas, plan.carried_out_by, plan.because["specific_replicas"]) == (3, ScalingMode.DIRECT, 3)


def test_a_direct_plan_is_made_again_when_it_ran_out_and_nothing_happened() -> None:
    scene = ForecasterScene()
    assert len(plans(busy(scene, policy=ehpa(annotations={"ullage/scaling": "direct"})))) == 1
    assert len(plans(scene.run(NOW + MINUTE, 10))) == 0
    assert len(plans(scene.run(NOW + 2.5 * MINUTE, 20))) == 1


def test_a_direct_ehpa_without_a_metric_is_refused_until_there_is_one() -> None:
    """Where an HPA scales, that HPA says it."""
    scene, direct = ForecasterScene(), ehpa(annotations={"ullage/scaling": "direct"})
    decided = scene.run(NOW, 60, direct, *pods(NOW, 5), scale(NOW, 5))
    [refused] = refusals(decided)
    assert (refused.guard, plans(decided)) == ("no-metric", [])
    assert refused.reason.startswith("no metric can be read: ")
    decided = scene.run(NOW + 2 * MINUTE, 60, scrape(NOW + 2 * MINUTE, 5, 0.9))
    [plan] = plans(decided)
    assert (plan.replicas, refusals(decided)) == (9, [])
    assert refusals(ForecasterScene().run(NOW, 60, EHPA, *pods(NOW, 5), scale(NOW, 5))) == []


def test_a_direct_ehpa_that_does_not_scale_down_for_want_of_a_metric_says_so() -> None:
    both = (*EHPA.metrics, RATE)
    scene, direct = ForecasterScene(), ehpa(annotations={"ullage/scaling": "direct"}, metrics=both)
    [refused] = refusals(scene.run(NOW, 30, direct, *pods(NOW, 5), scrape(NOW, 5, 0.1), scale(NOW, 5)))
    assert refused.reason.startswith("not every metric can be read, so nothing is scaled down: ")


@pytest.mark.parametrize(
    ("changes", "guard", "words"),
    [
        ({"unsupported": "spec.maxReplicas is missing"}, "spec", "spec.maxReplicas is missing"),
        ({"target_ref": None}, "spec", "names no target"),
        ({"max_replicas": None}, "spec", "maxReplicas"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_once_with_its_cause(changes: dict[str, object], guard: str, words: str) -> None:
    decided = busy(ForecasterScene(), policy=ehpa(**changes), seconds=60)
    assert [(each.guard, words in each.reason) for each in refusals(decided)] == [(guard, True)]


def test_an_object_with_too_many_metrics_is_refused_and_costs_no_fit() -> None:
    metrics = tuple(replace(RATE, name=f"rate_{n}") for n in range(51))
    scene = ForecasterScene()
    decided = scene.run(NOW, 30, ehpa(metrics=metrics), *pods(NOW, 3), scale(NOW, 3))
    assert [each.guard for each in refusals(decided)] == ["metrics"]
    assert [each.metrics for each in forecasts(decided)] == [()]
    assert len(scene.state.known.rings) == 0


def test_the_older_of_two_on_one_target_scales_it_and_the_other_is_refused() -> None:
    scene = ForecasterScene()
    younger = ehpa(name="cart-2", created=MONDAY + timedelta(hours=1), uid="u2")
    decided = scene.run(NOW, 30, younger, EHPA, *pods(NOW, 5), scrape(NOW, 5, 0.4), scale(NOW, 5))
    assert {plan.ehpa for plan in plans(decided)} == {EHPA.key}
    assert [(each.ehpa, each.guard) for each in refusals(decided)] == [(younger.key, "rival")]


def test_a_target_without_a_scale_and_a_paused_cluster_are_refused() -> None:
    scene = ForecasterScene()
    missing = ScaleSeen(NOW, CART, reason="the Deployment 'shop/cart' was not found")
    assert [(each.guard, each.reason) for each in refusals(scene.run(NOW, 30, EHPA, missing))] == [("scale", missing.reason)]
    paused = ControlChanged(NOW, "prod", Mode.APPLY, paused=True, reason="INC-1")
    assert [each.guard for each in refusals(scene.run(NOW + MINUTE, 30, paused))] == ["paused"]


def test_an_ehpa_that_is_gone_withdraws_its_forecast_and_leaves_nothing() -> None:
    scene = ForecasterScene()
    busy(scene)
    [last] = forecasts(scene.step(NOW + MINUTE, EhpaRemoved(NOW, "prod", "shop", "cart")))
    assert (last.withdrawn, last.metrics, last.key) == (True, (), EHPA.key)
    known = scene.state.known
    assert [len(each) for each in (known.rings, known.models, known.newest, known.ehpas, scene.state.plans)] == [0] * 5


def test_a_prediction_that_stands_alone_is_forecast_and_one_of_an_ehpa_is_not() -> None:
    tsp = TimeSeriesPredictionChanged(
        NOW,
        "prod",
        "shop",
        "mine",
        NOW,
        TargetRef("Deployment", "cart"),
        window_seconds=3600,
        metrics=(PredictionMetric("load", "ResourceQuery", "cpu", algorithm=AlgorithmOptions("dsp")),),
    )
    scene = ForecasterScene()
    [found] = forecasts(scene.run(NOW, 10, tsp, scrape(NOW, 5, 0.8), history(NOW)))
    assert (found.key, found.metrics[0].identifier, found.metrics[0].reason) == (tsp.key, "load", "")
    owned = ForecasterScene()
    assert forecasts(owned.run(NOW, 10, replace(tsp, owner_uid="u1"), history(NOW))) == []


def test_a_turn_fits_no_more_models_than_the_settings_say() -> None:
    scene = ForecasterScene(ForecasterSettings(fits_per_turn=2))
    metrics = tuple(replace(RATE, name=f"rate_{n}") for n in range(5))
    scene.step(NOW, ehpa(metrics=metrics))
    done = [sum(model.fitted > 0 for model in scene.state.known.models.values())]
    for n in range(1, 3):
        scene.step(NOW + timedelta(seconds=n))
        done.append(sum(model.fitted > 0 for model in scene.state.known.models.values()))
    assert done == [2, 4, 5]


def test_upstreams_predictors_are_carried_out_when_the_settings_say_so() -> None:
    scene = ForecasterScene(ForecasterSettings(upstream_predictors=True))
    options = PercentileOptions(history_length="24h", sample_interval="1m", histogram=HistogramOptions(half_life="24h"))
    policy = ehpa(prediction=PredictionOptions(3600, AlgorithmOptions("percentile", percentile=options)))
    [found] = forecasts(busy(scene, policy=policy))
    assert (found.metrics[0].model, set(found.metrics[0].values)) == (
        "percentile 0.99",
        {5.0},
    )  # the end of the bucket from 4.9 on
    [other] = forecasts(busy(ForecasterScene(ForecasterSettings(upstream_predictors=True))))
    assert (other.metrics[0].model[:4], other.metrics[0].period) == ("dsp ", 86_400.0)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(KINDS), min_size=4, max_size=10), st.data())
def test_a_state_that_was_dumped_and_loaded_steps_on_alike(kinds: list[str], data: st.DataObject) -> None:
    scene = ForecasterScene(ForecasterSettings(refit=60.0, fits_per_turn=1))
    cut = data.draw(st.integers(0, len(kinds) - 1))
    scene.step(NOW, EHPA, *pods(NOW, 3), scale(NOW, 3))
    other = scene
    for n, kind in enumerate(kinds):
        at = NOW + timedelta(seconds=20 * (n + 1))
        event = {
            "scrape": scrape(at, 3, 0.3 + 0.1 * n),
            "scale": scale(at, 3 + n),
            "load": LoadScraped(at, "prod", (CART.key,), (CPU_SERIES,), (4.0,)),
            "policy": ehpa(generation=n, max_replicas=5 + n, metrics=(*EHPA.metrics, RATE)),
            "remove": EhpaRemoved(at, "prod", "shop", "cart"),
            "history": history(at, days=3),
        }.get(kind)
        events = () if event is None else (event,)
        if n == cut:
            other = resumed(scene)
        turn = scene.turn(at, events)
        decided = scene.state.step(turn)
        if other is not scene:
            assert other.state.step(turn) == decided
    dumped = {chunk: scene.state.dump(chunk) for chunk in scene.state.chunks()}
    assert {chunk: other.state.dump(chunk) for chunk in other.state.chunks()} == dumped


def test_an_ehpa_without_a_minimum_keeps_one_replica() -> None:
    [plan] = plans(ForecasterScene().run(NOW, 30, ehpa(min_replicas=None), *pods(NOW, 5), scale(NOW, 30)))
    assert (plan.least, plan.replicas) == (1, 20)


def test_as_many_metrics_as_the_settings_allow_are_forecast() -> None:
    scene = ForecasterScene(ForecasterSettings(most_metrics=1))
    decided = busy(scene)
    assert (len(forecasts(decided)), refusals(decided)) == (1, [])


def test_before_anything_was_fitted_live_metrics_rule() -> None:
    [plan] = plans(busy(ForecasterScene(ForecasterSettings(fits_per_turn=0))))
    assert {each.origin for each in plan.proposals} == {ProposalOrigin.LIVE}


def test_a_forecast_that_does_not_reach_through_the_window_proposes_nothing() -> None:
    scene = ForecasterScene(ForecasterSettings(refit=Seconds(8 * 3600.0)))
    busy(scene)
    for minutes, origins in ((30, {ProposalOrigin.LIVE, ProposalOrigin.FORECAST}), (80, {ProposalOrigin.LIVE})):
        at = NOW + timedelta(minutes=minutes)
        [plan] = plans(scene.run(at, 30, scrape(at, 5, 0.9), scale(at, 5 + minutes % 4)))[:1]
        assert {each.origin for each in plan.proposals} == origins


@given(st.text(max_size=20), st.integers(0, 10**14), st.integers(1, 10**6))
def test_the_next_round_of_a_key_is_the_first_of_its_rounds_after_this_turn(key: str, turn: int, interval: int) -> None:
    following = next_round(key, turn, interval)
    assert turn < following <= turn + interval
    assert next_round(key, following, interval) == following + interval
    assert next_round(key, following - 1, interval) == following


def test_a_prediction_of_an_expression_is_no_scraped_resource_though_it_names_one() -> None:
    metric = PredictionMetric("load", "ExpressionQuery", "cpu", "up")
    tsp = TimeSeriesPredictionChanged(
        NOW, "prod", "shop", "mine", NOW, TargetRef("Deployment", "cart"), window_seconds=3600, metrics=(metric,)
    )
    [wanted] = metric_series.of_prediction(tsp)
    assert (wanted.scraped, wanted.query) == (False, "up")
