"""Limits that follow requests, against worked numbers and upstream's own."""

import pytest
from vectors import vectors

from agents.logic.updates.limits import proportional, scaled
from schemas.names import Amounts


@pytest.mark.parametrize(
    ("limit", "request_", "recommended", "expected"),
    [
        (2000, 1000, 10000, 20000),
        (2000, 1500, 1000, 1333),
        (200, 150, 100, 133),
        (2000, 0, 700, 700),
        (500, 500, 700, 700),
        (500, 250, 0, None),
        (0, 250, 700, None),
        (2**62, 1, 4, 2**63 - 1),
    ],
)
def test_a_limit_keeps_its_ratio_to_the_request(limit, request_, recommended, expected):
    assert scaled(limit, request_, recommended) == expected


def test_amounts_scale_each_by_its_own_ratio_and_what_is_not_set_stays_so():
    assert proportional(Amounts(0.1, 100), Amounts(0.15, 200), Amounts(0.25, 200)) == Amounts(0.375, 400)
    assert proportional(Amounts(0.1, 100), Amounts(None, 200), Amounts(0.25, None)) == Amounts(None, None)


def test_the_file_of_vectors_is_for_another_stage():
    assert vectors("admission_proportional")
