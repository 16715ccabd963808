"""Pods that are stopped for more and for less by turns: of two owners who write one bound, each would stop them all again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isclose

from agents.logic.guards.shared_guards import doubled
from schemas.names import Amounts

_FREE = 2
"""Turns before the next one waits: somebody makes a change and takes it back."""
_FIRST_PAUSE, _A_DAY = 1800.0, 86_400.0


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
        return TargetTurns(had, gave, count + 1, now) if self.is_turned_by(gave) else TargetTurns(had, gave, count, self.last)

    def is_turned_by(self, gives: Mapping[str, Amounts]) -> bool:
        """Whether a change to these requests takes back something that the last one was for."""
        return any(
            _opposed(getattr(self.had[name], resource), getattr(self.gave[name], resource), getattr(amounts, resource))
            for name, amounts in gives.items()
            if name in self.had and name in self.gave
            for resource in ("cpu", "memory")
        )

    def objection(self, gives: Mapping[str, Amounts], now: int) -> str | None:
        """Why a change to these requests waits; None if it need not."""
        if self.count <= _FREE or not self._remembered(now) or not self.is_turned_by(gives):
            return None
        pause = doubled(_FIRST_PAUSE, self.count - _FREE, longest=_A_DAY)
        if (now - self.last) / 1000 >= pause:
            return None
        return f"pods were stopped for more and for less by turns, {self.count} times; the next turn may come {pause:g} s later"

    def _remembered(self, now: int) -> bool:
        return now - self.last < 2000 * _A_DAY


def _opposed(had: float | None, gave: float | None, gives: float | None) -> bool:
    """Whether an amount went one way and would go back, by more than rounding."""
    if had is None or gave is None or gives is None or isclose(had, gave, rel_tol=0.01) or isclose(gave, gives, rel_tol=0.01):
        return False
    return (gave > had) is not (gives > gave)
