"""Limits in proportion and requests under a bound, against upstream's own."""

from typing import Any

import pytest

from agents.logic.resources import resource_lists
from agents.logic.resources.resource_lists import UnscalableError, limit_amounts
from schemas import exact_quantity
from schemas.names import Amounts
from tests.support.vectors import vectors

Json = dict[str, Any]


@pytest.mark.parametrize("vector", vectors("admission_proportional"))
def test_limits_and_boundaries_are_upstreams(vector: Json) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    if inputs["function"] == "proportional_limit":
        given = {
            "limit": "original_limit",
            "request": "original_request",
            "recommended": "recommendation",
            "default": "default_limit",
        }
        found, notes = resource_lists.limits(**{ours: resource_lists.read(inputs[theirs]) for ours, theirs in given.items()})
        assert (None if found is None else {name: amount.text for name, amount in found.items()}) == expected["limit"]
        assert list(notes) == expected["notes"]
    else:
        names = ("original_request", "original_limit", "boundary_limit", "default_limit")
        given_amounts = [None if inputs[name] is None else exact_quantity.read(inputs[name]) for name in names]
        bound = resource_lists.boundary(inputs["resource"], *given_amounts)
        assert (None if bound is None else bound.text) == expected["boundary"]


@pytest.mark.parametrize(
    ("limit", "request_", "recommended", "expected"),
    [("2", "1", "10", "20"), ("2", "1500m", "1", "1333m"), ("2", "0", "10", "10"), ("2", "2", "10", "10"), ("2", "1", "0", None)],
)
def test_a_limit_keeps_its_ratio_to_the_request(limit: str, request_: str, recommended: str, expected: str | None) -> None:
    amounts = (exact_quantity.parse(text) for text in (limit, request_, recommended, "0"))
    found, _ = resource_lists.proportional("cpu", *amounts)
    assert (None if found is None else found.text) == expected


def test_a_limit_beyond_64_bits_is_the_largest_that_fits_and_a_note_says_so() -> None:
    amounts = (exact_quantity.parse(text) for text in ("9000000000000000", "1m", "9000000000000000", "0"))
    found, note = resource_lists.proportional("cpu", *amounts)
    assert found is not None
    assert found.milli == 2**63 - 1
    assert note == "cpu: failed to keep limit to request ratio; capping limit to int64"


def test_what_cannot_be_divided_is_said_and_does_not_end_the_program() -> None:
    """So much CPU is not zero, and is no number of millicores that fits 64 bits either."""
    amount, much = exact_quantity.parse("1"), exact_quantity.parse("100E")
    with pytest.raises(UnscalableError, match="'1' cannot be scaled by '1' over '100E' of cpu"):
        resource_lists.scaled("cpu", amount, by=amount, over=much)


def test_limits_of_events_keep_their_ratio_in_whole_millicores_and_bytes_and_what_is_not_set_stays_so() -> None:
    # 100m over 150m of 250m are 166.7m, rounded down; 100 bytes stand to 200 as 150 to 300
    assert limit_amounts(Amounts(0.15, 200), Amounts(0.1, 100), Amounts(0.25, 300)) == Amounts(0.166, 150)
    assert limit_amounts(Amounts(0.1, 100), Amounts(None, 200), Amounts(0.25, None)) == Amounts(None, None)
    assert limit_amounts(Amounts(0.2, None), Amounts(0.2, 200), Amounts(0.25, 300)) == Amounts(0.25, 300)
