"""Checks a checkpoint's mark against the log: whether its positions and its turn can be those of this log.

A mark is written when a turn was taken, so the record before each of its positions is the tick of that turn. If a topic ends
before the position, or has another record there, the topic was deleted and recreated, or the mark is forged. Retention and
compaction may have removed the tick, which does not count against a mark. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from agents.engine.checkpoint_selection import CheckpointMark

MOST_AHEAD = timedelta(hours=1)
"""How far the turn of a mark may be ahead of real time where no input holds its tick any more."""
NO_TICK = -1
"""Stands for a record that is there and is no tick."""


@dataclass(frozen=True, slots=True)
class InputEvidence:
    """What one input shows: where it ends, and the number of the tick before the mark's position.

    `tick` is NO_TICK if another record is there, and None if the record is gone.
    """

    end: int
    tick: int | None = None


def objection(mark: CheckpointMark, inputs: Mapping[str, InputEvidence], *, now_ms: int) -> str:
    """A sentence on why a mark must not be used; empty if it may be.

    `inputs` are those that the stage reads, by short name. `now_ms` is real time.
    """
    vouched = False
    for name, shown in inputs.items():
        position = mark.positions.get(name)
        if position is None:
            continue
        if not 0 <= position <= shown.end:
            return f"it says that '{name}' was read up to offset {position}, and '{name}' ends at {shown.end}"
        if shown.tick not in (None, mark.turn):
            return f"the record before offset {position} of '{name}' is not the tick of its turn {mark.turn}"
        vouched = vouched or shown.tick == mark.turn
    if not vouched and mark.turn > now_ms + MOST_AHEAD // timedelta(milliseconds=1):
        return f"its turn {mark.turn} lies in the future, and no input holds a tick of it"
    return ""
