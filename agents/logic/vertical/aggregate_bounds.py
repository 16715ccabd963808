"""How many container names and label sets of one workload have histograms, so that no tenant makes a turn or the state large.

A tenant gives pods any labels and containers any names. Names beyond the bound are left out. Usage under label sets beyond the
bound is kept, but as that of pods without labels: it counts for the workload, whatever a VPA's selector says.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from agents.engine.tables.row_table import RowKey
from agents.logic.usage.pod_index import UNKNOWN
from schemas.bounds import MOST_CONTAINERS, MOST_LABEL_SETS


class KnownAggregates(Protocol):
    """What was there of each workload when the turn began."""

    def containers(self, workload: str) -> Sequence[tuple[str, int]]:
        """Container names of a workload, and a number for each."""

    def label_sets(self, workload: str) -> int:
        """How many aggregates a workload has."""


class AggregateBounds:
    """Says under which key a container's usage is kept. `exists`: whether an aggregate is there already."""

    def __init__(self, known: KnownAggregates, exists: Callable[[RowKey], bool]) -> None:
        self._known, self._exists = known, exists
        self._new: dict[str, set[RowKey]] = {}
        self._names: dict[str, set[str]] = {}

    def begin(self) -> None:
        """A turn begins: what was new is known now."""
        self._new.clear()
        self._names.clear()

    def admit(self, key: RowKey) -> RowKey | None:
        """The key of the aggregate that takes this one's usage; None if nothing does."""
        if self._exists(key):
            return key
        workload, container, _ = key
        new = self._new.setdefault(workload, set())
        if self._known.label_sets(workload) + len(new) < MOST_CONTAINERS:
            new.add(key)
            return key
        names = self._names_of(workload, new)
        if container not in names and len(names) >= MOST_CONTAINERS:
            return None
        if self._known.label_sets(workload) + len(new) >= MOST_LABEL_SETS:
            key = (workload, container, UNKNOWN)
        if not self._exists(key):
            new.add(key)
            names.add(container)
        return key

    def reached(self, workload: str) -> str:
        """What of a workload may be left out, with the bound; empty while nothing is."""
        if self._known.label_sets(workload) < MOST_CONTAINERS:
            return ""
        if len(self._known.containers(workload)) >= MOST_CONTAINERS:
            return f"container names beyond {MOST_CONTAINERS:,} of one workload are left out"
        if self._known.label_sets(workload) >= MOST_LABEL_SETS:
            return f"usage under label sets beyond {MOST_LABEL_SETS:,} of one workload counts as that of pods without labels"
        return ""

    def _names_of(self, workload: str, new: set[RowKey]) -> set[str]:
        """All names of a workload that comes near its bound; found once in a turn."""
        found = self._names.get(workload)
        if found is None:
            found = {name for name, _ in self._known.containers(workload)} | {name for _, name, _ in new}
            self._names[workload] = found
        return found
