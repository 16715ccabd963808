"""The bounds of amounts, texts, lists and times: the last good value is accepted, the next one is refused by name and value."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from schemas import bounds
from schemas.names import Amounts, Workload
from schemas.units import Bytes, Cores


@pytest.mark.parametrize("good", [None, 0.0, 1e16])
def test_a_number_is_absent_or_from_zero_to_the_most(good: float | None) -> None:
    assert list(bounds.number("x", good)) == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (-1e-9, "x is -1e-09; an amount cannot be negative"),
        (math.nan, "x is nan, which is not a finite number"),
        (math.inf, "x is inf, which is not a finite number"),
        (1.1e16, "x is 1.1e+16; more than 1e+16 is not possible"),
    ],
)
def test_any_other_number_is_refused_by_name_and_value(bad: float, reason: str) -> None:
    assert list(bounds.number("x", bad)) == [reason]


def test_a_number_may_have_a_least_value() -> None:
    assert [list(bounds.at_least("x", value, 2.0)) for value in (None, 2.0, 1.9)] == [[], [], ["x is 1.9; it must be at least 2"]]


def test_cpu_is_bounded_by_a_number_of_cores_and_memory_by_one_of_bytes() -> None:
    assert list(bounds.amounts("a", Amounts(Cores(1e6), Bytes(10**16)))) == []
    assert list(bounds.amounts("a", Amounts(Cores(1.1e6), Bytes(11 * 10**15)))) == [
        "a.cpu is 1100000.0; more than 1e+06 is not possible",
        "a.memory is 11000000000000000; more than 1e+16 is not possible",
    ]


def test_a_recommendation_may_be_as_large_as_upstreams_bound_without_history() -> None:
    assert list(bounds.recommended("r", Amounts(Cores(1e11), Bytes(10**16)))) == []
    assert list(bounds.recommended("r", Amounts())) == []
    assert list(bounds.recommended("r", Amounts(Cores(1.1e11)))) == ["r.cpu is 110000000000.0; more than 1e+11 is not possible"]
    assert list(bounds.recommended("r", Amounts(memory=Bytes(-1)))) == ["r.memory is -1; an amount cannot be negative"]


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        (bounds.workload("w", Workload("c", "n", "Deployment", "web")), False),
        (bounds.workload("w", Workload("c", "", "Deployment", "web")), True),
        (bounds.workload("w", Workload("c", "n", "Deployment", "a/b")), True),
        (bounds.workload_key("w", "c/n/Deployment/web"), False),
        (bounds.workload_key("w", "c/n/web"), True),
        (bounds.text("t", "x" * 4096), False),
        (bounds.text("t", "x" * 4097), True),
        (bounds.count("l", range(1000), 1000), False),
        (bounds.count("l", range(1001), 1000), True),
        (bounds.time("at", datetime(1970, 1, 1, tzinfo=UTC)), False),
        (bounds.time("at", datetime(2199, 12, 31, tzinfo=UTC)), False),
        (bounds.time("at", datetime(1969, 12, 31, tzinfo=UTC)), True),
        (bounds.time("at", datetime(2200, 1, 1, tzinfo=UTC)), True),
        (bounds.second("at", 0.0), False),
        (bounds.second("at", datetime(2200, 1, 1, tzinfo=UTC).timestamp() - 1), False),
        (bounds.second("at", datetime(2200, 1, 1, tzinfo=UTC).timestamp()), True),
        (bounds.second("at", -1.0), True),
        (bounds.second("at", math.nan), True),
    ],
)
def test_what_lies_just_beyond_a_bound_is_refused(found: Iterator[str], refused: bool) -> None:
    assert bool(list(found)) is refused
