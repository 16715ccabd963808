"""Samples, memory windows and OOM kills by worked numbers, which are upstream's own test facts."""

from typing import Any

import numpy as np
import pytest

from agents.logic.usage import histogram_checkpoints
from agents.logic.usage.container_usage import ContainerUsage, OomBump, UsageSettings
from schemas.facts.usage import MetricsScraped

MIB = 2**20
HOUR, DAY = 3600.0, 86_400.0
T0 = 1_767_225_600.0
KEY = ("w", "p", "c")


class One:
    """One container, with a note of each change of its memory histogram."""

    def __init__(self, **changed: Any) -> None:
        self.usage = ContainerUsage(UsageSettings(**changed), lambda workload, _pod, container: (workload, container, ""))
        self.changes: list[Any] = []
        memory, self.noted = self.usage.memory, self.changes.append
        add, subtract = memory.add, memory.subtract

        def noted_add(rows: Any, values: Any, weight: Any, at: Any, **told: bool) -> None:
            self.noted(("add", float(values[0]), weight, float(np.atleast_1d(at)[0]) - T0))
            add(rows, values, weight, at, **told)

        def noted_subtract(rows: Any, values: Any, weight: Any, at: Any) -> None:
            self.noted(("subtract", float(values[0]), weight, float(np.atleast_1d(at)[0]) - T0))
            subtract(rows, values, weight, at)

        memory.add, memory.subtract = noted_add, noted_subtract  # type: ignore[method-assign]  # watched, not replaced

    def use(self, at: float, memory: float = np.nan, cores: float = np.nan) -> None:
        names = tuple((part,) for part in KEY)
        self.usage.scrape(MetricsScraped(None, "c", *names, [cores], [memory]), T0 + at, offset=0)  # type: ignore[arg-type]

    def oom(self, at: float, requested: float, bump: OomBump | None = None) -> bool:
        return self.usage.kill(KEY, requested, T0 + at, bump)

    def mark(self, column: str) -> float:
        return float(self.usage.containers.floats(column)[0])

    def target(self) -> int:
        [end] = self.usage.memory.percentiles(np.array([0]), [0.9])
        return int(end[0]) + int(int(end[0]) * 0.15)


def test_a_cpu_sample_that_is_not_newer_or_is_negative_is_dropped() -> None:
    one = One()
    for at, cores in ((60, 0.1), (60, 0.2), (0, 0.3), (120, -0.1), (120, 0.4)):
        one.use(at, cores=cores)
    assert one.usage.aggregates["count"][0] == 2
    assert one.usage.cpu.total[0] == pytest.approx(0.1 * (2 ** (60 / DAY) + 2 ** (120 / DAY)))


def test_a_higher_use_replaces_the_windows_peak_and_a_new_window_opens_after_the_old() -> None:
    one = One()
    for at, memory in ((0, 5.0), (DAY / 2, 10.0), (DAY, 2.0)):
        one.use(at, memory)
    assert one.changes == [
        ("add", 5.0, 1.0, DAY),
        ("subtract", 5.0, 1.0, DAY),
        ("add", 10.0, 1.0, DAY),
        ("add", 2.0, 1.0, 2 * DAY),
    ]


def test_windows_that_nobody_used_are_passed_over() -> None:
    one = One(window=HOUR)
    ends = []
    for at, memory in ((0, 5.0), (HOUR / 2, 6.0), (2 * HOUR, 5.0)):
        one.use(at, memory)
        ends.append(one.mark("window_end") - T0)
    assert ends == [HOUR, HOUR, 3 * HOUR]
    assert [change[0] for change in one.changes] == ["add", "subtract", "add", "add"]


def test_a_memory_sample_may_have_the_last_ones_time_but_not_an_older_one() -> None:
    one = One()
    for at, memory in ((60, 5.0), (60, 6.0), (59, 9.0), (61, 4.0)):
        one.use(at, memory)
    assert one.mark("peak") == 6.0
    assert len(one.changes) == 3  # the lower one changes nothing


def test_a_window_that_a_zero_opened_takes_nothing_more_unless_zeros_are_absent() -> None:
    for absent, peak in ((False, 0.0), (True, 5.0)):
        one = One(zero_is_absent=absent)
        one.use(0, 0.0)
        one.use(60, 5.0)
        assert one.mark("peak") == peak


def test_the_highest_use_within_a_window_counts_where_it_is_known_and_wanted() -> None:
    for wanted, peak in ((False, 5.0), (True, 9.0)):
        one = One(window_peaks=wanted)
        names = tuple((part,) for part in KEY)
        scrape = MetricsScraped(None, "c", *names, [np.nan], [5.0], memory_max=[9.0])  # type: ignore[arg-type]
        one.usage.scrape(scrape, T0, offset=0)
        assert one.mark("peak") == peak


