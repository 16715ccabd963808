"""How far the updater has come in the turns of its partition."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnsTaken:
    """The first and the last turn that were taken."""

    first: int
    turn: int
