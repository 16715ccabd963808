"""Whose scaling activities are read when: a group that has changed at once, one that goes on lacking nodes ever more seldom."""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

FIRST, LONGEST = timedelta(seconds=1), timedelta(seconds=60)
"""The first pause of a group, and the longest."""
# AWS counts calls of all programs of an account together, so what a shortage of hours costs is bounded.
MOST_A_MINUTE = 60
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class _Pause:
    asked: datetime
    length: timedelta


@dataclass(slots=True)
class ActivityTurns:
    """The turns of one source's groups. `waiting`: groups that had no turn in the last look, because of the bound."""

    waiting: int = 0
    _pauses: dict[str, _Pause] = field(default_factory=dict)
    _calls: deque[datetime] = field(default_factory=deque)

    def take(self, unsettled: Iterable[str], changed: Collection[str], at: datetime) -> list[str]:
        """The groups that are asked about now, those first that were asked longest ago."""
        while self._calls and at - self._calls[0] >= MINUTE:
            self._calls.popleft()
        names = sorted(unsettled)
        self._pauses = {name: pause for name, pause in self._pauses.items() if name in set(names) and name not in changed}
        due = [name for name in names if self._is_due(name, at)]
        due.sort(key=lambda name: self._pauses[name].asked if name in self._pauses else datetime.min.replace(tzinfo=at.tzinfo))
        turns = due[: max(MOST_A_MINUTE - len(self._calls), 0)]
        self.waiting = len(due) - len(turns)
        for name in turns:
            before = self._pauses.get(name)
            self._pauses[name] = _Pause(at, FIRST if before is None else min(2 * before.length, LONGEST))
        self._calls.extend(at for _ in turns)
        return turns

    def _is_due(self, name: str, at: datetime) -> bool:
        pause = self._pauses.get(name)
        return pause is None or at - pause.asked >= pause.length

    def expects_news(self) -> bool:
        """Whether a group changed so lately that its next news may come within seconds."""
        return self.waiting > 0 or any(pause.length < LONGEST for pause in self._pauses.values())
