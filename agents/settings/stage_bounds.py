"""What types cannot say of the stages' settings: which numbers would stop a stage, or let it do harm.

The stages' settings are plain dataclasses, so that the logic stays free of this. Refuses nothing itself; it gives sentences.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict

from agents.settings.tree import Settings
from streams.topics import REACH_MS

REACH = REACH_MS / 1000
LEAST = 0.001
_DIVIDE = {"interval", "memory_window", "memory_windows", "cpu_half_life", "memory_half_life", "round_cpu", "round_memory"}
"""Something is divided by these."""


def reasons(settings: Settings) -> Iterator[tuple[str, str]]:
    """The dotted name of each setting that must not be as it is, and why."""
    for branch, part in (("vertical", settings.vertical), ("updates", settings.updates)):
        for name, value in asdict(part).items():
            least = LEAST if name in _DIVIDE else 0
            if isinstance(value, int | float) and not (math.isfinite(value) and value >= least):
                yield f"{branch}.{name}", f"it must be a number that is not below {least:g}"
    if settings.updates.expires > REACH:
        yield "updates.expires", f"consumers remember what they did for {REACH:g} s, and a plan must not outlive that"
