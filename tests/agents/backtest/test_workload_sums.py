"""Sums by workload: what each policy, the recording itself and an hourly oracle requested, by hand."""

import numpy as np
import pytest

from agents.backtest.backtest import Backtest
from agents.backtest.scoring import Score
from agents.backtest.workload_sums import ContainerSums, WorkloadTotal
from tests.support.small_pipeline import TILL, WEB, PipelineLog, stages

MIB = 1 << 20


def played(bench: PipelineLog) -> Score:
    backtest = Backtest(stages(), bench.topics, score=Score(sums=ContainerSums()))
    backtest.play(bench.log)
    return backtest.score


def of(score: Score, side: str, workload: str = WEB.key) -> WorkloadTotal:
    [found] = [each for each in score.totals(side) if each.workload == workload]
    return found


@pytest.fixture
def score() -> Score:
    """As in test_backtest: requests 2 cores and 10 MiB with a limit of 20 MiB."""
    bench = PipelineLog()
    bench.log.append(bench.seen(0, WEB, 2.0, 10 * MIB, 20 * MIB))
    for minute, cores, memory in ((1, 1.0, 8 * MIB), (2, 1.0, 17 * MIB), (3, 2.5, 18 * MIB), (4, 0.5, 40 * MIB)):
        bench.log.append(bench.metrics(minute, (WEB, cores, memory)))
        bench.tick(minute)
    return played(bench)


def test_the_recordings_request_counts_until_a_recommendation_is_in_force(score: Score) -> None:
    ours = of(score, "ours").cpu
    # In force: the recording's 2 in minute 1, then 1, 2 and 4.5; used: 1, 1, 2.5, 0.5.
    assert (ours.requested, ours.used, ours.slack) == (9.5 * 60, 5.0 * 60, 5.0 * 60)
    assert (ours.over, ours.seconds) == (60, 240)


def test_the_recordings_own_side_is_what_it_requested(score: Score) -> None:
    own = of(score, "own")
    assert (own.cpu.requested, own.cpu.slack, own.cpu.over) == (8.0 * 60, 3.5 * 60, 60)
    assert (own.memory.requested, own.memory.over) == (40 * MIB * 60, 180)


def test_the_oracle_requests_the_highest_use_of_each_hour(score: Score) -> None:
    oracle = of(score, "oracle")
    assert (oracle.cpu.requested, oracle.cpu.slack, oracle.cpu.over) == (2.5 * 4 * 60, 5.0 * 60, 0)
    assert oracle.memory.requested == 40 * MIB * 4 * 60
    assert oracle.kills == 0


def test_kills_and_changes_of_a_workload_add_up_to_those_of_the_card(score: Score) -> None:
    card = score.card()
    assert of(score, "ours").kills == card.recommended.ooms == 2
    assert of(score, "own").kills == card.own.ooms == 1
    assert of(score, "ours").changes == score.changes == 4


def test_the_oracle_knows_each_hour_by_itself_and_each_container_by_itself() -> None:
    bench = PipelineLog()
    for minute, web, till in ((30, 1.0, 3.0), (59, 2.0, 3.0), (90, 5.0, 1.0)):
        bench.log.append([*bench.metrics(minute, (WEB, web, 1), (TILL, till, 1))])
        bench.tick(minute)
    score = played(bench)
    assert of(score, "oracle").cpu.requested == (2 + 2 + 5) * 60
    assert of(score, "oracle", TILL.key).cpu.requested == (3 + 3 + 1) * 60


def test_rows_beyond_the_first_are_kept() -> None:
    sums, rows = ContainerSums(), np.arange(1_000)
    ones = np.ones(1_000)
    sums.weigh("cpu", rows, (ones, np.full(1_000, np.nan)), ones / 2, 10.0)
    sums.kill("recorded", rows[-1:])
    [total] = sums.totals("own", ["w"] * 1_000, np.zeros(1_000))
    assert (total.containers, total.cpu.requested, total.cpu.slack, total.kills) == (1_000, 10_000, 5_000, 1)


def test_the_first_12_hours_of_a_container_are_told_apart() -> None:
    sums, rows = ContainerSums(), np.array([0, 1])
    for hour in range(24):
        begun = rows[: 1 if hour < 6 else 2]  # the second container begins six hours later
        use = np.full(len(begun), 2.0 if hour in {3, 13, 17} else 0.5)
        sums.weigh("cpu", begun, (np.ones(len(begun)), np.full(len(begun), np.nan)), use, 3600.0)
    [total] = sums.totals("own", ["w", "w"], np.zeros(2))
    # Over in hours 3, 13 and 17 of the first, and so in its hour 3 of 12; in hours 7 and 11 of the second, which are both early.
    assert (total.cpu.over, total.cpu.seconds) == (5 * 3600, 42 * 3600)
    assert (total.cpu.early_over, total.cpu.early_seconds) == (3 * 3600, 24 * 3600)
