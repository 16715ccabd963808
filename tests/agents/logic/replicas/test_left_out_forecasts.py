"""A forecast that no HPA could go by is left out of the sum, as it is left out of the HPA, and its proposal says why."""

from datetime import timedelta

import pytest

from schemas.facts.replica_scaling import LoadScraped, series_id
from schemas.policies.scaling import HpaBehavior, HpaScalingRules, MetricSpec, MetricTarget
from tests.support.replica_scene import CART, MONDAY, ForecasterScene, ehpa, history, plans, pods, scale, scrape

NOW = MONDAY + timedelta(hours=2)
QUEUE = MetricSpec("External", "queue", MetricTarget("Value", value="100"))
AT_ONCE = HpaBehavior(scale_down=HpaScalingRules(stabilization_window_seconds=0))


def test_a_forecast_without_an_amount_for_each_pod_does_not_keep_the_replicas_as_they_are() -> None:
    """A queue of 20 where 100 are to be: a fifth of five pods."""
    scene, query = ForecasterScene(), "sum(queue)"
    series = series_id("external.queue", query)
    annotations = {"metric-query.autoscaling.crane.io/external.queue": query}
    policy = ehpa(metrics=(QUEUE,), behavior=AT_ONCE, annotations=annotations)
    load = LoadScraped(NOW, "prod", (CART.key,), (series,), (20.0,))
    decided = scene.run(NOW, 30, policy, history(NOW, series=series), load, *pods(NOW, 5), scale(NOW, 5))
    plan = plans(decided)[-1]
    assert [(each.origin.value, each.replicas, each.error) for each in plan.proposals] == [
        ("live", 1, ""),
        ("forecast", None, "its target is neither a utilisation nor an average value"),
    ]
    assert plan.replicas == 1


@pytest.mark.parametrize("cpu", [1.0, 0.001])
def test_a_share_of_nothing_is_no_target(cpu: float) -> None:
    """Half of a milli-core is none."""
    scene = ForecasterScene()
    decided = scene.run(NOW, 30, ehpa(), history(NOW), *pods(NOW, 5, cpu), scrape(NOW, 5, 0.4 * cpu), scale(NOW, 5))
    [ahead] = [each for each in plans(decided)[-1].proposals if each.origin.value == "forecast"]
    assert ahead.error == ("" if cpu == 1.0 else "what a pod requests is too little to be shared")
