"""A storm: many wrongly sized pods at once, and everything restarted in the middle; what was away is counted in the cluster."""

from collections.abc import Callable

import pytest

from agents.logic.updates.update_settings import UpdaterProfile, UpdateSettings
from schemas.policies.vertical import UpdateMode
from tests.support.storm import Storm, half_then_restarted


def test_in_a_storm_never_more_pods_are_away_than_the_budget_though_everything_restarts() -> None:
    storm = half_then_restarted(Storm(10, 10, UpdateSettings(), 0.1), 40)
    assert 0 < storm.most_away <= 10
    assert storm.away_in_workload <= 1
    assert (storm.wrong(), storm.evicted()) == (0, 100)


@pytest.mark.slow
def test_a_storm_in_place_takes_nobody_away() -> None:
    storm = half_then_restarted(Storm(10, 4, UpdateSettings(), 0.25, UpdateMode.IN_PLACE_OR_RECREATE), 30)
    assert (storm.most_away, storm.wrong(), storm.evicted()) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "budget", "most", "most_of_a_workload"),
    [(UpdateSettings(), 0.1, 20, 2), (UpdateSettings(profile=UpdaterProfile.UPSTREAM), 0.1, 100, 10)],
    ids=["ours", "upstream"],
)
def test_a_storm_beside_upstream(
    settings: UpdateSettings, budget: float, most: int, most_of_a_workload: int, record_property: Callable[[str, object], None]
) -> None:
    storm = half_then_restarted(Storm(10, 20, settings, budget), 40)
    record_property("away", f"{storm.most_away} in all, {storm.away_in_workload} of a workload")
    assert storm.most_away <= most
    assert storm.away_in_workload <= most_of_a_workload
    assert (storm.wrong(), storm.evicted()) == (0, 200)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_in_a_storm_of_two_thousand_pods_never_more_are_away_than_the_budget_though_everything_restarts() -> None:
    storm = half_then_restarted(Storm(100, 20, UpdateSettings(), 0.1), 60)
    assert 0 < storm.most_away <= 200
    assert storm.away_in_workload <= 2
    assert (storm.wrong(), storm.evicted()) == (0, 2000)
