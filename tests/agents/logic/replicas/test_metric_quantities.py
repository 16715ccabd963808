"""Kubernetes quantities as milli-units and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.replicas import metric_quantities


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("500m", 500), ("2", 2000), ("1Gi", 1024**3 * 1000), ("1k", 10**6), ("1.5", 1500), ("100u", 1),
        ("1e3", 10**6), ("1E", 10**21), ("-0.0001", -1), ("0", 0), (".5", 500), ("128974848", 128_974_848_000),
        ("123Mi", 123 * 2**20 * 1000),
    ],
)  # fmt: skip
def test_quantities_are_read_and_rounded_away_from_zero(text: str, milli: int) -> None:
    assert metric_quantities.milli(text) == milli


@pytest.mark.parametrize("text", ["", "1 Gi", "x", "1gi", "1KB", "1e", "--1", "1.2.3"])
def test_what_is_no_quantity_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        metric_quantities.milli(text)


@pytest.mark.parametrize(
    ("milli", "text"),
    [(0, "0"), (100, "100m"), (1000, "1"), (10**6, "1k"), (1_500_000, "1500"), (187_904_819_200, "187904819200m")],
)
def test_the_text_has_the_largest_suffix_that_leaves_a_whole_number(milli: int, text: str) -> None:
    assert metric_quantities.text(milli) == text


@given(st.integers(-(10**20), 10**20))
def test_a_text_is_read_as_what_it_was_made_of(milli: int) -> None:
    assert metric_quantities.milli(metric_quantities.text(milli)) == milli
