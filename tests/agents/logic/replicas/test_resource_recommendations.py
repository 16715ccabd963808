"""Crane's Resource recommender and EVPA, by worked numbers of guide/spec/ehpa.md, 7.1, 7.3 and 11 (59 to 62)."""

import math

import numpy as np
import pytest

from agents.logic.forecast import percentile_predictor
from agents.logic.replicas import fleet_recommendations
from agents.logic.replicas.fleet_recommendations import NEEDS, Estimators
from schemas.names import Amounts
from schemas.units import Bytes, Cores

MIB, GIB = 1 << 20, 1 << 30
RECOMMENDER, EVPA = NEEDS[Estimators.RECOMMENDER], NEEDS[Estimators.EVPA]


def amounts(cpu: float, mib: float) -> Amounts:
    return Amounts(Cores(cpu), Bytes(round(mib * MIB)))


@pytest.mark.parametrize(("requested", "after"), [(512 * MIB, 644_245_094), (256 * MIB, 356 * MIB)])
def test_an_oom_kill_asks_for_a_fifth_more_and_a_hundred_mebibytes_at_least(requested: int, after: int) -> None:
    assert fleet_recommendations.after_oom(Bytes(requested)) == after


def test_the_percentile_is_the_end_of_its_bucket_with_the_margin() -> None:
    times = np.arange(100) * 60.0
    # all in the bucket from 0.3 to 0.4 cores, and in that from 200 to 300 MiB
    cpu = percentile_predictor.estimate([(times, np.full(100, 0.35))], RECOMMENDER.cpu)
    memory = percentile_predictor.estimate([(times, np.full(100, 250.0 * MIB))], RECOMMENDER.memory)
    found = fleet_recommendations.recommend((cpu, memory), amounts(1.0, 1024), None, RECOMMENDER)
    assert found is not None
    assert found.target == Amounts(Cores(0.459), Bytes(345 * MIB))  # 0.4 * 1.15 is a hair below 0.46; 300 MiB * 1.15
    assert found.changes


def test_amounts_are_cut_and_not_rounded() -> None:
    found = fleet_recommendations.recommend((0.4609, 1000.9), Amounts(), None, RECOMMENDER)
    assert found is not None
    assert found.target == Amounts(Cores(0.460), Bytes(1000))


@pytest.mark.parametrize("estimates", [(0.1, 0.9), (math.nan, 1e9), (0.1, math.inf)])
def test_nothing_is_recommended_where_too_little_is_known(estimates: tuple[float, float]) -> None:
    assert fleet_recommendations.recommend(estimates, amounts(1, 100), None, RECOMMENDER) is None


def test_what_is_requested_already_is_no_change() -> None:
    request = amounts(0.46, 345)
    found = fleet_recommendations.recommend((0.46, 345.0 * MIB), request, None, RECOMMENDER)
    assert found is not None
    assert not found.changes


def test_an_oom_kill_is_a_floor_for_the_recommender_and_goes_first_for_an_evpa() -> None:
    for estimate, killed, floor, first in ((900, 512, 900, 614.4), (300, 512, 614.4, 614.4)):
        for needs, mib in ((RECOMMENDER, floor), (EVPA, first)):
            found = fleet_recommendations.recommend((1.0, estimate * float(MIB)), Amounts(), Bytes(killed * MIB), needs)
            assert found is not None
            assert found.target.memory == math.trunc(mib * MIB)


def test_an_evpa_leaves_alone_what_is_within_100_millicores_and_100_mebibytes() -> None:
    request = amounts(1.0, 500)
    for cpu, mib, changes in ((1.1, 600, False), (0.9, 400, False), (1.101, 500, True), (1.0, 601, True)):
        found = fleet_recommendations.recommend((cpu, mib * float(MIB)), request, None, EVPA)
        assert found is not None
        assert (found.changes, found.target == request) == (changes, not changes)


def test_histories_are_a_week_or_one_and_two_days() -> None:
    assert (RECOMMENDER.cpu.history, RECOMMENDER.memory.history) == (604_800, 604_800)
    assert (EVPA.cpu.history, EVPA.memory.history) == (86_400, 172_800)


SIZES = fleet_recommendations.sizes_of("64c256g,0.25c0.25g,0.25c1g,1c1g,1c2g,2c2g")


@pytest.mark.parametrize(
    ("wanted", "size"),
    [
        (amounts(0.5, 1625), amounts(1.0, 2 * 1024)),
        (amounts(0.1, 125), amounts(0.25, 256)),
        (amounts(70.0, 300 * 1024), amounts(70.0, 300 * 1024)),
    ],
)
def test_the_smallest_size_that_holds_both_is_taken(wanted: Amounts, size: Amounts) -> None:
    assert fleet_recommendations.normalised(wanted, SIZES) == size


@pytest.mark.parametrize("text", ["1c", "2g", "xc2g", "1c-2g", "infc1g", "1cnang"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        fleet_recommendations.sizes_of(text)


def test_a_size_that_fits_exactly_fits() -> None:
    assert fleet_recommendations.normalised(amounts(1.0, 1024), SIZES) == amounts(1.0, 1024)
