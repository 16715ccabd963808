"""What follows from the names of the aggregates: which belong to a workload, when it is looked at, and the policy over each.

Nothing of this is dumped; it is made again from the names. Workloads are spread over the interval by a stable hash, so that a
turn looks at its share of them and a large partition does not recommend everything in one turn.
"""

import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from agents.logic.policies import Policies, bounds
from agents.logic.tables.rows import Floats, Indices, Key, Rows
from agents.logic.vertical.capping import limits_of


class Members:
    """Aggregates (workload, container) by workload, with what is known of each row."""

    def __init__(self, aggregates: Rows, said: Rows, policies: Policies) -> None:
        self._aggregates, self._said, self._policies = aggregates, said, policies
        self.rows_of: dict[str, dict[str, int]] = {}
        self.spread: Indices = np.zeros(0, np.int64)
        """A stable number for each row's workload."""
        self.said: Indices = np.zeros(0, np.int64)
        """The row of what was last said; -1 for nothing."""
        self.policy: Indices = np.zeros(0, np.int64)
        """A number that stands for the policy in force; 0 for none."""
        self.caps: Floats = np.zeros((0, 4))
        """Least and most millicores, least and most bytes; NaN for none."""

    def add(self, keys: Iterable[Key]) -> None:
        """These aggregates are new."""
        keys = list(keys)
        self._fit()
        for workload, container in keys:
            row = self._aggregates.find((workload, container))
            if row is not None:
                self.rows_of.setdefault(workload, {})[container] = row
                said = self._said.find((workload, container))
                self.said[row] = -1 if said is None else said
                self.spread[row] = zlib.crc32(workload.encode())
        self._govern(keys)

    def remove(self, keys: Iterable[Key]) -> list[str]:
        """These aggregates are gone; the workloads that have none left."""
        gone = []
        for workload, container in keys:
            rows = self.rows_of[workload]
            del rows[container]
            if not rows:
                del self.rows_of[workload]
                gone.append(workload)
        return gone

    def policies_changed(self) -> None:
        """Look every policy up again."""
        self._govern([(w, c) for w, containers in self.rows_of.items() for c in containers])

    def rows(self, workloads: Sequence[str]) -> Indices:
        """The rows of these workloads, in order of workload and container."""
        return np.array([row for w in workloads for _, row in sorted(self.rows_of.get(w, {}).items())], np.int64)

    def siblings(self, rows: Indices) -> Floats:
        """How many containers the workload of each row has."""
        return np.array([len(self.rows_of[self._aggregates.key(row)[0]]) for row in rows.tolist()], np.float64)

    def _fit(self) -> None:
        missing = len(self._aggregates["changed"]) - len(self.said)
        if missing > 0:
            nothing = np.zeros(missing, np.int64)
            self.spread, self.policy = np.append(self.spread, nothing), np.append(self.policy, nothing)
            self.said = np.append(self.said, nothing - 1)
            self.caps = np.vstack([self.caps, np.full((missing, 4), np.nan)])

    def _govern(self, keys: Iterable[Key]) -> None:
        for workload, container in keys:
            row = self.rows_of[workload][container]
            held = self._policies.of(workload)
            self.policy[row] = 0 if held is None else zlib.crc32(f"{held.policy.target}\n{held.policy.version}".encode())
            self.caps[row] = limits_of(bounds(held, container))
