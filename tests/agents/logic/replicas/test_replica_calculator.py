"""Replicas from one metric on examples worked out by hand, and on anything at all."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.replicas import hpa_metrics, replica_calculator
from agents.logic.replicas.hpa_metrics import HpaMetric, MetricReadings
from agents.logic.replicas.replica_calculator import MetricError, ReadinessDelays, ReplicaContext, ReplicaProposal, requests
from tests.support.hpa_scenes import NOW, asked, pods, samples


def pod(metric: int | None = 0, **told: Any) -> dict[str, Any]:
    usual = {"name": "p", "phase": "Running", "ready": "True", "ready_changed_s_ago": 3000, "started_s_ago": 3600}
    return {**usual, "containers": [{"name": "c", "requests_milli": {"cpu": 100}}], "metric": metric, **told}


def by_utilization(given: list[dict[str, Any]], target: int) -> Any:
    scene = ReplicaContext(len(given), len(given), NOW)
    wanted = requests(asked(given, "cpu"), resource="cpu")
    return replica_calculator.by_utilization(pods(given), samples(given, cpu=True), wanted, target=target, scene=scene)


def test_four_pods_at_80_percent_of_50_become_seven() -> None:
    assert by_utilization([pod(80)] * 4, 50) == ReplicaProposal(7, 80, 80)


def test_six_percent_above_the_target_change_nothing() -> None:
    """481 of 900 are 53 %, cut; 53 / 50 = 1.06."""
    given = [pod(usage, containers=[{"name": "c", "requests_milli": {"cpu": 300}}]) for usage in (160, 160, 161)]
    assert by_utilization(given, 50).replicas == 3


def test_pods_without_a_sample_are_busy_on_the_way_down() -> None:
    """(8 x 30 + 2 x 100) / 10 = 44 %; 44 / 50 x 10 = 8.8."""
    assert by_utilization([pod(30)] * 8 + [pod(None)] * 2, 50).replicas == 9


def test_a_pod_that_is_not_ready_is_idle_on_the_way_up() -> None:
    """(4 x 100 + 0) / 5 = 80 %; 80 / 50 x 5 = 8."""
    unready = pod(100, ready="False", ready_changed_s_ago=10, started_s_ago=20)
    assert by_utilization([pod(100)] * 4 + [unready], 50).replicas == 8


def test_a_container_without_a_request_is_named_with_its_pod() -> None:
    found = by_utilization([pod(80, containers=[{"name": "c"}])], 50)
    assert found == MetricError("pod 'p' has a container without a request for cpu")


def test_a_queue_of_seven_for_one_each_takes_seven_pods_and_a_little_more_takes_eight() -> None:
    scene = ReplicaContext(5, 5, NOW)
    assert replica_calculator.by_value_per_pod(7000, target=1000, scene=scene) == ReplicaProposal(7, 1400)
    assert replica_calculator.by_value_per_pod(7070, target=1000, scene=scene) == ReplicaProposal(8, 1414)


def test_a_forecast_of_less_than_one_core_counts() -> None:
    """0.7 cores at 100m a pod: seven pods. Cut to whole cores, as upstream does, it would be none."""
    assert replica_calculator.by_value_per_pod(700, target=100, scene=ReplicaContext(4, 4, NOW)).replicas == 7  # type: ignore[union-attr]  # a proposal


@pytest.mark.parametrize("usage", [45, 55])
def test_the_edge_of_the_tolerance_is_within_it(usage: int) -> None:
    assert by_utilization([pod(usage)] * 10, 50).replicas == 10


states = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
        "ready": st.sampled_from(["True", "False", "Unknown", None]),
        "ready_changed_s_ago": st.sampled_from([-1, 5, 29, 31, 400]),
        "started_s_ago": st.sampled_from([None, 10, 299, 301]),
        "metric": st.sampled_from([None, 0, 1, 70, 2**62]),
        "deleting": st.booleans(),
    }
)


@given(st.lists(states, max_size=6), st.integers(0, 400), st.booleans())
def test_any_pods_get_a_proposal_within_32_bits_or_a_sentence(given_states: list[dict[str, Any]], target: int, cpu: bool) -> None:
    given_pods = [pod(**state) for state in given_states]
    scene = ReplicaContext(len(given_pods), len(given_pods), NOW, patience=ReadinessDelays())
    columns, seen = pods(given_pods), samples(given_pods, cpu=cpu)
    wanted = np.full(len(given_pods), 100, np.int64)
    for found in (
        replica_calculator.by_utilization(columns, seen, wanted, target=target, scene=scene),
        replica_calculator.by_average(columns, seen, target=target, scene=scene),
        replica_calculator.by_value(70, columns, target=target, scene=scene),
    ):
        assert isinstance(found, MetricError) or -(2**31) <= found.replicas < 2**31


def test_a_missing_pod_with_the_largest_request_is_counted_busy_without_running_over() -> None:
    given = [pod(10), pod(None, containers=[{"name": "c", "requests_milli": {"cpu": 2**62}}])]
    assert by_utilization(given, 50).replicas == 2


def unready() -> dict[str, Any]:
    return pod(50, ready="False", ready_changed_s_ago=10, started_s_ago=20)


def test_exactly_at_the_target_pods_that_are_missing_or_not_ready_change_nothing() -> None:
    assert by_utilization([pod(50), pod(None), unready()], 50).replicas == 3


def test_at_twice_the_target_a_pod_without_a_sample_is_idle() -> None:
    """100 of 200 requested are 50 %."""
    assert by_utilization([pod(100), pod(None)], 50).replicas == 2


def test_pods_without_a_sample_use_all_that_they_request_and_no_more() -> None:
    """(90 + 99 x 1000) / 100,000 is 99 %, cut."""
    asks = [{"name": "c", "requests_milli": {"cpu": 1000}}]
    given_pods = [pod(90, containers=asks), *[pod(None, containers=asks)] * 99]
    scene = ReplicaContext(100, 100, NOW, down=0.0)
    wanted = requests(asked(given_pods, "cpu"), resource="cpu")
    found = replica_calculator.by_utilization(pods(given_pods), samples(given_pods, cpu=True), wanted, target=100, scene=scene)
    assert isinstance(found, ReplicaProposal)
    assert found.replicas == 99


def test_at_the_target_a_mean_counts_neither_pods_without_a_sample_nor_those_that_start() -> None:
    """Kubernetes fills in missing pods only above and below the target: 150 / 3 = 50, so 8 replicas stay."""
    given_pods = [*[pod(50)] * 3, pod(None), *[unready()] * 4]
    scene = ReplicaContext(8, 8, NOW)
    found = replica_calculator.by_average(pods(given_pods), samples(given_pods, cpu=True), target=50, scene=scene)
    assert isinstance(found, ReplicaProposal)
    assert found.replicas == 8


def test_a_share_of_requests_is_no_target_of_a_metric_that_pods_do_not_request() -> None:
    metric = HpaMetric("Pods", "queue", utilization=50)
    given_pods = [pod(50)]
    readings = MetricReadings(pods(given_pods), {metric: samples(given_pods)}, {metric: np.array([100])})
    reason, error = cast("tuple[str, MetricError]", hpa_metrics.ask(metric, readings, ReplicaContext(1, 1, NOW)))
    assert (reason, error.text) == ("FailedGetPodsMetric", "metric 'pods.queue' has no target that fits its kind")
