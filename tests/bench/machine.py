"""How fast the machine is today, by work that never changes: what to divide by before two runs are compared."""

import time
from collections.abc import Callable

import numpy as np

STEPS = 5_000_000
NUMBERS = 5_000_000
REPEATS = 3

Put = Callable[[str, float, str, str], None]


def measure(put: Put) -> None:
    """Put the CPU time of a loop of plain Python, and of a sort that does not fit into the caches: the best of three each."""
    numbers = np.random.default_rng(0).random(NUMBERS)
    put("this machine: a loop of five million steps in Python", min(_cpu(_loop) for _ in range(REPEATS)), "s", "")
    put(
        "this machine: five million numbers sorted by numpy", min(_cpu(lambda: np.sort(numbers)) for _ in range(REPEATS)), "s", ""
    )


def _loop() -> int:
    total = 0
    for step in range(STEPS):
        total += step * step % 7
    return total


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
