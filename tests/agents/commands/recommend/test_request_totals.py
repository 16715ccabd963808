"""What becomes of all requests together, in words: freed or added, and what the sums leave out."""

import pytest

from agents.commands.recommend import request_totals
from agents.commands.recommend.recommendation_table import RecommendedContainer
from schemas.names import Amounts
from schemas.units import Bytes, Cores

TARGET = Amounts(Cores(1.0), Bytes(1 << 30))


def row(saved: Amounts, target: Amounts = TARGET) -> RecommendedContainer:
    return RecommendedContainer("shop", "Deployment", "web", "app", 1, None, target, target, target, saved, "low", "fits")


@pytest.mark.parametrize(
    ("left", "says"),
    [
        ((2.294, 6e8), "2294m CPU and 572.2 MiB memory of requests would be freed"),
        ((-0.127, -9e7), "127m CPU and 85.8 MiB memory of requests would be added"),
        ((120.0, -3e11), "120.0 cores of requests would be freed and 279.40 GiB memory added"),
    ],
)
def test_requests_that_grow_are_said_to_be_added(left: tuple[float, float], says: str) -> None:
    assert request_totals.freed_or_added(*left) == says


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], ""),
        ([row(Amounts())], ", without 1 container whose requests are not set or not known"),
        ([row(Amounts(None, Bytes(0))), row(Amounts())], ", without 2 containers whose requests are not set or not known"),
        ([row(Amounts(None, Bytes(0)), Amounts(None, Bytes(1)))], ""),  # its CPU is nobody's to set
    ],
)
def test_containers_that_the_sums_leave_out_are_counted(more: list[RecommendedContainer], says: str) -> None:
    rows = [row(Amounts(Cores(0.5), Bytes(1 << 20))), *more]
    assert request_totals.in_words(rows) == f"500m CPU and 1.0 MiB memory of requests would be freed{says}"
