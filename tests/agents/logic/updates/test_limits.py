"""Limits that keep their ratio to requests; the numbers are worked out beside each case."""

import pytest

from agents.logic.updates.limits import proportional
from schemas.names import Amounts
from schemas.units import Bytes, Cores


def cpu(cores: float | None) -> Amounts:
    return Amounts(cpu=None if cores is None else Cores(cores))


def memory(size: int | None) -> Amounts:
    return Amounts(memory=None if size is None else Bytes(size))


@pytest.mark.parametrize(
    ("request_", "limit", "target", "wanted"),
    [
        (1.0, 2.0, 10.0, 20.0),  # 10 x 2
        (1.5, 2.0, 1.0, 1.333),  # 4/3, rounded down to whole millicores
        (None, 2.0, 0.5, 0.5),  # no request: request and limit become equal
        (2.0, 2.0, 0.5, 0.5),  # they were equal and stay so
        (1.0, None, 0.5, None),  # no limit: none is set
        (1.0, 2.0, None, None),  # nothing recommended
    ],
)
def test_a_cpu_limit_keeps_its_ratio(
    request_: float | None, limit: float | None, target: float | None, wanted: float | None
) -> None:
    assert proportional(cpu(request_), cpu(limit), cpu(target)) == cpu(wanted)


def test_a_memory_limit_is_rounded_down_to_whole_bytes() -> None:
    # 200 x 100 / 150 = 133.3
    assert proportional(memory(150), memory(200), memory(100)) == memory(133)


def test_large_amounts_do_not_overflow() -> None:
    assert proportional(memory(1 << 50), memory(1 << 51), memory(1 << 52)) == memory(1 << 53)
