"""Two policies over the same workloads: sums, and how certain a difference is."""

from pathlib import Path

import numpy as np
import pytest

from agents.backtest import price_list
from agents.backtest.policy_comparison import PolicyScore, WorkloadFigures, difference, figures, relative
from agents.backtest.price_list import PriceList
from agents.backtest.workload_sums import ResourceTotal, WorkloadTotal
from streams.errors import BadInput

GIB = 1 << 30


def priced(name: str, *costs: float, kills: int = 0) -> PolicyScore:
    """Workloads that cost so much; the first one has the kills."""
    return PolicyScore(
        name,
        {
            f"w{i}": WorkloadFigures(
                f"w{i}", 1, 1.0, cost, cost / 2, cost / 2, 0.0, 1, 1, 0, 0.0, kills if i == 0 else 0, 0, cost
            )
            for i, cost in enumerate(costs)
        },
    )


def test_cost_is_hours_times_prices_over_all_recorded_time() -> None:
    # 2 cores over 1800 of 3600 recorded seconds; 4 GiB over all of them.
    total = WorkloadTotal("w", 1, ResourceTotal(3600, 1800, 1800, 180, 1800), ResourceTotal(4 * GIB * 3600, 0, 0, 0, 3600), 1, 2)
    found = figures([total], {"w": (3600.0, 3600.0)}, PriceList(0.5, 0.25))["w"]
    assert found.cost == pytest.approx(2 * 0.5 + 4 * 0.25)
    assert (found.cpu_requested, found.cpu_slack, found.memory_requested) == pytest.approx((2.0, 1.0, 4.0))
    assert (found.cpu_over, found.kills, found.changes) == (0.1, 1, 2)


def test_a_difference_that_every_workload_has_is_certain_to_the_last_digit() -> None:
    found = difference(priced("a", 1, 2, 3, 4), priced("b", 1.1, 2.2, 3.3, 4.4))
    assert (found.cost.estimate, found.cost.low, found.cost.high) == pytest.approx((0.1, 0.1, 0.1))
    assert found.cost.certain


def test_a_difference_that_one_workload_makes_is_not_certain() -> None:
    found = difference(priced("a", *[1.0] * 10), priced("b", 3.0, *[1.0] * 9))
    assert found.cost.estimate == pytest.approx(0.2)
    # Of 10 workloads the odd one is left out of 35 % of draws, drawn four times or more in 1.3 %, five times or more in 0.2 %.
    # The interval of 10 leaves out 0.9 % at either end (2.26 of Student's quantile times sqrt(10 / 9), on a normal curve).
    assert (found.cost.low, found.cost.high) == (0.0, pytest.approx(0.8))
    assert not found.cost.certain


@pytest.mark.parametrize(("workloads", "least"), [(5, 0.87), (10, 0.91)])
def test_an_interval_of_few_workloads_holds_the_truth_about_as_often_as_it_says(workloads: int, least: float) -> None:
    """Random fleets of workloads, some much larger than others. Percentiles as they are hold it in 83 and 86 of 100."""
    chance = np.random.default_rng(1)
    # A cost is exp(N(0, 1)) and the other's is exp(N(-0.2, 0.3)) times that, whose mean is exp(-0.2 + 0.3²/2).
    truth, fleets, held = np.exp(-0.2 + 0.3**2 / 2) - 1, 400, 0
    for _ in range(fleets):
        costs = chance.lognormal(0, 1, workloads)
        interval = relative(priced("a", *costs), priced("b", *(costs * chance.lognormal(-0.2, 0.3, workloads))), "cost")
        held += bool(interval.low <= truth <= interval.high)
    assert held >= least * fleets


def test_the_same_scores_give_the_same_interval_and_equal_policies_no_difference() -> None:
    a, b = priced("a", 1, 5, 2, 9), priced("b", 2, 4, 2, 11)
    assert difference(a, b) == difference(a, b)
    assert difference(a, a).regression == 0.0


def test_a_regression_is_the_worse_of_cost_and_kills() -> None:
    assert difference(priced("a", 1, 1), priced("b", 1, 1.1)).regression == pytest.approx(0.05)
    assert difference(priced("a", 1, kills=4), priced("b", 0.5, kills=5)).regression == pytest.approx(0.25)
    assert difference(priced("a", 1), priced("b", 0.5, kills=1)).regression == float("inf")
    assert difference(priced("a", 1, kills=4), priced("b", 0.9, kills=3)).regression == pytest.approx(-0.1)


def test_prices_come_from_a_file_and_say_where_they_are_from(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("resource,price\ncpu, 0.04\nmemory,0.005\ncurrency,EUR\n")
    assert str(price_list.read(path)) == f"0.04 EUR a core-hour, 0.005 EUR a GiB-hour ({path})"
    assert "OpenCost" in str(price_list.read(None))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cpu,0.04\n", "has no line for memory"),
        ("cpu,much\nmemory,1\n", "line 1 .* says 'much', which is no price"),
        ("cpu,-1\nmemory,1\n", "says '-1'"),
        ("cpu,nan\nmemory,1\n", "says 'nan'"),
        ("cpu,1\nmemory,1\ngpu,1\n", "line 3 .* prices 'gpu'"),
    ],
)
def test_a_price_list_that_makes_no_sense_is_refused_with_its_line(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=says):
        price_list.read(path)
    with pytest.raises(BadInput, match="cannot be read"):
        price_list.read(tmp_path / "none.csv")
