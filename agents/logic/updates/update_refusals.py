"""Refusals: which guard holds back pods of a workload, and how many. Each is decided once, not in each interval.

It is decided again when the guard comes back after it was gone for an hour, and when it holds back at least twice as many pods as
before. So a roll-out of thousands of pods makes a few records, and neither alternating guards nor a varying number makes more.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from agents.engine.tables.object_table import ObjectTable
from agents.logic.guards.shared_guards import Objection
from agents.logic.updates.candidate import Candidate
from agents.logic.updates.cluster_situation import ClusterSituation
from agents.logic.updates.guard_records import LASTING, SAID_AGAIN
from agents.logic.updates.updater_records import NONE_REFUSED, RefusedPods

_GROWTH = 2
"""How many times more pods are news."""
_FORGOTTEN = 3_600_000
"""Turns (milliseconds) after which a guard that comes back is news."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A guard that holds back `pods` pods of a workload, with the most urgent of them and its objection."""

    candidate: Candidate
    situation: ClusterSituation
    objection: Objection
    pods: int = 1


class IntervalRefusals:
    """All refusals of one interval. `table` has the earlier ones."""

    def __init__(self, table: ObjectTable[RefusedPods]) -> None:
        self._table = table
        self._refusals: dict[str, dict[str, Refusal]] = {}
        self._pods: Counter[tuple[str, str]] = Counter()

    def add(self, candidate: Candidate, situation: ClusterSituation, objection: Objection) -> None:
        """A pod is held back. The most urgent pods come first."""
        workload, guard = candidate.situation.workload, objection.guard
        guards = self._refusals.setdefault(workload, {})
        if guard not in guards:
            guards[guard] = Refusal(candidate, situation, objection)
        self._pods[workload, guard] += 1

    def news(self, now: int) -> Iterator[Refusal]:
        """The refusals to decide in turn `now`; updates the table accordingly."""
        # Those of the table, too: a guard that holds nothing back any more has to be noted as gone.
        for workload in [*self._refusals, *(key for key in list(self._table) if key not in self._refusals)]:
            refusals = {
                guard: replace(refusal, pods=self._pods[workload, guard])
                for guard, refusal in self._refusals.get(workload, {}).items()
            }
            before = self._table.get(workload) or NONE_REFUSED
            after, news = _news_of(before, refusals, now)
            if not after.guards:
                self._table.remove(workload)
            elif after != before:
                self._table.upsert(workload, after)
            yield from news


def _news_of(before: RefusedPods, refusals: Mapping[str, Refusal], now: int) -> tuple[RefusedPods, list[Refusal]]:
    """The new entry of a workload, and its refusals to decide now."""
    gone = {name: before.gone.get(name, now) for name in before.guards if name not in refusals}
    guards = {name: pods for name, pods in before.guards.items() if now - before.gone.get(name, now) < _FORGOTTEN}
    # What somebody has to put right is said again while it lasts, so that `status` can tell what is from what was.
    due = {name for name in refusals if name in LASTING and now - before.said.get(name, 0) >= SAID_AGAIN}
    news = [refusal for name, refusal in refusals.items() if name in due or refusal.pods >= _GROWTH * guards.get(name, 0)]
    guards.update((refusal.objection.guard, refusal.pods) for refusal in news)
    said = {**before.said, **{refusal.objection.guard: now for refusal in news if refusal.objection.guard in LASTING}}
    kept = {name: at for name, at in said.items() if name in guards}
    return RefusedPods(guards, {name: since for name, since in gone.items() if name in guards}, kept), news
