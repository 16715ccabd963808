"""Scrapes folded whole: what is looked up by identity, what is absent, what comes twice, and what pods that go leave behind."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.usage.buckets import cpu_buckets, memory_buckets, power
from agents.logic.usage.container_usage import ContainerUsage, UsageSettings, expire
from tests.support.cluster_events import START, scrape

T = START / 1000


def usage() -> Any:
    made = ContainerUsage(UsageSettings(), lambda workload, _pod, container: (workload, container, ""))
    made.now = T
    return made


def fold(mine: Any, at: float, *rows: Any) -> Any:
    event = scrape(START, list(rows))
    mine.now = at
    mine.scrape(event, at, offset=0)
    return event


def count(mine: Any, key: Any) -> Any:
    return int(mine.aggregates.whole("count")[mine.aggregates.find(key)])


@pytest.mark.parametrize(
    ("cores", "bucket"),
    [(0.005, 0), (0.011, 1), (0.05, 4), (0.1, 8), (0.25, 16), (0.5, 25), (1, 36), (4, 62), (100, 127), (999, 174), (5000, 175)],
)
def test_cores_fall_into_the_buckets_of_the_table(cores: float, bucket: int) -> None:
    assert cpu_buckets(0.05).find(np.array([cores], np.float64))[0] == bucket


@pytest.mark.parametrize(
    ("memory", "bucket"),
    [(5e6, 0), (1e8, 8), (128 * 2**20, 10), (256 * 2**20, 17), (1e9, 36), (2**30, 37), (2**33, 77), (2e12, 175)],
)
def test_bytes_fall_into_the_buckets_of_the_table(memory: float, bucket: int) -> None:
    assert memory_buckets(0.05).find(np.array([memory], np.float64))[0] == bucket


def test_powers_are_whole_exponents_of_positive_numbers() -> None:
    base = np.array([1.05, 2.0, 0.5, math.inf])
    assert power(base, 0).tolist() == [1, 1, 1, 1]
    assert power(base, 3) == pytest.approx([1.157625, 8, 0.125, math.inf])
    assert power(base, -2) == pytest.approx([1 / 1.1025, 0.25, 4, 0])


@given(st.lists(st.floats(min_value=1e-300, max_value=1e300) | st.floats(min_value=0.5, max_value=4.0), min_size=1, max_size=8))
def test_the_short_way_to_the_lower_bounds_power_gives_the_same_bits(base: list[float]) -> None:
    numbers = np.array(base)
    with np.errstate(over="ignore"):
        way = power(np.append(numbers, np.inf), -2)[:-1]  # infinity takes the long way for all of them
        assert power(numbers, -2).tobytes() == way.tobytes()


def test_what_is_absent_is_not_zero() -> None:
    mine = usage()
    fold(mine, T, ("w", "a", "app", math.nan, 1e9), ("w", "b", "side", 0.5, math.nan))
    assert (count(mine, ("w", "app", "")), count(mine, ("w", "side", ""))) == (0, 1)
    rows = np.array([mine.aggregates.find(("w", name, "")) for name in ("app", "side")])
    assert mine.memory.percentiles(rows, [0.9])[0].tolist() == pytest.approx([1016281388.55, 0.0])
    assert mine.cpu.percentiles(rows, [0.9])[0].tolist() == pytest.approx([0.0, 0.511134537])


def test_a_scrape_that_comes_twice_counts_once() -> None:
    mine = usage()
    event = fold(mine, T, ("w", "a", "app", 0.5, 1e9))
    mine.scrape(event, T, offset=0)
    assert count(mine, ("w", "app", "")) == 1


def test_a_container_that_stands_twice_in_a_scrape_counts_its_first_cores() -> None:
    mine = usage()
    fold(mine, T, ("w", "a", "app", 0.5, 1e9), ("w", "a", "app", 4.0, 2e9))
    assert count(mine, ("w", "app", "")) == 1
    rows = np.array([0])
    assert mine.cpu.percentiles(rows, [1.0])[0][0] == pytest.approx(0.511134537)
    assert mine.memory.percentiles(rows, [0.0])[0][0] == pytest.approx(2093479957.15)  # the higher use replaced the lower


def test_pods_of_a_workload_share_an_aggregate() -> None:
    mine = usage()
    fold(mine, T, *[("w", f"p{i}", "app", 0.1, 1e9) for i in range(5)])
    assert (len(mine.aggregates), len(mine.containers), count(mine, ("w", "app", ""))) == (1, 5, 5)


def test_rows_given_back_do_not_confuse_a_scrape_that_was_looked_up_before() -> None:
    mine = usage()
    event = fold(mine, T, ("w", "a", "app", 0.1, 1e9), ("v", "b", "app", 0.1, 1e9))
    mine.forget(("w", "a", "app"))
    fold(mine, T + 60, ("x", "c", "app", 0.1, 1e9))  # takes the free row
    mine.scrape(event, T + 120, offset=0)
    assert [count(mine, (w, "app", "")) for w in "wvx"] == [2, 2, 1]


def test_an_oom_kill_before_any_sample_counts() -> None:
    mine = usage()
    assert mine.kill(("w", "a", "app"), 1000 * 2**20, T)
    ends = mine.memory.percentiles(np.array([0]), [0.9])[0]
    assert ends[0] == pytest.approx(1278397629.55)  # 1200 MiB


def test_an_oom_kill_older_than_a_window_before_the_last_sample_is_dropped() -> None:
    mine = usage()
    fold(mine, T, ("w", "a", "app", 0.1, 1e9))
    assert not mine.kill(("w", "a", "app"), 1e9, T - 86_400 - 1)
    assert mine.kill(("w", "a", "app"), 1e9, T - 86_400)


def test_history_older_than_eight_days_is_forgotten_and_what_comes_then_begins_anew() -> None:
    mine = usage()
    fold(mine, T, ("w", "a", "app", 0.1, 1e9))
    event = fold(mine, T + 86_400, ("v", "b", "app", 0.1, 1e9))
    assert drop(mine, T + 8 * 86_400 - 1) == []
    assert drop(mine, T + 8 * 86_400) == [("w", "app", "")]
    assert list(mine.aggregates.keys()) == [("v", "app", "")]
    assert drop(mine, T + 9 * 86_400, told=True) == [("v", "app", "")]
    assert len(mine.containers) == 1  # its pod is known and still there
    mine.scrape(event, T + 9 * 86_400, offset=0)
    assert count(mine, ("v", "app", "")) == 1


def drop(mine: Any, at: float, *, told: bool = False) -> Any:
    return expire(mine, at, tuple, lambda _workload, _pod: told)
