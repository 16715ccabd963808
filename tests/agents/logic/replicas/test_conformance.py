"""Where each of ehpa.md's conformance numbers (section 11) that is not about a predictor alone is shown: 3, 21, 22 and 27 to 63.

Those of the predictors stand in order in tests/agents/logic/forecast/test_conformance.py, those of passes over an EHPA (38 to 44)
in tests/streams/consumers/replicas/test_ehpa_passes.py. The others are worked numbers beside what they are about.
"""

import re
from pathlib import Path

import pytest

from agents.logic.replicas import hpa_reconcile, replica_calculator
from agents.logic.replicas.hpa_reconcile import HpaBounds, HpaMemory
from agents.logic.replicas.replica_calculator import ReplicaContext

TESTS = Path(__file__).parents[3]
HERE = "agents/logic/replicas"
SHOWN: dict[int, tuple[str, ...]] = {
    3: (f"{HERE}/test_prediction_status.py::test_a_metric_without_forecast_is_named_with_its_reason",),
    21: ("streams/sources/kube/test_ehpas.py::test_an_ehpa_that_makes_no_sense_is_published_with_the_place_of_what_is_wrong",),
    22: ("streams/sources/load/test_load_source.py::test_a_load_that_fails_takes_no_other_with_it_and_comes_back",),
    27: (f"{HERE}/test_prediction_status.py::test_a_status_holds_two_windows_with_five_decimals",),
    28: (f"{HERE}/test_generated_objects.py::test_a_forecast_that_admission_would_refuse_is_not_asked_for",),
    29: (
        f"{HERE}/test_served_metrics.py::test_a_window_counts_in_seconds_whatever_the_step_is",
        f"{HERE}/test_generation_vectors.py::test_an_autoscaler_is_answered_what_cranes_adapter_answers_but_in_milli_units",
    ),
    30: (f"{HERE}/test_served_metrics.py::test_a_forecast_is_answered_with_the_largest_value_of_the_window_in_milli_units",),
    31: (
        f"{HERE}/test_served_metrics.py::test_a_forecast_that_has_expired_is_no_answer_even_where_it_still_says_something",
        "controlplane/test_dead_prometheus.py::test_when_prometheus_is_dead_its_forecasts_expire_and_live_metrics_rule",
    ),
    32: (f"{HERE}/test_replica_calculator.py::test_a_forecast_of_less_than_one_core_counts",),
    33: (f"{HERE}/test_generation_vectors.py::test_an_hpa_is_what_crane_makes_of_an_ehpa",),
    34: (
        f"{HERE}/test_served_metrics.py::test_what_is_not_known_is_said",
        f"{HERE}/test_served_metrics.py::test_any_other_metric_is_not_there",
    ),
    35: (f"{HERE}/test_generated_objects.py::test_the_forecasts_target_is_a_share_of_what_pods_request_cut",),
    36: (f"{HERE}/test_generated_objects.py::test_the_forecasts_target_is_a_share_of_what_pods_request_cut",),
    37: (
        f"{HERE}/test_generated_objects.py::test_a_forecast_that_has_no_target_is_left_out_and_the_rest_stays",
        f"{HERE}/test_generated_objects.py::test_a_pod_ready_for_31_seconds_counts",
    ),
    40: (
        f"{HERE}/test_forecaster.py::test_replicas_that_a_preview_names_are_planned_to_be_set",
        "controlplane/test_replicas.py::test_a_preview_shows_what_would_be_done_and_leaves_the_deployment_alone",
    ),
    43: ("controlplane/test_replicas.py::test_a_hand_edited_hpa_is_put_right_and_what_followed_goes_with_the_ehpa",),
    45: (f"{HERE}/test_adapter_rules.py::test_an_annotation_goes_before_a_rule_and_a_rule_before_the_default",),
    46: (f"{HERE}/test_generated_objects.py::test_our_queries_are_of_the_workload_alone_and_one_series",),
    47: (f"{HERE}/test_ehpa_crons.py::test_a_window_holds_its_start_and_not_its_end",),
    48: (
        f"{HERE}/test_ehpa_crons.py::test_a_window_may_reach_over_midnight",
        f"{HERE}/test_ehpa_crons.py::test_a_window_may_reach_over_a_weekend",
    ),
    49: (f"{HERE}/test_ehpa_crons.py::test_the_largest_target_of_the_active_counts_and_the_minimum_is_a_floor",),
    50: (f"{HERE}/test_conformance.py::test_50_crons_within_tolerance_and_bounds",),
    51: (
        f"{HERE}/test_ehpa_crons.py::test_nine_in_shanghai_is_one_in_greenwich",
        f"{HERE}/test_ehpa_crons.py::test_what_must_not_be_taken_is_said",
        f"{HERE}/test_ehpa_crons.py::test_two_crons_of_one_name_are_refused",
    ),
    52: (
        f"{HERE}/test_replica_calculator.py::test_four_pods_at_80_percent_of_50_become_seven",
        f"{HERE}/test_replica_calculator.py::test_six_percent_above_the_target_change_nothing",
    ),
    53: (f"{HERE}/test_replica_calculator.py::test_pods_without_a_sample_are_busy_on_the_way_down",),
    54: (f"{HERE}/test_replica_calculator.py::test_a_pod_that_is_not_ready_is_idle_on_the_way_up",),
    55: (
        f"{HERE}/test_replica_calculator.py::test_a_queue_of_seven_for_one_each_takes_seven_pods_and_a_little_more_takes_eight",
    ),
    56: (
        f"{HERE}/test_hpa_reconcile.py::test_the_highest_recommendation_of_five_minutes_counts_and_one_exactly_as_old_still_does",
    ),
    57: (
        f"{HERE}/test_hpa_reconcile.py::test_without_a_behaviour_the_count_doubles_at_most_and_four_are_free",
        f"{HERE}/test_hpa_reconcile.py::test_the_default_behaviour_adds_four_or_doubles_each_15_seconds",
    ),
    58: (
        f"{HERE}/test_hpa_reconcile.py::test_of_several_metrics_the_highest_counts_and_a_broken_one_prevents_only_scaling_down",
    ),
    59: (
        f"{HERE}/test_resource_recommendations.py::test_an_oom_kill_asks_for_a_fifth_more_and_a_hundred_mebibytes_at_least",
        "agents/commands/recommend/test_crane_resource_recommendations.py::test_a_kill_of_the_last_seven_days_counts_by_what_was_requested",
    ),
    60: (
        "agents/commands/recommend/test_crane_resource_recommendations.py::test_a_kill_of_the_last_seven_days_counts_by_what_was_requested",
    ),
    61: (f"{HERE}/test_fleet_recommendations.py::test_ten_cores_at_half_of_five_a_pod_are_four_replicas",),
    62: (f"{HERE}/test_resource_recommendations.py::test_the_smallest_size_that_holds_both_is_taken",),
    63: (f"{HERE}/test_fleet_recommendations.py::test_a_node_whose_pods_all_belong_to_daemon_sets_may_go",),
}
"""By number. The log holds all kills, so of 60 only the largest request counts, and nothing is dropped after 10,000."""


