"""Checks a checkpoint's mark against the log: whether its positions and its turn can be those of this log.

A mark is written when a turn was taken, so the clock has the tick of that turn, by that name, at the place that the mark says. If
it has another record there, or a topic ends before a position of the mark, the topic was deleted and recreated, has lost its end,
or the mark is forged. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from agents.engine.checkpoint_selection import CheckpointMark

MOST_AHEAD = timedelta(hours=1)
"""How far the turn of a mark may be ahead of real time where the clock no longer holds its tick."""


@dataclass(frozen=True, slots=True)
class ClockEvidence:
    """What the clock shows at a mark's place: where the topic begins and ends, and number and name of the tick there, if any."""

    begin: int
    end: int
    tick: tuple[int, str] | None = None


def objection(mark: CheckpointMark, ends: Mapping[str, int], clock: ClockEvidence, *, now_ms: int) -> str:
    """A sentence on why a mark must not be used; empty if it may be.

    `ends`: where the inputs that the stage reads end, by short name. `now_ms` is real time.
    """
    for name, end in ends.items():
        position = mark.positions.get(name)
        if position is not None and not 0 <= position <= end:
            return f"it says that '{name}' was read up to offset {position}, and '{name}' ends at {end}"
    if mark.tick is None:
        return "" if mark.turn < 0 else "it names no tick of the clock"
    offset, name = mark.tick
    if not 0 <= offset < clock.end:
        return f"the tick of its turn {mark.turn} is said to be at offset {offset} of the clock, which ends at {clock.end}"
    if offset >= clock.begin and clock.tick != (mark.turn, name):
        return f"the record at offset {offset} of the clock is not the tick of its turn {mark.turn}"
    # Retention has removed the tick, which does not count against a mark; but none can be of a turn that has not been.
    if offset < clock.begin and mark.turn > now_ms + MOST_AHEAD // timedelta(milliseconds=1):
        return f"its turn {mark.turn} lies in the future, and the clock holds no tick of it"
    return ""
