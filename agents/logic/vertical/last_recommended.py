"""The last announcement about each container, and so what is new."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import ColumnSpec, Indices, RowKey, RowTable
from agents.logic.vertical.container_index import ContainerIndex
from agents.logic.vertical.recommended_amounts import AMOUNTS, Recommendation

_COLUMNS = {**{name: ColumnSpec(default=np.nan) for name in AMOUNTS}, "policy": ColumnSpec(np.int64)}


class Announced:
    """The amounts last announced, by workload and container, and the number of the policy that was in force then."""

    def __init__(self) -> None:
        self.table = RowTable("said", _COLUMNS)
        self.members: ContainerIndex
        """Set once; both know each other's rows."""

    def policy(self, members: Indices) -> Indices:
        """The policy under which each member was announced; -1 if it was not."""
        rows = self.members.numbers["announced"][members]
        if not len(self.table):
            return np.full(len(members), -1, np.int64)
        return np.where(rows >= 0, self.table.whole("policy")[rows], -1)

    def news(self, done: Recommendation, places: Indices, bounds_step: float) -> NDArray[np.bool_]:
        """Which places have other amounts than announced, or some for the first time, or some under another policy.

        Each of these places has a recommendation.
        """
        members = done.of.members[places]
        rows = self.members.numbers["announced"][members]
        if not len(self.table):
            return np.ones(len(places), np.bool_)
        before = np.column_stack([self.table.floats(name)[rows] for name in AMOUNTS])
        governed = self.members.numbers["policy"][members] != self.policy(members)
        # Any change of a target is new. A bound must have moved by a step, because bounds move with every sample.
        return np.asarray((rows < 0) | governed | done.moved(places, before, bounds_step))

    def remember(self, done: Recommendation, places: Indices) -> None:
        """The amounts at these places of a recommendation are announced."""
        members = done.of.members[places]
        rows = self.members.numbers["announced"][members]
        for new in (rows < 0).nonzero()[0].tolist():
            member = int(members[new])
            rows[new] = self.members.numbers["announced"][member] = self.table.add(self.members.names[member])
        for column, name in enumerate(AMOUNTS):
            self.table[name][rows] = done.amounts[places, column]
        self.table["policy"][rows] = self.members.numbers["policy"][members]
        self.table.touch(rows)

    def has(self, workload: str) -> bool:
        """Whether the last announcement has a recommendation."""
        return any(self.members.numbers["announced"][member] >= 0 for _, member in self.members.containers(workload))

    def withdraw(self, workload: str) -> None:
        """Nothing is recommended for this workload any more."""
        for name, member in self.members.containers(workload):
            if (workload, name) in self.table:
                self.table.free((workload, name))
                self.members.numbers["announced"][member] = -1
        self.table.freed.clear()

    def forget(self, containers: Sequence[RowKey]) -> set[str]:
        """These containers (workload, name) are gone; the workloads that lost an announced recommendation."""
        lost = [key for key in containers if key in self.table]
        for key in lost:
            self.table.free(key)
        self.table.freed.clear()
        return {workload for workload, _ in lost}
