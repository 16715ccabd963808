"""Pods that are stopped for more and for less by turns: of two owners who write one bound, each would stop them all again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isclose

from agents.logic.guards.shared_guards import doubled
from schemas.names import Amounts

_FREE = 2
"""Turns before the next one waits: somebody makes a change and takes it back."""
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 96.0
"""In cool-downs, of which the default is a quarter of an hour."""
_TWO_DAYS = 172_800_000


@dataclass(frozen=True, slots=True)
class TargetTurns:
    """What the last change that stopped a pod was from and for, by container, and how often such changes turned back.

    `count` has turns that followed one another within two days; `last`: the turn number of the last of them.
    """

    had: Mapping[str, Amounts] = field(default_factory=dict)
    gave: Mapping[str, Amounts] = field(default_factory=dict)
    count: int = 0
    last: int = 0

    def after(self, had: Mapping[str, Amounts], gave: Mapping[str, Amounts], now: int) -> "TargetTurns":
        """After a further change."""
        count = self.count if self._remembered(now) else 0
        return TargetTurns(had, gave, count + 1, now) if self._turned_by(had, gave) else TargetTurns(had, gave, count, self.last)

    def objection(self, has: Mapping[str, Amounts], gives: Mapping[str, Amounts], now: int, cool_down: float) -> str | None:
        """Why a change of a pod's requests waits; None if it need not. `cool_down`: seconds between two plans for a pod."""
        if self.count <= _FREE or not self._remembered(now) or not self._turned_by(has, gives):
            return None
        pause = cool_down * doubled(_FIRST_PAUSE, self.count - _FREE, longest=_LONGEST_PAUSE)
        if (now - self.last) / 1000 >= pause:
            return None
        return f"pods were stopped for more and for less by turns, {self.count} times; the next turn may come {pause:g} s later"

    def _turned_by(self, has: Mapping[str, Amounts], gives: Mapping[str, Amounts]) -> bool:
        """Whether a change takes back something that the last one was for."""
        return any(
            _opposed(*(getattr(amounts[name], resource) for amounts in (self.had, self.gave, has, gives)))
            for name in self.had.keys() & self.gave.keys() & has.keys() & gives.keys()
            for resource in ("cpu", "memory")
        )

    def _remembered(self, now: int) -> bool:
        return now - self.last < _TWO_DAYS


def _opposed(had: float | None, gave: float | None, has: float | None, gives: float | None) -> bool:
    """Whether an amount went one way, and would go the other way now and be on the other side of what it became."""
    # Pods of one workload may differ, and go both ways to one target: that is no turn.
    first, second, moved = _way(had, gave), _way(has, gives), _way(gave, gives)
    return first != 0 and first == -second == -moved


def _way(before: float | None, after: float | None) -> int:
    """1 for more, -1 for less, 0 for the same but for rounding."""
    if before is None or after is None or isclose(before, after, rel_tol=0.001):
        return 0
    return 1 if after > before else -1
