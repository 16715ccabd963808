"""Bounds of the stages' settings that their types cannot express: numbers that would stop a stage or let it do harm.

The stages' settings are plain dataclasses, so that the logic stays free of validation. This module only gives reasons; loading
the settings raises the error.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict

from agents.settings.tree import Settings
from streams.topics import REACH_MS

REACH = REACH_MS / 1000
LEAST = 0.001
_DIVIDE = {"interval", "memory_window", "memory_windows", "cpu_half_life", "memory_half_life", "round_cpu", "round_memory"}
"""Settings that are divisors."""


def reasons(settings: Settings) -> Iterator[tuple[str, str]]:
    """The dotted name of each setting with a value out of bounds, and why."""
    for branch, part in (("vertical", settings.vertical), ("updates", settings.updates)):
        for name, value in asdict(part).items():
            least = LEAST if name in _DIVIDE else 0
            if isinstance(value, int | float) and not (math.isfinite(value) and value >= least):
                yield f"{branch}.{name}", f"it must be a number that is not below {least:g}"
    if settings.updates.expires > REACH:
        yield "updates.expires", f"consumers remember what they did for {REACH:g} s, and a plan must not outlive that"
