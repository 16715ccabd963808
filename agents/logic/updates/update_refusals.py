"""Refusals: which guard holds back pods of a workload, and how many. Each is decided once, not again in each interval.

It is decided anew when the guard comes back after it was gone, and when it holds back at least twice or at most half as many pods
as was said last. So a roll-out of thousands of pods is told in a few records, and a number that only wavers in none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agents.engine.tables.object_table import ObjectTable
from agents.logic.guards.shared_guards import Objection
from agents.logic.updates.candidate import Candidate
from agents.logic.updates.update_guards import ClusterSituation
from agents.logic.updates.updater_state import RefusedPods

_TELLING = 2
"""How many times more or fewer pods are news."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A guard that holds back `pods` pods of a workload, with the most urgent of them and what was objected to it."""

    candidate: Candidate
    situation: ClusterSituation
    objection: Objection
    pods: int = 1


class IntervalRefusals:
    """All refusals of one interval. `table` is what was said before."""

    def __init__(self, table: ObjectTable[RefusedPods]) -> None:
        self._table = table
        self._found: dict[str, dict[str, Refusal]] = {}

    def add(self, candidate: Candidate, situation: ClusterSituation, objection: Objection) -> None:
        """A pod is held back. The most urgent pods come first."""
        guards = self._found.setdefault(candidate.situation.workload, {})
        known = guards.get(objection.guard)
        guards[objection.guard] = (
            Refusal(candidate, situation, objection) if known is None else replace(known, pods=known.pods + 1)
        )

    def news(self) -> Iterator[Refusal]:
        """The refusals to be decided, and the table is as they say."""
        for workload in [key for key in self._table if key not in self._found]:
            self._table.remove(workload)
        for workload, guards in self._found.items():
            said = (self._table.get(workload) or RefusedPods()).guards
            now = {name: _said(said.get(name, 0), refusal.pods) for name, refusal in guards.items()}
            if now != said:
                self._table.upsert(workload, RefusedPods(now))
            yield from (refusal for name, refusal in guards.items() if now[name] != said.get(name))


def _said(before: int, pods: int) -> int:
    """The number that is said: the one before, while the new one tells nothing."""
    told = before // _TELLING < pods < before * _TELLING
    return before if told else pods
