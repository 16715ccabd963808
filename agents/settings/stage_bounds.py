"""Bounds of the stages' settings that their types cannot express: numbers that would stop a stage or let it do harm.

The stages' settings are plain dataclasses, so that the logic stays free of validation. This module only gives reasons; loading
the settings raises the error.
"""

from collections.abc import Iterator

from agents.logic import stage_rules
from agents.settings.tree import Settings
from streams.topics import REACH_MS

REACH = REACH_MS / 1000


def reasons(settings: Settings) -> Iterator[tuple[str, str]]:
    """The dotted name of each setting with a value out of bounds, and why."""
    for branch, part in (("vertical", settings.vertical), ("updates", settings.updates)):
        for name, why in stage_rules.odd(part):
            yield f"{branch}.{name}", why
    if settings.updates.expires > REACH:
        yield "updates.expires", f"consumers remember what they did for {REACH:g} s, and a plan must not outlive that"
