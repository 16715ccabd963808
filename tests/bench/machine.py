"""How fast the machine is today, by work that never changes: what to divide by before two runs are compared."""

from collections.abc import Callable

import numpy as np

from tests.bench import vertical

STEPS = 5_000_000
NUMBERS = 5_000_000
REPEATS = 3

Put = Callable[[str, float, str, str], None]


def measure(put: Put) -> None:
    """Put the CPU time of a loop of plain Python, and of a sort that does not fit into the caches: the best of three each."""
    numbers = np.random.default_rng(0).random(NUMBERS)
    put("this machine: a loop of five million steps in Python", _best(_loop), "s", "")
    put("this machine: five million numbers sorted by numpy", _best(lambda: np.sort(numbers)), "s", "")


def _best(work: Callable[[], object]) -> float:
    return min(vertical.timed(work) for _ in range(REPEATS))


def _loop() -> int:
    total = 0
    for step in range(STEPS):
        total += step * step % 7
    return total