def test_the_highest_cpu_within_a_window_counts_where_it_is_known_and_wanted() -> None:
    for wanted, cores in ((False, 1.0), (True, 3.0)):
        one = One(cpu_peaks=wanted)
        names = tuple((part,) for part in KEY)
        scrape = MetricsScraped(None, "c", *names, [1.0], [np.nan], cores_max=[3.0])  # type: ignore[arg-type]
        one.usage.scrape(scrape, T0, offset=0)
        [found] = one.usage.cpu.percentiles(np.array([0]), [0.9])
        assert cores <= found[0] <= cores * 1.06, "the end of its bucket"


def test_repeated_oom_kills_do_not_run_away_and_a_larger_one_replaces_the_peak() -> None:
    one = One()
    peaks = []
    for at, requested in ((0, 1000), (1, 999), (2, 999), (3, 2000)):
        assert one.oom(at, requested * MIB)
        peaks.append(one.mark("killed") / MIB)
    assert peaks == [1200, 1200, 1200, 2400]


@pytest.mark.parametrize(("requested", "needed"), [(1, 101), (500, 600), (1000, 1200)])
def test_an_oom_kill_adds_a_fifth_and_100_mib_at_least(requested: int, needed: int) -> None:
    one = One()
    one.oom(0, requested * MIB)
    assert one.mark("killed") == needed * MIB


def test_an_oom_kill_reckons_from_the_use_when_that_was_higher_than_the_request() -> None:
    one = One()
    one.use(0, 3000 * MIB)
    assert one.oom(1, 1000 * MIB)
    assert one.changes[1:] == [("subtract", 3000.0 * MIB, 1.0, DAY), ("add", 3600.0 * MIB, 1.0, DAY)]


@pytest.mark.parametrize(
    ("window", "at", "counts"), [(DAY, -30 * HOUR, False), (DAY, -24 * HOUR, True), (HOUR, -2 * HOUR, False)]
)
def test_an_oom_kill_older_than_a_window_before_the_last_sample_is_dropped(window: float, at: float, counts: bool) -> None:
    one = One(window=window)
    one.use(0, 100 * MIB)
    assert one.oom(at, 1000 * MIB) is counts


def test_an_oom_kill_opens_a_window_and_the_old_peak_still_counts_as_use() -> None:
    one = One()
    one.use(0, 2000 * MIB)
    assert one.oom(2 * DAY, 1000 * MIB)
    assert (one.mark("window_end") - T0, one.mark("killed") / MIB) == (3 * DAY, 2400)


def test_an_oom_kill_just_before_the_last_sample_counts_in_its_window() -> None:
    one = One()
    one.use(0, 100 * MIB)
    one.use(DAY, 2000 * MIB)
    assert one.oom(DAY - 1, 0)
    assert one.changes[-2:] == [("subtract", 2000.0 * MIB, 1.0, 2 * DAY), ("add", 2400.0 * MIB, 1.0, 2 * DAY)]


@pytest.mark.parametrize(
    ("requested", "target"),
    [(64, 203699302), (250, 442809964), (500, 764046746), (512, 764046746), (1024, 1555165137), (2048, 2975900105)],
)
def test_after_an_oom_kill_the_target_is_the_bucket_of_the_bumped_request_and_its_margin(requested: int, target: int) -> None:
    one = One()
    one.oom(0, requested * MIB)
    assert one.target() == target


def test_a_policys_own_bump_holds() -> None:
    one = One()
    one.oom(0, 1000 * MIB, OomBump(1.5, 0.0))
    assert one.mark("killed") == 1500 * MIB


def test_a_checkpoint_holds_parts_of_ten_thousand_of_the_heaviest_bucket() -> None:
    one = One()
    for _ in range(3):
        one.usage.see(*KEY)
        one.usage.cpu.add(np.array([0]), np.array([0.1]), 0.1, T0)
    one.usage.cpu.add(np.array([0]), np.array([1.0]), 0.1, T0)
    kept = histogram_checkpoints.saved(one.usage.cpu, 0)
    assert kept.weights == {"8": 10000, "36": 3333}
    assert kept.total == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("weights", "kept", "total"),
    [((1, 10000, 50), {"0": 1, "1": 10000, "2": 50}, 10051), ((1, 100000), {"1": 10000}, 100001)],
)
def test_a_bucket_too_light_for_one_part_is_left_out(weights: Any, kept: Any, total: float) -> None:
    one = One()
    one.usage.see(*KEY)
    for bucket, weight in enumerate(weights):
        one.usage.cpu.add(np.array([0]), one.usage.cpu.scale.starts[[bucket]] + 1e-5, float(weight), T0)
    found = histogram_checkpoints.saved(one.usage.cpu, 0)
    assert (found.weights, found.total) == (kept, pytest.approx(total))


def test_a_running_windows_peak_is_not_in_a_checkpoint_until_the_window_ends() -> None:
    one = One()
    one.use(0, 2.0**30, cores=0.1)
    live = np.array([0])
    histogram_checkpoints.take_running_peaks(one.usage, one.usage.memory, 0, live, T0 + DAY)
    assert histogram_checkpoints.saved(one.usage.memory, 0).weights == {"37": 10000}
    histogram_checkpoints.take_running_peaks(one.usage, one.usage.memory, 0, live, T0 + DAY - 1)
    assert histogram_checkpoints.saved(one.usage.memory, 0).weights == {}