@pytest.mark.parametrize(("number", "places"), SHOWN.items(), ids=map(str, SHOWN))
def test_each_number_is_shown_by_a_test_that_is_there(number: int, places: tuple[str, ...]) -> None:
    for place in places:
        file, _, name = place.partition("::")
        assert re.search(rf"^def {name}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE), (number, place)


def test_no_number_is_left_out() -> None:
    numbered = set(SHOWN)
    for file in ("agents/logic/forecast/test_conformance.py", "streams/consumers/replicas/test_ehpa_passes.py"):
        for found in re.findall(r"^def test_((?:\d+_(?:and_)?)+)", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE):
            numbered |= {int(number) for number in re.findall(r"\d+", found)}
    assert numbered >= set(range(1, 64))


@pytest.mark.parametrize(
    ("current", "cron", "most", "wanted"), [(10, 12, 100, 12), (20, 21, 100, 20), (5, 100, 10, 10), (20, 23, 100, 23)]
)
def test_50_crons_within_tolerance_and_bounds(current: int, cron: int, most: int, wanted: int) -> None:
    proposal = replica_calculator.by_value_per_pod(cron * 1000, target=1000, scene=ReplicaContext(current, current, 0.0))
    decision, _memory = hpa_reconcile.decide(HpaBounds(1, most), current, [proposal], HpaMemory(), now=0.0)
    assert decision.replicas == wanted
