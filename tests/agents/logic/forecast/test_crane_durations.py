"""Durations and numbers as Go reads them."""

import math
from collections.abc import Callable

import pytest

from agents.logic.forecast import crane_durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1m", 60),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("5.s", 5),
        ("-1m", -60),
        ("0", 0),
        ("7d", 604_800),
        ("250ms", 0.25),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert crane_durations.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "1", "1x", "300y", "999999d", "99999999999h", "2.5d", "1d12h", "15D", "1h 2m", "-", ".s", "1m30"]
)
def test_what_is_no_duration_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        crane_durations.duration(text)


@pytest.mark.parametrize(
    ("text", "value"), [("0.1", 0.1), ("1e-1", 0.1), (".5", 0.5), ("5.", 5), ("+1", 1), ("1_000.5", 1000.5), ("0x1p-2", 0.25)]
)
def test_numbers_are_read(text: str, value: float) -> None:
    assert crane_durations.number(text) == value
    assert crane_durations.number("-Infinity") == -math.inf


@pytest.mark.parametrize("text", ["", " 1", "ten", "1e", "1,5", "+-inf", "--nan"])
def test_what_is_no_number_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        crane_durations.number(text)


@pytest.mark.parametrize("read", [crane_durations.duration, crane_durations.number])
def test_a_text_that_would_take_long_to_read_is_refused_at_once(read: Callable[[str], float]) -> None:
    with pytest.raises(ValueError, match="has 4001 characters; more than 128 are not read"):
        read("1" * 4_000 + "x")


def test_a_hexadecimal_number_beyond_every_float_is_refused() -> None:
    with pytest.raises(ValueError, match="larger than any number that Go can hold"):
        crane_durations.number("0x1p99999")
