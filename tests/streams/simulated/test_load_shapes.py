"""Load shapes are pure, stay within what they promise, and look like what they are called."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.units import Fraction, Seconds
from streams.simulated import cluster_spec
from streams.simulated.cluster_spec import MIB, LoadMoment

HOUR = 3600


def at(seconds: float, *, age: float = 1e6, seed: int = 1) -> LoadMoment:
    return LoadMoment(seed, Seconds(seconds), Seconds(age))


@given(st.integers(0, 1 << 48), st.integers(0, 1 << 40), st.integers(0, 10))
def test_chance_is_a_number_from_zero_to_below_one_and_the_same_each_time(seed: int, slot: int, salt: int) -> None:
    assert 0.0 <= cluster_spec.hashed(seed, slot, salt) < 1.0
    assert cluster_spec.hashed(seed, slot, salt) == cluster_spec.hashed(seed, slot, salt)


def test_chance_is_evenly_spread() -> None:
    # mean 1/2 and, for 10,000 draws, a standard error of 0.2887 / 100
    mean = sum(cluster_spec.hashed(7, slot) for slot in range(10_000)) / 10_000
    assert abs(mean - 0.5) < 4 * 0.002887


def test_diurnal_is_low_at_three_at_night_and_high_at_three_in_the_afternoon() -> None:
    shape = cluster_spec.diurnal(low=0.1, high=1.0, memory=100, swing=50)
    night, day = shape(at(3 * HOUR)), shape(at(15 * HOUR))
    assert 0.085 <= night.cores <= 0.115
    assert 0.85 <= day.cores <= 1.15
    assert 100 * MIB <= night.memory <= 104 * MIB
    assert 150 * MIB <= day.memory <= 154 * MIB


def test_bursty_bursts_in_about_the_share_of_slots_that_it_was_told() -> None:
    shape = cluster_spec.bursty(calm=0.1, burst=1.0, memory=100, burst_memory=300, often=Fraction(0.2))
    bursts = sum(shape(at(600 * slot)).memory > 200 * MIB for slot in range(5000))
    assert 900 < bursts < 1100


def test_a_leak_grows_with_age_and_not_with_time() -> None:
    shape = cluster_spec.leak(cores=0.1, memory=200, per_hour=60)
    assert shape(at(0, age=2 * HOUR)).memory == shape(at(1e6, age=2 * HOUR)).memory == 320 * MIB


def test_batch_sleeps_between_runs() -> None:
    shape = cluster_spec.batch(every=Seconds(7200), busy=Seconds(1800), cores=2.0, memory=1000)
    assert shape(at(1799)).cores >= 1.8
    assert shape(at(1799)).memory == 1000 * MIB
    assert (shape(at(1800)).cores, shape(at(7199)).memory) == (0.005, 100 * MIB)


def test_a_starter_needs_its_peak_for_seconds_after_its_start_alone() -> None:
    shape = cluster_spec.starter(low=0.1, high=0.5, memory=200, peak=900)
    assert [shape(at(0, age=age)).memory // MIB for age in (0, 19, 20, 34, 35, HOUR)] == [200, 200, 900, 900, 200, 200]


def test_a_jvm_starts_hot_and_keeps_its_heap() -> None:
    shape = cluster_spec.jvm(low=0.1, high=0.5, heap=1000, warm_up=Seconds(1200))
    assert shape(at(3 * HOUR, age=0)).cores == 0.5
    assert 343 * MIB <= shape(at(3 * HOUR, age=0)).memory <= 350 * MIB
    assert 980 * MIB <= shape(at(3 * HOUR, age=1200)).memory <= 1000 * MIB
    assert shape(at(3 * HOUR, age=1200)).cores < 0.13
