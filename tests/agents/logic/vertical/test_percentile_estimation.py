"""The estimator's steps and the texts of amounts, by worked numbers."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from agents.logic.vertical.estimate_rules import (
    LOWER,
    UPPER,
    ConfidenceBound,
    clamp,
    confidence,
    rounded,
    with_confidence,
    with_margin,
)
from streams.clients.kube import quantities


def one(value: float) -> Any:
    return np.array([value], np.float64)


def test_confidence_is_bounded_by_the_count_of_samples() -> None:
    # nine samples, two minutes apart: 16 minutes of history, but 9 / 1440 = 0.00625
    sure = confidence(one(0.0), one(960.0), one(9.0), 86_400.0)
    assert sure[0] == 0.00625
    # 3140 m * (1 + 0.1 / 0.00625)^2 = 3140 * 289 = 907460
    assert with_confidence(one(3140.0), sure, ConfidenceBound(0.1, 2))[0] == 907_460
    # 3140 m * (1 + 0.1 / 0.5)^2 = 3140 * 1.44 = 4521.6, cut to 4521
    assert with_confidence(one(3140.0), one(0.5), ConfidenceBound(0.1, 2))[0] == 4521


def test_without_history_the_upper_bound_has_no_end_and_the_lower_one_is_nothing() -> None:
    nothing = one(0.0)
    assert with_confidence(one(100.0), nothing, UPPER)[0] == 1e14
    assert with_confidence(one(100.0), nothing, LOWER)[0] == 0
    assert with_confidence(nothing, nothing, UPPER)[0] == 0  # nothing times infinity


@pytest.mark.parametrize(("minutes", "lower"), [(5, 0.6028), (30, 0.9105), (60, 0.9537)])
def test_the_lower_bound_nears_the_percentile_as_history_grows(minutes: int, lower: float) -> None:
    assert with_confidence(one(1e9), one(minutes / 1440), LOWER)[0] / 1e9 == pytest.approx(lower, abs=1e-4)


@pytest.mark.parametrize(("days", "upper"), [(0.5, 3.0), (1, 2.0), (7, 1.142857), (8, 1.125)])
def test_the_upper_bound_nears_the_percentile_as_history_grows(days: float, upper: float) -> None:
    assert with_confidence(one(1e9), one(days), UPPER)[0] / 1e9 == pytest.approx(upper, abs=1e-6)


def test_a_margin_is_cut_to_a_whole_unit_and_so_is_the_sum() -> None:
    assert with_margin(one(10.0), 0.15)[0] == 11  # 10 + int(1.5)
    assert clamp(np.array([-1.0, 1.9, 2e14, math.nan])).tolist() == [0, 1, 1e14, 0]


@pytest.mark.parametrize(
    ("amount", "step", "up"),
    [
        (79, 50, 100), (34, 50, 50), (1000, 3, 1002), (1231241, 13, 1231243), (839500000, 134217728, 939524096),
        (262144000, 268435456, 268435456), (79, 1, 79), (79, 0, 79), (79, -1, 79), (0, 50, 0),
    ],
)  # fmt: skip
def test_amounts_are_rounded_up_to_a_step(amount: float, step: int, up: float) -> None:
    assert rounded(one(amount), step)[0] == up


@pytest.mark.parametrize(
    ("amount", "text"),
    [(262144000, "250Mi"), (131072000, "125Mi"), (628694953, "628694953"), (939524096, "896Mi"), (10**14, "97656250000Ki"),
     (0, "0"), (1000, "1k"), (1023, "1023"), (1024, "1Ki")],
)  # fmt: skip
def test_memory_is_binary_while_that_is_exact(amount: int, text: str) -> None:
    assert quantities.canonical_memory(amount) == text


@pytest.mark.parametrize(
    ("cores", "text"),
    [(1.0, "1"), (1.5, "1500m"), (0.126, "126m"), (0.2505, "250500u"), (1e11, "100G"), (0.0, "0"), (1000.0, "1k")],
)
def test_cpu_is_decimal(cores: float, text: str) -> None:
    assert quantities.canonical_cpu(cores) == text


@pytest.mark.parametrize(
    ("amount", "text"), [(839500000, "800.61Mi"), (1050000, "1.00Mi"), (1537, "1.50Ki"), (4992073454, "4.65Gi"), (1023, "1023")]
)
def test_humanized_memory_has_two_decimals(amount: int, text: str) -> None:
    assert quantities.humanized(amount)[1] == text


def test_humanized_memory_comes_back_from_the_api_as_what_its_text_means() -> None:
    # 800.61 Mi = 800.61 * 1048576 = 839500431.36 bytes
    assert quantities.humanized(839500000)[0] == Fraction("839500431.36")
    assert quantities.canonical_memory(839500000, humanize=True) == "839500431360m"
    assert quantities.canonical_memory(1050000, humanize=True) == "1Mi"
