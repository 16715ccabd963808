"""How many container names and label sets of one workload have histograms, so that no tenant makes a turn or the state large.

A tenant can give pods any labels and containers any names. Names beyond the bound are left out. Usage under label sets beyond the
bound counts as that of pods without labels, so it counts for the workload whatever a VPA's selector is.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from agents.engine.tables.row_table import RowKey
from agents.logic.usage.pod_index import UNKNOWN
from schemas.bounds import MOST_CONTAINERS, MOST_LABEL_SETS


class KnownAggregates(Protocol):
    """The aggregates of each workload at the beginning of the turn."""

    def containers(self, workload: str) -> Sequence[tuple[str, int]]:
        """Container names of a workload, and a number for each."""

    def label_sets(self, workload: str) -> int:
        """How many aggregates a workload has."""


class AggregateBounds:
    """Decides under which key a container's usage is kept. `exists`: whether an aggregate is there already."""

    def __init__(self, known: KnownAggregates, exists: Callable[[RowKey], bool]) -> None:
        self._known, self._exists = known, exists
        self._new: dict[str, set[RowKey]] = {}
        self._names: dict[str, set[str]] = {}

    def begin(self) -> None:
        """A turn begins: new aggregates count as known now."""
        self._new.clear()
        self._names.clear()

    def admit(self, key: RowKey) -> RowKey | None:
        """The key of the aggregate that takes this one's usage; None if nothing does."""
        if self._exists(key):
            return key
        workload, container, _ = key
        new = self._new.setdefault(workload, set())
        # Far from both bounds, as nearly every workload is, no names have to be counted.
        if self._known.label_sets(workload) + len(new) < MOST_CONTAINERS:
            new.add(key)
            return key
        names = self._names_of(workload, new)
        if container not in names and len(names) >= MOST_CONTAINERS:
            return None
        if self._known.label_sets(workload) + len(new) >= MOST_LABEL_SETS:
            # It then counts for the workload whatever a VPA's selector is.
            key = (workload, container, UNKNOWN)
        if not self._exists(key):
            new.add(key)
            names.add(container)
        return key

    def reached(self, workload: str) -> str:
        """A sentence on what may be left out of a workload, with the bound; empty while nothing is."""
        if self._known.label_sets(workload) < MOST_CONTAINERS:
            return ""
        if len(self._known.containers(workload)) >= MOST_CONTAINERS:
            return f"container names beyond {MOST_CONTAINERS:,} of one workload are left out"
        if self._known.label_sets(workload) >= MOST_LABEL_SETS:
            return f"usage under label sets beyond {MOST_LABEL_SETS:,} of one workload counts as that of pods without labels"
        return ""

    def _names_of(self, workload: str, new: set[RowKey]) -> set[str]:
        """All names of a workload that comes near its bound; found once in a turn."""
        names = self._names.get(workload)
        if names is None:
            names = {name for name, _ in self._known.containers(workload)} | {name for _, name, _ in new}
            self._names[workload] = names
        return names
